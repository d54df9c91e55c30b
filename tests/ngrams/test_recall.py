"""What a memory recalls, against the formulas; what is left out, against counting again without it.

The rule of leaving out is that of bukva.ngrams.kneser_ney: counts are recounted, the discounts stay.
"""

import math
from collections import Counter, defaultdict

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from ngrams.witness import Witness, skewed

from bukva.ngrams.kneser_ney import KneserNey

NEAR = {"rtol": 2e-6, "atol": 1e-9}  # float32


def windows(ids, starts, length):
    """(B, length)."""
    return np.array([ids[start : start + length] for start in starts], np.int64)


# ---- witnesses


class Recount:
    """p(w | h) at one place of train, as if the id there had not been counted."""

    def __init__(self, train, vocab_size):
        self.train, self.vocab_size = list(train), vocab_size
        whole = Witness(self.train, vocab_size)
        self.discount = {
            (length, is_longest): Witness.discounts(whole.counts(length, is_longest))
            for length in range(1, 10)
            for is_longest in (False, True)
        }

    def counts(self, length, left_out, start):
        """gram -> its count, and gram -> its continuation count, without the gram that ends with id `left_out`.

        A gram that begins where the window does loses its left neighbour only if all its occurrences have different
        ones; one that begins before the window is not seen, and loses nothing.
        """
        counts, before = Counter(), defaultdict(list)
        for i in range(len(self.train) - length + 1):
            gram = tuple(self.train[i : i + length])
            counts[gram] += 1
            before[gram].append(self.train[i - 1] if i else "start")
        continuations = {gram: len(set(found)) for gram, found in before.items()}
        first = left_out - length + 1
        if first >= start:
            gram = tuple(self.train[first : left_out + 1])
            neighbour = self.train[first - 1] if first else "start"
            counts[gram] -= 1
            is_known, all_differ = first > start, len(set(before[gram])) == len(before[gram])
            if is_known or all_differ:
                others = list(before[gram])
                others.remove(neighbour)
                continuations[gram] = len(set(others))
        return counts, continuations

    def distribution(self, place, start, order):
        """(V,) for the id at a place, in a window that starts at `start`."""
        p = [1 / self.vocab_size] * self.vocab_size
        for length in range(1, min(order, place - start + 1) + 1):
            h = tuple(self.train[place - length + 1 : place])
            counts = self.counts(length, place, start)[length < order]
            counts = {gram[-1]: count for gram, count in counts.items() if gram[:-1] == h and count}
            if not counts:
                continue
            discount, total = self.discount[length, length == order], sum(counts.values())
            freed = sum(map(discount, counts.values()))
            shares = [counts.get(w, 0) - discount(counts.get(w, 0)) for w in range(self.vocab_size)]
            p = [(share + freed * shorter) / total for share, shorter in zip(shares, p, strict=True)]
        return p

    def seen(self, place, start, max_order):
        """(2, K)."""
        found = np.zeros((2, max_order))
        for n in range(min(max_order, place - start + 1)):
            h = tuple(self.train[place - n : place])
            counts = self.counts(n + 1, place, start)[0]
            followers = [count for gram, count in counts.items() if gram[:-1] == h and count]
            found[:, n] = sum(followers), len(followers)
        return found


def seen_of(train, context, max_order):
    """(2, K), how often train has the ends of a context with something after them, and before how many ids."""
    found = np.zeros((2, max_order))
    for n in range(min(max_order, len(context) + 1)):
        h = tuple(context[len(context) - n :])
        followers = [train[i + n] for i in range(len(train) - n) if tuple(train[i : i + n]) == h]
        found[:, n] = len(followers), len(set(followers))
    return found


@st.composite
def texts(draw):
    """(ids of train, V, orders)."""
    V = draw(st.integers(1, 4))
    train = draw(st.lists(st.integers(0, V - 1), min_size=2, max_size=40))
    return train, V, sorted(draw(st.sets(st.integers(1, 6), min_size=1, max_size=3)))


# ---- nothing left out


