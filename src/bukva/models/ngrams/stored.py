"""The counts of train on disk: arrays that are mapped into memory instead of being counted again.

A folder holds about.json (the digest of the ids that were counted, the size of the vocabulary, the greatest order) and
one .npy file for each array of the trie and of its smoothing. Stage baselines writes it. `counts_of` maps that folder
if it has the counts of the text, and counts otherwise. Counts are exact, so both give the same bytes.
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
MANY = 1 << 22  # ids that take seconds to count


def counts_of(train: Ids, vocab_size: int, max_order: int, stored: Path | None = None) -> KneserNey:
    """Return the counts of (N,) ids up to an order, mapped from the folder `stored` or from the user's cache.

    A long text that is in neither (a model of another experiment, a served model) is counted again and then kept in the
    cache, which holds one text.
    """
    cache = _cache_folder()
    for folder in (stored, cache) if stored else (cache,):
        if found := load_counts(folder, train, vocab_size, max_order):
            return found
    counts = KneserNey.count(train, vocab_size, max_order)
    if len(train) >= MANY:
        with contextlib.suppress(OSError):  # a full disk, or a user without a folder: it is counted again next time
            save_counts(cache, train, counts)
    return counts


def save_counts(folder: Path, train: Ids, counts: KneserNey | None) -> None:
    """Write the counts of (N,) ids of train in one step; None for no counts."""
    with atomic_folder(folder) as unfinished:
        max_order = counts.max_order if counts else 0
        vocab_size = counts.vocab_size if counts else 0
        write_json(unfinished / ABOUT, _about(train, vocab_size) | {"max_order": max_order})
        for name, array in _arrays(counts) if counts else ():
            np.save(unfinished / f"{name}.npy", array)


def load_counts(folder: Path, train: Ids, vocab_size: int, max_order: int) -> KneserNey | None:
    """The counts in a folder, memory-mapped; None if it has others, or does not go up to this order."""
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
    """An array of a file; copy on write, because compiled loops are compiled for arrays that may be written."""
    return np.asarray(np.load(folder / f"{name}.npy", mmap_mode="c"))


def _cache_folder() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "bukva" / "ngrams"
