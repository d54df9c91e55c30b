"""Baselines, compared with counting one character at a time."""

import math
from collections import Counter

import numpy as np
import pytest

from bukva.models.ngrams import counts as module
from bukva.models.ngrams.counts import bits_of_train, scorers
from bukva.text.ids import bits

V = 5


def text(n, seed=1):
    return np.random.default_rng(seed).integers(V, size=n).astype(np.uint8) // 2


def count_one_by_one(train, scored, order, smoothing):
    grams = Counter(tuple(train[i - order : i + 1]) for i in range(1, len(train)))
    contexts = Counter(gram[:-1] for gram in grams.elements())
    bits = 0.0
    for i in range(1, len(scored)):
        gram = tuple(scored[i - order : i + 1])
        bits -= math.log2((grams[gram] + smoothing) / (contexts[gram[:-1]] + smoothing * V))
    return bits / (len(scored) - 1)


@pytest.mark.parametrize(("name", "order"), [("unigram", 0), ("bigram_exact", 1)])
def test_baselines_equal_counting_one_by_one(name, order, monkeypatch):
    monkeypatch.setattr(module, "CHUNK", 7)
    train, val = text(401), text(97, seed=2)
    assert bits_of_train(train, V)[name] == pytest.approx(count_one_by_one(train.tolist(), train.tolist(), order, 0))
    nats = scorers(train, V)[name](val)
    assert len(nats) == 96
    assert bits(nats.mean()) == pytest.approx(count_one_by_one(train.tolist(), val.tolist(), order, 1))
