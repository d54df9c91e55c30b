"""Arrays of ids (numbers of entries in the vocabulary), and their losses in nats, converted to scores of characters."""

import math
from collections.abc import Callable
from pathlib import Path

import numpy as np
import numpy.typing as npt

Ids = npt.NDArray[np.unsignedinteger]  # (N,) ids, of the smallest type that can hold them
Nats = npt.NDArray[np.floating]  # (N,) losses of ids, in nats
CharNats = npt.NDArray[np.float32]  # (N,) losses of characters, in nats
NO_ID = -1  # value for positions before the start of a text
Scorer = Callable[[Ids], Nats]  # (n,) ids -> (n - 1,) losses of ids[1:] in nats, each given the ids before it


def save_ids(path: Path, ids: Ids) -> None:
    """Write ids to a .npy file."""
    with path.open("wb") as file:
        np.lib.format.write_array_header_1_0(file, np.lib.format.header_data_from_array_1_0(ids))
        file.write(ids.data)  # not np.save, whose error does not say that a disk is full


def ids_at(ids: Ids, positions: npt.NDArray[np.int64], first: npt.NDArray[np.int64] | int = 0) -> npt.NDArray[np.int64]:
    """Return the ids at `positions`. The text starts at position `first`, and earlier positions get the value NO_ID."""
    return np.where(positions < first, NO_ID, ids[np.maximum(positions, 0)].astype(np.int64))


def bits(nats: float) -> float:
    """Convert nats to bits."""
    return nats / math.log(2)


def bits_per_char(nats: CharNats) -> float:
    """Return the mean of the (N,) losses of characters, converted from nats to bits."""
    return bits(float(nats.sum(dtype=np.float64)) / len(nats))  # float64, because a float32 sum would lose digits


def nats_of_chars(nats: Nats, chars: npt.NDArray[np.int64]) -> CharNats:
    """Convert (n,) losses of ids to (N,) losses of characters with the same sum, given the (n,) numbers of characters.

    The loss of an id is divided equally among its characters. An id without characters only continues one. Its loss is
    added to that of the nearest earlier id with characters, or of the first one if there is no earlier one.
    """
    starts = np.flatnonzero(chars)
    counts = chars[starts]
    starts[0] = 0
    sums = np.add.reduceat(nats.astype(np.float64), starts)
    return np.repeat(sums / counts, counts).astype(np.float32)
