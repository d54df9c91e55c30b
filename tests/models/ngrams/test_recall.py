"""N-gram lookups, compared with the formulas; and leave-one-out, compared with counting again without one occurrence.

As in bukva.models.ngrams.kneser_ney, leaving out an occurrence changes the counts, but not the discounts.
"""

from collections import Counter, defaultdict

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from models.ngrams.witness import Witness, skewed

from bukva.models.ngrams.kneser_ney import KneserNey
from bukva.text.ids import NO_ID

NEAR = {"rtol": 2e-6, "atol": 1e-9}  # float32


def windows(ids, starts, length):
    return np.array([ids[start : start + length] for start in starts], np.int64)


class Recount:
    """p(w | h) at a position of train, as if the id at this position had not been counted."""

    def __init__(self, train, vocab_size):
        self.train, self.vocab_size = list(train), vocab_size
        whole = Witness(self.train, vocab_size)
        self.discount = {
            (length, is_longest): Witness.discounts(whole.counts(length, is_longest))
            for length in range(1, 10)
            for is_longest in (False, True)
        }

    def counts(self, length, left_out):
        """Return the counts and the continuation counts of grams, without the gram that ends at `left_out`."""
        counts, before = Counter(), defaultdict(list)
        for i in range(len(self.train) - length + 1):
            gram = tuple(self.train[i : i + length])
            counts[gram] += 1
            before[gram].append(self.train[i - 1] if i else "start")
        first = left_out - length + 1
        if first >= 0:
            gram = tuple(self.train[first : left_out + 1])
            counts[gram] -= 1
            before[gram].remove(self.train[first - 1] if first else "start")
        return counts, {gram: len(set(ids)) for gram, ids in before.items()}

    def distribution(self, position, order):
        """Return the (V,) probabilities of the id at a position."""
        p = [1 / self.vocab_size] * self.vocab_size
        for length in range(1, min(order, position + 1) + 1):
            h = tuple(self.train[position - length + 1 : position])
            counts = self.counts(length, position)[length < order]
            counts = {gram[-1]: count for gram, count in counts.items() if gram[:-1] == h and count}
            if not counts:
                continue
            discount, total = self.discount[length, length == order], sum(counts.values())
            freed = sum(map(discount, counts.values()))
            left = [counts.get(w, 0) - discount(counts.get(w, 0)) for w in range(self.vocab_size)]
            p = [(count + freed * shorter) / total for count, shorter in zip(left, p, strict=True)]
        return p

    def seen(self, position, max_order):
        """Return (2, K) counts of the contexts before a position: occurrences, and different ids that follow."""
        seen = np.zeros((2, max_order))
        for n in range(min(max_order, position + 1)):
            h = tuple(self.train[position - n : position])
            counts = self.counts(n + 1, position)[0]
            followers = [count for gram, count in counts.items() if gram[:-1] == h and count]
            seen[:, n] = sum(followers), len(followers)
        return seen


@st.composite
def texts(draw):
    V = draw(st.integers(1, 4))
    train = draw(st.lists(st.integers(0, V - 1), min_size=2, max_size=40))
    return train, V, sorted(draw(st.sets(st.integers(1, 6), min_size=1, max_size=3)))


@given(texts(), st.data())
@settings(max_examples=15)
def test_it_recalls_the_probabilities_of_the_formulas_for_every_id(text, data):
    train, V, orders = text
    window = data.draw(st.lists(st.integers(0, V - 1), min_size=1, max_size=9))
    n_positions = data.draw(st.integers(1, len(window)))
    result = KneserNey.count(np.array(train, np.uint8), V, orders[-1]).lookup(np.array([window]), orders, n_positions)
    witness = Witness(train, V)
    assert result.probabilities.shape == (1, n_positions, len(orders), V)
    for t in range(n_positions):
        context = window[: len(window) - n_positions + t + 1]
        for r, order in enumerate(orders):
            h = tuple(context[max(len(context) - order + 1, 0) :])
            expected = [witness.probability(w, h, is_longest=len(h) == order - 1) for w in range(V)]
            np.testing.assert_allclose(result.probabilities[0, t, r], expected, **NEAR)
        for n in range(min(orders[-1], len(context) + 1)):
            h = context[len(context) - n :]
            followers = [train[i + n] for i in range(len(train) - n) if train[i : i + n] == h]
            assert result.seen[0, t, :, n].tolist() == [len(followers), len(set(followers))]


@pytest.mark.parametrize("leave_out", [False, True])
@pytest.mark.parametrize("share", [0, 0.3])
def test_wanted_positions_by_two_threads_are_those_of_all_positions_by_one(leave_out, share):
    train, orders = skewed(499, 7), [2, 5]
    model, ids = KneserNey.count(train, 7, orders[-1]), windows(train, [0, 101, 203], 13 + leave_out)
    whole, wanted = model.lookup(ids, orders, 13, leave_out=leave_out), np.random.default_rng(1).random((3, 13)) < share
    for longest in (False, True):
        result = model.lookup(ids, orders, 13, leave_out=leave_out, wanted=wanted, longest=longest, n_threads=2)
        assert result.probabilities.tolist() == whole.probabilities[wanted].tolist()
        assert result.seen.tolist() == whole.seen[wanted].tolist()
        assert result.longest.tolist() == whole.probabilities[:, : 13 * longest, -1].tolist()


@given(texts(), st.data())
@settings(max_examples=15)
@example(([0, 0, 0, 0, 0], 1, [1, 3]), None)
@example(([0, 1, 2, 3, 0, 1, 2, 3, 1], 4, [2, 4, 5]), None)
def test_what_follows_is_left_out_as_if_train_was_counted_without_it(text, data):
    train, V, orders = text
    start = data.draw(st.integers(0, len(train) - 2)) if data else 0  # start of a window that ends with train
    n_positions, n_before = len(train) - start - 1, max(0, orders[-1] - 2)
    window = [*[NO_ID] * max(0, n_before - start), *train[max(0, start - n_before) :]]
    model = KneserNey.count(np.array(train, np.uint8), V, orders[-1])
    result = model.lookup(np.array([window]), orders, n_positions, leave_out=True)
    recount = Recount(train, V)
    for t, position in enumerate(range(len(train) - n_positions, len(train))):
        for r, order in enumerate(orders):
            expected = recount.distribution(position, order)
            np.testing.assert_allclose(result.probabilities[0, t, r], expected, **NEAR)
        assert result.seen[0, t].tolist() == recount.seen(position, orders[-1]).tolist()


def test_it_is_left_out_where_discounts_are_estimated():
    V, train, orders = 5, skewed(307, 5), [2, 5]
    result = KneserNey.count(train, V, orders[-1]).lookup(train[None, :60].astype(np.int64), orders, 59, leave_out=True)
    recount = Recount(train.tolist(), V)
    for position in (1, 5, 59):
        for r, order in enumerate(orders):
            expected = recount.distribution(position, order)
            np.testing.assert_allclose(result.probabilities[0, position - 1, r], expected, **NEAR)
