"""Compressors see all of train, and have the scores that were measured elsewhere."""

import dataclasses

import numpy as np
import pytest

from bukva.evaluation import compressors
from bukva.evaluation.compressors import COMPRESSORS, scores

N = 1009


def walk(n, V, seed=1):
    return (np.random.default_rng(seed).integers(3, size=n).cumsum() % V).astype(np.uint8)


def compressed(name, ids):
    compress, end = COMPRESSORS[name].start()
    return compress(ids.tobytes()) + end()


def test_a_score_is_what_held_out_text_adds_in_bits_per_id():
    train, val, test = walk(N, 7), walk(211, 7, seed=2), walk(307, 7, seed=3)
    found = scores(train, {"val": val, "test": test}, 7)
    assert scores(train, {"val": val, "test": test}, 7) == found
    assert list(found) == ["val", "test"]
    for split, ids in {"val": val, "test": test}.items():
        assert list(found[split]) == list(COMPRESSORS)
        for name, bits in found[split].items():
            alone, joined = (compressed(name, text) for text in (train, np.concatenate([train, ids])))
            assert bits == 8 * (len(joined) - len(alone)) / len(ids)


def test_a_text_that_is_too_long_for_a_compressor_and_ids_larger_than_a_byte_have_no_score(monkeypatch):
    monkeypatch.setitem(COMPRESSORS, "xz", dataclasses.replace(COMPRESSORS["xz"], max_bytes=N + 10))
    found = scores(walk(N, 7), {"val": walk(10, 7), "test": walk(11, 7)}, 7)
    assert list(found["val"]) == list(COMPRESSORS)
    assert list(found["test"]) == ["ppmd"]
    train, val = walk(N, 7).astype(np.uint16), walk(211, 7).astype(np.uint16)
    assert scores(train, {"val": val}, 257) == {"val": {}}
    assert scores(train, {"val": val}, 256)["val"]


def test_of_a_long_train_compressors_read_evenly_spaced_excerpts(monkeypatch):
    monkeypatch.setattr(compressors, "MAX_READ", 68)
    monkeypatch.setattr(compressors, "N_EXCERPTS", 4)
    train, val = walk(N, 7), walk(211, 7, seed=2)
    excerpts = np.concatenate([train[start : start + 17] for start in (0, 330, 661, 992)])  # 330 2/3 apart
    assert scores(train, {"val": val}, 7) == scores(excerpts, {"val": val}, 7)


@pytest.mark.slow
def test_the_embedded_corpus_has_the_figures_of_the_reference_table(embedded):
    splits, vocab_size = embedded
    bits = scores(splits["train"], {"test": splits["test"]}, vocab_size)["test"]
    assert bits == pytest.approx({"xz": 3.03, "ppmd": 2.498}, abs=5e-3)
