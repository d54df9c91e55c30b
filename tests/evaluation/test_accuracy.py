"""Accuracy of what is counted: the likeliest guess is found by trying every id."""

import numpy as np
import pytest

from bukva.evaluation import scores
from bukva.evaluation.scores import counted_accuracy
from bukva.models.ngrams.counts import count_pairs
from bukva.models.ngrams.kneser_ney import KneserNey
from bukva.text.held_out import HeldOut
from bukva.text.tokenizers.char import CharTokenizer

V, ORDER = 5, 4


@pytest.fixture
def text():
    """Text in which one id often follows another, in three works."""
    rng, splits = np.random.default_rng(1), {}
    for split, n in (("train", 3000), ("val", 211)):
        ids = rng.integers(V, size=n)
        ids[1::2] = (ids[::2][: n // 2] * 2 + rng.integers(2, size=n // 2)) % V
        splits[split] = ids.astype(np.uint8)
    lengths = {"train": np.array([1500, 700, 800]), "val": np.array([101, 109, 1])}
    return HeldOut(splits, lengths, CharTokenizer(list("абвгд")))


@pytest.mark.parametrize("at_once", [2**22, 7 * V])
def test_the_guesses_are_the_likeliest_of_all_ids(text, at_once, monkeypatch):
    monkeypatch.setattr(scores, "AT_ONCE", at_once)
    train = text.splits["train"]
    ngrams, pairs = KneserNey.count(train, V, ORDER), count_pairs(train, V)
    by_pairs, by_ngrams = [], []
    for work in text.passages("val", ORDER - 1):
        for i in range(work.n_context, len(work.ids)):
            before, followed = work.ids[max(0, i - ORDER + 1) : i], work.ids[i]
            texts = [np.append(before, v).astype(np.uint8) for v in range(V)]
            nats = [ngrams.nats_by_order(each, [ORDER])[ORDER][-1] for each in texts]
            by_ngrams.append(np.argmin(nats) == followed)
            by_pairs.append(pairs[before[-1]].argmax() == followed)
    found = counted_accuracy(text, f"ngram_{ORDER}")
    assert found == pytest.approx({"bigram_exact": np.mean(by_pairs), f"ngram_{ORDER}": np.mean(by_ngrams)})
    assert found["bigram_exact"] > 1.3 / V


def test_the_n_grams_of_a_long_text_are_left_out(text, monkeypatch):
    monkeypatch.setattr(scores, "MAX_SCORED_IDS", 100)
    assert list(counted_accuracy(text, f"ngram_{ORDER}")) == ["bigram_exact"]
