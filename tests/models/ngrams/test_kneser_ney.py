"""Kneser-Ney, compared with the formulas of Chen & Goodman (1998), computed one character at a time."""

import math

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from models.ngrams.witness import Witness, skewed

from bukva.models.ngrams.kneser_ney import KneserNey
from bukva.models.ngrams.smoothing import FALLBACK, Smoothed, discounts_of
from bukva.models.ngrams.trie import count_ngrams


def nats_of(model, ids, order):
    return model.nats_by_order(ids, [order])[order]


@st.composite
def cases(draw):
    """Draw ids of train, ids to score, V and an order."""
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


@pytest.mark.parametrize(("V", "order"), [(11, 3), (3, 8)])
def test_nats_are_those_of_the_formulas_where_discounts_are_estimated(V, order):
    train, ids = skewed(1009, V), skewed(31, V, seed=2)
    counts = np.array(list(Witness(train.tolist(), V).counts(order, is_longest=True).values()))
    assert discounts_of(counts).tolist() != list(FALLBACK)
    expected = Witness(train.tolist(), V).nats(ids.tolist(), order)
    assert nats_of(KneserNey.count(train, V, order), ids, order) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("counts", [[1, 2, 9], [2, 3, 4], [1, 1, 1, 2, 3, 3, 3, 3]])
def test_discounts_are_fixed_where_counts_of_counts_do_not_give_them(counts):
    assert discounts_of(np.array(counts)).tolist() == [0, 0.5, 1, 1.5]


def test_contexts_are_smoothed_in_pieces_as_they_are_all_at_once(monkeypatch):
    trie = count_ngrams(skewed(401, 7), 7, 4)
    whole = Smoothed.of(trie.counts, trie)
    monkeypatch.setattr("bukva.models.ngrams.smoothing.CHUNK", 3)
    for array, expected in zip(Smoothed.of(trie.counts, trie), whole, strict=True):
        assert array.tolist() == expected.tolist()


def test_the_embedded_corpus_has_the_figures_of_the_reference_table(embedded):
    # measured with another implementation; KenLM's lmplz agrees with it to 5e-5 bits
    reference = {3: 3.190, 4: 2.756, 5: 2.556, 6: 2.511, 8: 2.495}
    splits, vocab_size = embedded
    nats = KneserNey.count(splits["train"], vocab_size, 8).nats_by_order(splits["test"], reference)
    bits = {order: values.mean() / math.log(2) for order, values in nats.items()}
    assert bits == pytest.approx(reference, abs=5e-4)