@given(texts(), st.data())
@settings(max_examples=30)
def test_it_recalls_the_probabilities_of_the_formulas_for_every_id(text, data):
    train, V, orders = text
    window = data.draw(st.lists(st.integers(0, V - 1), min_size=1, max_size=9))
    n_positions = data.draw(st.integers(1, len(window)))
    found = KneserNey(np.array(train, np.uint8), V, orders[-1]).recall(np.array([window]), orders, n_positions)
    witness = Witness(train, V)
    assert found.probabilities.shape == (1, n_positions, len(orders), V)
    for t in range(n_positions):
        context = window[: len(window) - n_positions + t + 1]
        for r, order in enumerate(orders):
            h = tuple(context[max(len(context) - order + 1, 0) :])
            expected = [witness.probability(w, h, is_longest=len(h) == order - 1) for w in range(V)]
            np.testing.assert_allclose(found.probabilities[0, t, r], expected, **NEAR)
        assert found.seen[0, t].tolist() == seen_of(train, context, orders[-1]).tolist()


def test_it_recalls_what_the_model_scores_by():
    V, train, ids = 11, skewed(1009, 11), skewed(37, 11, seed=2)
    model = KneserNey(train, V, 8)
    found = model.recall(ids[None, :-1], [2, 3, 5, 8], 36).probabilities[0]  # (T, R, V)
    for r, (_, nats) in enumerate(model.nats_by_order(ids, [2, 3, 5, 8]).items()):
        np.testing.assert_allclose(found[np.arange(36), r, ids[1:]], np.exp(-nats[1:]), **NEAR)


@pytest.mark.parametrize("leave_out", [False, True])
def test_probabilities_are_positive_and_sum_to_one(leave_out):
    V, train = 13, skewed(997, 11)  # two ids are not in train
    ids = windows(train, [0, 3, 501, 980], 17)
    found = KneserNey(train, V, 7).recall(ids, [1, 4, 7], 11, leave_out=leave_out).probabilities
    assert found.shape == (4, 11, 3, V)
    assert (found > 0).all()
    np.testing.assert_allclose(found.sum(-1, dtype=np.float64), 1, rtol=1e-6)


def test_after_ids_that_train_lacks_it_recalls_the_shortest_context():
    V, train = 13, skewed(997, 11)
    model = KneserNey(train, V, 5)
    found, nothing = (model.recall(np.array([ids]), [5], 1) for ids in ([3, 5, 12], [12]))
    assert found.probabilities.tolist() == nothing.probabilities.tolist()
    assert found.seen[0, 0].tolist() == [[997, 0, 0, 0, 0], [11, 0, 0, 0, 0]]
    never = nothing.probabilities[0, 0, 0, 11:]  # both are equally likely, and less likely than any other
    assert never[0] == never[1] < nothing.probabilities[0, 0, 0, :11].min()


def test_an_order_above_the_window_uses_what_the_window_holds():
    V, train = 7, skewed(499, 7)
    model = KneserNey(train, V, 8)
    short = model.recall(train[None, 40:42].astype(np.int64), [8], 2)
    whole = model.recall(train[None, 20:42].astype(np.int64), [8], 2)
    assert short.probabilities[0].tolist() != whole.probabilities[0].tolist()
    assert short.seen[0, 1, :, :3].tolist() == whole.seen[0, 1, :, :3].tolist()
    assert not short.seen[0, 1, :, 3:].any()
    expected = [Witness(train.tolist(), V).probability(w, tuple(train[40:42].tolist()), False) for w in range(V)]
    np.testing.assert_allclose(short.probabilities[0, 1, 0], expected, **NEAR)


@pytest.mark.parametrize("n_windows", [0, 1, 2, 3, 5, 7])
@pytest.mark.parametrize("n_threads", [2, 3, 11])
def test_any_number_of_threads_recalls_the_same(n_windows, n_threads):
    train = skewed(997, 7, 1)
    model, ids = KneserNey(train, 7, 5), windows(train, range(0, 13 * n_windows, 13), 11)
    ids = ids.reshape(n_windows, 11)
    one, several = (model.recall(ids, [2, 5], 8, leave_out=True, n_threads=n) for n in (1, n_threads))
    assert np.array_equal(one.probabilities, several.probabilities)
    assert np.array_equal(one.seen, several.seen)


