"""Save n-gram counts to disk and memory-map them, so that a text does not have to be counted again.

A folder of counts, which stage `baselines` writes, contains about.json (SHA-256 of the counted ids, vocabulary size,
maximum order) and one .npy file for each array of the trie and of its smoothing.
"""

import contextlib
import hashlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from bukva.core.files import atomic_folder, read_json, write_json
from bukva.models.ngrams.kneser_ney import KneserNey
from bukva.models.ngrams.smoothing import Smoothed, Smoothing
from bukva.models.ngrams.trie import Trie
from bukva.text.ids import Ids

ABOUT = "about.json"
MIN_CACHED_IDS = 1 << 22  # counting this many ids takes seconds; a shorter text is not cached


def counts_of(train: Ids, vocab_size: int, max_order: int, stored: Path | None = None) -> KneserNey:
    """Return the n-gram counts of the (N,) ids `train` for all orders up to `max_order`, or up to a higher order.

    The counts are memory-mapped from the folder `stored` or from the user's cache. If neither contains the counts of
    this text, for example for a served model or a model of another experiment, the text is counted. The new counts of a
    long text are then written to the cache, where they replace the previous counts.
    """
    cache = _cache_folder()
    for folder in (stored, cache) if stored else (cache,):
        if loaded := load_counts(folder, train, vocab_size, max_order):
            return loaded
    counts = KneserNey.count(train, vocab_size, max_order)
    if len(train) >= MIN_CACHED_IDS:
        with contextlib.suppress(OSError):  # after an error, such as a full disk, the next call counts the text again
            save_counts(cache, train, counts)
    return counts


def save_counts(folder: Path, train: Ids, counts: KneserNey | None) -> None:
    """Write the counts of the (N,) ids `train` to a folder, or with None only that there are no counts."""
    with atomic_folder(folder) as unfinished:
        max_order = counts.max_order if counts else 0
        vocab_size = counts.vocab_size if counts else 0
        write_json(unfinished / ABOUT, _about(train, vocab_size) | {"max_order": max_order})
        for name, array in _arrays(counts) if counts else ():
            np.save(unfinished / f"{name}.npy", array)


def load_counts(folder: Path, train: Ids, vocab_size: int, max_order: int) -> KneserNey | None:
    """Memory-map the counts in a folder; None if it has no readable counts of this text, vocabulary and order."""
    try:
        about = read_json(folder / ABOUT)
        if about["max_order"] < max_order or about | _about(train, vocab_size) != about:
            return None
        trie = Trie(*(_mapped(folder, name) for name in Trie._fields))
        smoothed = [
            Smoothed(*(_mapped(folder, f"{kind}_{name}") for name in Smoothed._fields)) for kind in Smoothing._fields
        ]
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return KneserNey(vocab_size, about["max_order"], trie, Smoothing(*smoothed))


def _about(train: Ids, vocab_size: int) -> dict[str, Any]:
    return {"train_sha256": hashlib.sha256(np.ascontiguousarray(train).data).hexdigest(), "vocab_size": vocab_size}


def _arrays(counts: KneserNey) -> Iterator[tuple[str, npt.NDArray[Any]]]:
    yield from counts.trie._asdict().items()
    for kind, smoothed in counts.smoothing._asdict().items():
        yield from ((f"{kind}_{name}", array) for name, array in smoothed._asdict().items())


def _mapped(folder: Path, name: str) -> npt.NDArray[Any]:
    # copy-on-write, because the compiled loops expect writable arrays
    return np.asarray(np.load(folder / f"{name}.npy", mmap_mode="c"))


def _cache_folder() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "bukva" / "ngrams"
