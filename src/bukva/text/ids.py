"""Arrays of ids, and of their nats: models return nats, and results are in bits per character."""

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

import numpy as np
import numpy.typing as npt

Ids = npt.NDArray[np.unsignedinteger]  # (N,), of the smallest type that is large enough
Nats = npt.NDArray[np.floating]
CharNats = npt.NDArray[np.float32]  # (N,), nats of characters
NO_ID = -1  # stands where a text has not begun
Scorer = Callable[[Ids], Nats]  # (n,) ids -> (n - 1,) nats of ids[1:], each given the ids before it


@contextmanager
def ids_file(path: Path, dtype: np.dtype[np.unsignedinteger]) -> Iterator[Callable[[Ids], object]]:
    """Yield a function that appends ids to a new .npy file, of which no more than what it is given is in memory."""
    with path.open("wb") as file:
        _write_header(file, dtype, 0)
        begin = file.tell()
        yield lambda ids: file.write(ids.data)  # tofile raises without the reason when a disk is full
        n = (file.tell() - begin) // dtype.itemsize
        file.seek(0)
        _write_header(file, dtype, n)


def _write_header(file: BinaryIO, dtype: np.dtype[np.unsignedinteger], n: int) -> None:
    """The header of n ids, as long for every n: numpy leaves room for an array that grows."""
    header = {"descr": np.lib.format.dtype_to_descr(dtype), "fortran_order": False, "shape": (n,)}
    np.lib.format.write_array_header_1_0(file, header)


def ids_at(ids: Ids, places: npt.NDArray[np.int64], first: npt.NDArray[np.int64] | int = 0) -> npt.NDArray[np.int64]:
    """The ids at places of (N,) ids, and NO_ID at places before `first`, where their text begins."""
    return np.where(places < first, NO_ID, ids[np.maximum(places, 0)].astype(np.int64))


def bits(nats: float) -> float:
    """Nats to bits: divide by ln 2."""
    return nats / math.log(2)


def bits_per_char(nats: CharNats) -> float:
    """The mean of (N,) nats of characters, in bits; summed in float64."""
    return bits(float(nats.sum(dtype=np.float64)) / len(nats))


def nats_of_chars(nats: Nats, chars: npt.NDArray[np.int64]) -> CharNats:
    """(n,) nats of ids that stand for (n,) characters -> (chars.sum(),) nats of characters; the sum stays the same.

    An id of several characters gives each an equal part. An id of none (a byte within a letter) belongs to the
    character before it.
    """
    starts = np.flatnonzero(chars)
    counts = chars[starts]
    starts[0] = 0
    sums = np.add.reduceat(nats.astype(np.float64), starts)
    return np.repeat(sums / counts, counts).astype(np.float32)
