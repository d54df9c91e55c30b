"""N-gram counts on disk equal counts in memory, and are mapped only for the text that they were counted on."""

import numpy as np
import pytest
from models.ngrams.witness import skewed

from bukva.models.ngrams.kneser_ney import KneserNey
from bukva.models.ngrams.stored import counts_of, load_counts, save_counts

V, K = 7, 5
TRAIN = skewed(997, V, seed=3)


def nats_of(model, ids, order):
    return model.nats_by_order(ids, [order])[order].tolist()


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Folder with the counts of TRAIN up to order K, as stage `baselines` writes it."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    save_counts(tmp_path / "data" / "ngrams", TRAIN, KneserNey.count(TRAIN, V, K))
    return tmp_path / "data" / "ngrams"


@pytest.fixture
def counted(monkeypatch):
    calls, count = [], KneserNey.count
    monkeypatch.setattr(KneserNey, "count", lambda *args: calls.append(args) or count(*args))
    return calls


@pytest.mark.parametrize("order", [3, K])
def test_mapped_counts_give_the_bytes_of_a_shorter_count(folder, counted, order):
    mapped = counts_of(TRAIN, V, order, folder)
    assert not counted
    assert isinstance(mapped.trie.counts.base, np.memmap)
    own, windows = KneserNey.count(TRAIN, V, order), TRAIN[: 7 * 13].reshape(7, 13).astype(np.int64)
    assert nats_of(mapped, TRAIN[:101], order) == nats_of(own, TRAIN[:101], order)
    for ours, theirs in zip(
        mapped.lookup(windows, [2, order], 11, leave_out=True),
        own.lookup(windows, [2, order], 11, leave_out=True),
        strict=True,
    ):
        assert ours.tobytes() == theirs.tobytes()


@pytest.mark.parametrize(
    ("train", "size", "order"),
    [(TRAIN[:-1], V, K), (TRAIN, V + 1, K), (TRAIN, V, K + 1)],
    ids=["text", "size", "order"],
)
def test_another_text_or_a_longer_order_is_counted(folder, counted, train, size, order):
    assert load_counts(folder, train, size, order) is None
    assert sum(nats_of(counts_of(train, size, order, folder), train, order)) > 0
    assert len(counted) == 1


def test_a_torn_folder_is_not_mapped(folder):
    (folder / "by_count_freed.npy").write_bytes(b"\x93NUMPY")
    assert load_counts(folder, TRAIN, V, K) is None
