"""Kneser-Ney, compared with the formulas; leave-one-out, compared with counting again without one occurrence."""

import math

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from models.ngrams.witness import Witness, skewed

from bukva.models.ngrams import trie
from bukva.models.ngrams.kneser_ney import KneserNey
from bukva.models.ngrams.smoothing import FALLBACK, discounts_of
from bukva.text.ids import NO_ID

NEAR = {"rtol": 2e-6, "atol": 1e-9}  # float32


def nats_of(model, ids, order):
    return model.nats_by_order(ids, [order])[order]


@st.composite
def cases(draw):
    V = draw(st.integers(1, 5))
    ids = st.integers(0, V - 1)
    train = draw(st.lists(ids, min_size=1, max_size=60))
    return train, draw(st.lists(ids, max_size=20)), V, draw(st.integers(1, 5))


@given(cases())
@settings(max_examples=20)
@example(([0], [0, 0, 0, 0], 1, 3))
@example(([0, 1], [1, 0, 1], 2, 5))  # train is shorter than the order
def test_nats_are_those_of_the_formulas(case):
    train, ids, V, order = case
    model = KneserNey.count(np.array(train, np.uint8), V, order)
    expected = Witness(train, V).nats(ids, order)
    assert nats_of(model, np.array(ids, np.uint8), order) == pytest.approx(expected, rel=1e-12, abs=1e-12)


@pytest.mark.parametrize(
    ("V", "dtype", "order", "greatest"),
    [(11, "uint8", 3, trie.MAX_CODE), (3, "uint8", 8, 100), (256, "uint8", 4, 10**7), (65_521, "uint16", 4, 10**7)],
)
def test_nats_are_those_of_the_formulas_where_discounts_are_estimated(V, dtype, order, greatest, monkeypatch):
    """Some cases have the greatest ids of a type, or grams that are counted by ranks because codes are too large."""
    monkeypatch.setattr("bukva.models.ngrams.smoothing.CHUNK", 3)  # contexts that are smoothed at once
    monkeypatch.setattr(trie, "MAX_CODE", greatest)
    train, ids = ((V - 1 - skewed(n, min(V, 11), seed=n)).astype(dtype) for n in (1009, 31))
    counts = np.array(list(Witness(train.tolist(), V).counts(order, is_longest=True).values()))
    assert discounts_of(counts).tolist() != list(FALLBACK)
    expected = Witness(train.tolist(), V).nats(ids.tolist(), order)
    assert nats_of(KneserNey.count(train, V, order), ids, order) == pytest.approx(expected, rel=1e-12)


def test_the_embedded_corpus_has_the_figures_of_the_reference_table(embedded):
    # measured with another implementation; KenLM's lmplz agrees with it to 5e-5 bits
    reference = {3: 3.190, 4: 2.756, 5: 2.556, 6: 2.511, 8: 2.495}
    splits, vocab_size = embedded
    nats = KneserNey.count(splits["train"], vocab_size, 8).nats_by_order(splits["test"], reference)
    bits = {order: values.mean() / math.log(2) for order, values in nats.items()}
    assert bits == pytest.approx(reference, abs=5e-4)


# ---- lookups


def windows(ids, starts, length):
    return np.array([ids[start : start + length] for start in starts], np.int64)


def seen(witness, before, max_order):
    """Return the counts of the contexts that end here: occurrences, and different ids that follow; 0 for none."""
    followers = [witness.followers(tuple(before[len(before) - n :])) for n in range(min(max_order, len(before) + 1))]
    followers += [{}] * (max_order - len(followers))
    return [[sum(each.values()) for each in followers], [len(each) for each in followers]]


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
            np.testing.assert_allclose(result.probabilities[0, t, r], witness.distribution(context, order), **NEAR)
        assert result.seen[0, t].tolist() == seen(witness, context, orders[-1])


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
    for t, position in enumerate(range(len(train) - n_positions, len(train))):
        witness = Witness(train, V, left_out=position)
        for r, order in enumerate(orders):
            expected = witness.distribution(train[:position], order)
            np.testing.assert_allclose(result.probabilities[0, t, r], expected, **NEAR)
        assert result.seen[0, t].tolist() == seen(witness, train[:position], orders[-1])


def test_it_is_left_out_where_discounts_are_estimated():
    V, train, orders = 5, skewed(307, 5), [2, 5]
    result = KneserNey.count(train, V, orders[-1]).lookup(train[None, :60].astype(np.int64), orders, 59, leave_out=True)
    for position in (1, 5, 59):
        witness = Witness(train.tolist(), V, left_out=position)
        for r, order in enumerate(orders):
            expected = witness.distribution(train[:position].tolist(), order)
            np.testing.assert_allclose(result.probabilities[0, position - 1, r], expected, **NEAR)
