"""Write and read arrays of ids, and convert the losses of ids to scores of characters.

An id is the number of an entry in the vocabulary. Models return a loss in nats for each id. Scores are in bits per
character.
"""

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

import numpy as np
import numpy.typing as npt

Ids = npt.NDArray[np.unsignedinteger]  # (N,) ids, of the smallest type that can hold them
Nats = npt.NDArray[np.floating]  # (N,) losses of ids, in nats
CharNats = npt.NDArray[np.float32]  # (N,) losses of characters, in nats
NO_ID = -1  # value for positions before the start of a text
Scorer = Callable[[Ids], Nats]  # (n,) ids -> (n - 1,) losses of ids[1:] in nats, each given the ids before it


@contextmanager
def ids_file(path: Path, dtype: np.dtype[np.unsignedinteger]) -> Iterator[Callable[[Ids], object]]:
    """Yield a function that appends ids to a new .npy file. The file is valid only after the with block has ended."""
    with path.open("wb") as file:
        _write_header(file, dtype, 0)
        begin = file.tell()
        yield lambda ids: file.write(ids.data)  # not tofile, whose error does not say that a disk is full
        n = (file.tell() - begin) // dtype.itemsize
        file.seek(0)
        _write_header(file, dtype, n)


def _write_header(file: BinaryIO, dtype: np.dtype[np.unsignedinteger], n: int) -> None:
    """Write the header of a .npy file with n ids."""
    header = {"descr": np.lib.format.dtype_to_descr(dtype), "fortran_order": False, "shape": (n,)}
    np.lib.format.write_array_header_1_0(file, header)


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
    """Convert (n,) losses of ids to (N,) losses of characters, in nats. The sum of the losses stays the same.

    The loss of an id is divided equally among its characters. If the bytes of an id only continue a character, the id
    has no characters. Its loss is then added to the loss of the nearest earlier id that has characters. At the start of
    the array, it is added to the loss of the first id that has characters.

    Args:
        nats: (n,) loss of each id.
        chars: (n,) number of characters of each id. N is the sum of these numbers.
    """
    starts = np.flatnonzero(chars)
    counts = chars[starts]
    starts[0] = 0
    sums = np.add.reduceat(nats.astype(np.float64), starts)
    return np.repeat(sums / counts, counts).astype(np.float32)
