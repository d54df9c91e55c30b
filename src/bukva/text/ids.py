"""Ids (numbers of entries in the vocabulary): the files of the splits, and losses in nats as scores of characters."""

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from bukva.core.errors import ParamsError
from bukva.core.files import atomic_folder

if TYPE_CHECKING:
    import pandas as pd

Ids = npt.NDArray[np.unsignedinteger]  # (N,) ids, of the smallest type that can hold them
Nats = npt.NDArray[np.floating]  # (N,) losses of ids, in nats
CharNats = npt.NDArray[np.float32]  # (N,) losses of characters, in nats
Scorer = Callable[[Ids], Nats]  # (n,) ids -> (n - 1,) losses of ids[1:] in nats, each given the ids before it
# (n_works, n_splits) number of ids of each work in each split, or (n_works,) number of ids of each work in one split
Lengths = npt.NDArray[np.int64]
# (n_works, 2) start and stop of each work's part in a split, as positions in the joined corpus
Spans = npt.NDArray[np.int64]

NO_ID = -1  # value for positions before the start of a text
SPLITS = ("train", "val", "test")
LENGTHS, SHARES = "lengths.npy", "shares.parquet"


def save_ids(path: Path, parts: Sequence[Ids]) -> None:
    """Write arrays of ids of the same type, joined, as one array."""
    header = np.lib.format.header_data_from_array_1_0(parts[0]) | {"shape": (sum(map(len, parts)),)}
    with path.open("wb") as file:
        np.lib.format.write_array_header_1_0(file, header)
        for part in parts:
            file.write(part.data)  # not np.save, whose error does not say that a disk is full


def ids_at(ids: Ids, positions: npt.NDArray[np.int64], first: npt.NDArray[np.int64] | int = 0) -> npt.NDArray[np.int64]:
    """Return the ids at `positions`. The text starts at position `first`, and earlier positions get the value NO_ID."""
    return np.where(positions < first, NO_ID, ids[np.maximum(positions, 0)].astype(np.int64))


def bits(nats: float) -> float:
    return nats / math.log(2)


def bits_per_char(nats: CharNats) -> float:
    """Return the mean of the (N,) losses of characters, converted from nats to bits."""
    return bits(float(nats.sum(dtype=np.float64)) / len(nats))  # float64, because a float32 sum would lose digits


def nats_of_chars(nats: Nats, chars: npt.NDArray[np.int64]) -> CharNats:
    """Convert (n,) losses of ids to (N,) losses of characters with the same sum, given the (n,) numbers of characters.

    The loss of an id is divided equally among its characters. An id without characters only continues one, so its loss
    is added to that of the nearest earlier id with characters, or of the first one.
    """
    starts = np.flatnonzero(chars)
    counts = chars[starts]
    starts[0] = 0
    sums = np.add.reduceat(nats.astype(np.float64), starts)
    return np.repeat(sums / counts, counts).astype(np.float32)


# ---- the splits


def check_lengths(n_ids: dict[str, int], block_size: int, key: str) -> None:
    """Raise a ParamsError about `key`, the block size, if a window and the id after it do not fit in a split."""
    name, n = min(n_ids.items(), key=lambda item: item[1])
    if n < block_size + 1:
        fits = f"{n - 1:,} or less, " if n > 2 else ""  # block_size is at least 2
        raise ParamsError(
            f"params.yaml, {key}: a window of {block_size} ids and the id after it do not fit in {name}, which "
            f"has only {n:,} ids (tokenize.kind); use {fits}a larger split.{name}, or more text."
        )


def names_in(shares: "pd.DataFrame") -> list[str]:
    """Return the names of the splits in a table of shares, in the order train, val, test."""
    return [name for name in SPLITS if (shares["split"] == name).any()]


def read_shares(tokens: Path) -> "pd.DataFrame":
    """Read the table of shares, the parts of works in each split, as `tokenize` in bukva.corpus.splits writes it."""
    import pandas as pd

    return pd.read_parquet(tokens / SHARES)


def save_splits(folder: Path, ids: Ids, shares: "pd.DataFrame") -> None:
    """Write the ids of each split to <split>.npy, and the `Lengths` to lengths.npy, given the ids of all shares."""
    names, n_works = names_in(shares), int(shares["work"].max()) + 1
    lengths = np.zeros((n_works, len(names)), np.int64)
    with atomic_folder(folder) as unfinished:
        for column, name in enumerate(names):
            rows = shares[shares["split"] == name]
            np.add.at(lengths[:, column], rows["work"], rows["ids"])
            parts = [ids[first : first + n] for first, n in zip(rows["first_id"], rows["ids"], strict=True)]
            save_ids(unfinished / f"{name}.npy", parts)
        np.save(unfinished / LENGTHS, lengths)


def load_splits(folder: Path) -> dict[str, Ids]:
    """Return the (N,) ids of each split, memory-mapped, by name of the split. A split with fraction 0 is absent."""
    files = {name: folder / f"{name}.npy" for name in SPLITS}
    return {name: np.load(file, mmap_mode="r") for name, file in files.items() if file.exists()}


def load_lengths(folder: Path) -> dict[str, Lengths]:
    """Return the (n_works,) number of ids of each work in a split, by name of the split."""
    return dict(zip(load_splits(folder), np.load(folder / LENGTHS).T, strict=True))