@pytest.mark.parametrize("leave_out", [False, True])
def test_the_last_positions_of_a_window_are_those_of_all_its_positions(leave_out):
    train = skewed(499, 7)
    model, ids = KneserNey(train, 7, 5), windows(train, [0, 101], 13 + leave_out)
    whole = model.recall(ids, [2, 5], 13, leave_out=leave_out)
    for n in (1, 2, 11):
        last = model.recall(ids, [2, 5], n, leave_out=leave_out)
        for found, expected in zip(last, whole, strict=True):
            assert found.tolist() == expected[:, -n:].tolist()


@pytest.mark.parametrize("leave_out", [False, True])
@pytest.mark.parametrize("orders", [[1], [2, 5]])
@pytest.mark.parametrize("share", [0, 0.3, 1])
def test_wanted_positions_are_those_of_all_positions(leave_out, orders, share):
    train = skewed(499, 7)
    model, ids = KneserNey(train, 7, orders[-1]), windows(train, [0, 101, 203], 13 + leave_out)
    whole, wanted = model.recall(ids, orders, 13, leave_out=leave_out), np.random.default_rng(1).random((3, 13)) < share
    for longest in (False, True):
        found = model.recall(ids, orders, 13, leave_out=leave_out, wanted=wanted, longest=longest, n_threads=2)
        assert found.probabilities.tolist() == whole.probabilities[wanted].tolist()
        assert found.seen.tolist() == whole.seen[wanted].tolist()
        assert found.longest.tolist() == whole.probabilities[:, : 13 * longest, -1].tolist()


# ---- left out


@given(texts(), st.data())
@settings(max_examples=30)
@example(([0, 0, 0, 0, 0], 1, [1, 3]), None)
@example(([0, 1, 2, 3, 0, 1, 2, 3, 1], 4, [2, 4, 5]), None)
def test_what_follows_is_left_out_as_if_train_was_counted_without_it(text, data):
    train, V, orders = text
    start = data.draw(st.integers(0, len(train) - 2)) if data else 0
    window = train[start:]
    n_positions = data.draw(st.integers(1, len(window) - 1)) if data else len(window) - 1
    model = KneserNey(np.array(train, np.uint8), V, orders[-1])
    found = model.recall(np.array([window]), orders, n_positions, leave_out=True)
    recount = Recount(train, V)
    for t, place in enumerate(range(len(train) - n_positions, len(train))):
        for r, order in enumerate(orders):
            expected = recount.distribution(place, start, order)
            np.testing.assert_allclose(found.probabilities[0, t, r], expected, **NEAR)
        assert found.seen[0, t].tolist() == recount.seen(place, start, orders[-1]).tolist()


@pytest.mark.parametrize("orders", [[3], [2, 5], [1, 4, 7]])
def test_it_is_left_out_where_discounts_are_estimated(orders):
    V, train = 5, skewed(307, 5)
    found = KneserNey(train, V, orders[-1]).recall(train[None, :60].astype(np.int64), orders, 59, leave_out=True)
    recount = Recount(train.tolist(), V)
    for place in (1, 2, 5, 11, 31, 59):
        for r, order in enumerate(orders):
            expected = recount.distribution(place, 0, order)
            np.testing.assert_allclose(found.probabilities[0, place - 1, r], expected, **NEAR)


def test_what_is_left_out_of_random_text_teaches_nothing():
    """Of n-grams that occur once, a model that sees its answers gives them most of the probability."""
    V, length, orders = 17, 11, [3, 5, 8]
    train = np.random.default_rng(1).integers(V, size=20_011).astype(np.uint8)
    ids = windows(train, range(0, 20_000, length), length + 1)
    model = KneserNey(train, V, 8)

    def nats(recall):
        p = np.take_along_axis(recall.probabilities, ids[:, 1:, None, None], axis=-1)[..., 0]  # (B, T, R)
        return -np.log(p).mean(0)

    assert nats(model.recall(ids, orders, length, leave_out=True)).min() > math.log(V) - 0.02
    assert nats(model.recall(ids[:, :-1], orders, length))[7:, -1].max() < 0.2
