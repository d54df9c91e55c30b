"""Arrays of ids: their types, and how they are written; models return nats, and results are in bits."""

import math
from collections.abc import Callable, Iterable
from pathlib import Path

import numpy as np
import numpy.typing as npt

Ids = npt.NDArray[np.unsignedinteger]  # (N,), of the smallest type that is large enough
Nats = npt.NDArray[np.floating]
Scorer = Callable[[Ids], Nats]  # (n,) ids -> (n - 1,) nats of ids[1:], each given the ids before it


def write_ids(path: Path, dtype: np.dtype[np.unsignedinteger], n: int, pieces: Iterable[Ids]) -> None:
    """Write the n ids of all pieces as one .npy file, with one piece at a time in memory."""
    with path.open("wb") as file:
        header = {"descr": np.lib.format.dtype_to_descr(dtype), "fortran_order": False, "shape": (n,)}
        np.lib.format.write_array_header_1_0(file, header)
        for ids in pieces:
            file.write(ids.data)  # tofile raises without the reason when a disk is full


def bits(nats: float) -> float:
    """Nats to bits: divide by ln 2."""
    return nats / math.log(2)
