"""Kneser-Ney, compared with the formulas of Chen & Goodman (1998), computed one character at a time."""

import math

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from models.ngrams.witness import Witness, skewed

from bukva.models.ngrams import trie
from bukva.models.ngrams.kneser_ney import KneserNey
from bukva.models.ngrams.smoothing import FALLBACK, discounts_of


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
