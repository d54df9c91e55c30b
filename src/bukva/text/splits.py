"""Read and write the files of the splits: the table of shares, and the ids of each split."""

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from bukva.core.errors import ParamsError
from bukva.core.files import atomic_folder
from bukva.text.ids import Ids, ids_file

if TYPE_CHECKING:
    import pandas as pd

SPLITS = ("train", "val", "test")

LENGTHS = "lengths.npy"
SHARES = "shares.parquet"

Lengths = npt.NDArray[
    np.int64
]  # (n_works, n_splits) or (n_works,) number of ids of each work in each split or in one split
Spans = npt.NDArray[np.int64]  # (n_works, 2) start and stop of each work in a split, as positions in the joined corpus


def names_in(shares: "pd.DataFrame") -> list[str]:
    """Return the names of the splits in a table of shares, in the order train, val, test."""
    names = set(shares["split"])
    return [name for name in SPLITS if name in names]


def check_lengths(n_ids: dict[str, int], block_size: int, key: str) -> None:
    """Check that every split has enough ids for one training window.

    Args:
        n_ids: split -> number of ids.
        block_size: number of ids in a window. The id after the window is needed as well.
        key: name of the parameter that sets `block_size`, for the error message.

    Raises:
        BukvaError: a split is too short. The message names the shortest split.
    """
    name, n = min(n_ids.items(), key=lambda item: item[1])
    if n < block_size + 1:
        fits = f"{n - 1:,} or less, " if n > 2 else ""  # block_size is at least 2
        raise ParamsError(
            f"params.yaml, {key}: a window of {block_size} ids (tokenize.kind) needs the next id as well, but "
            f"{name} has only {n:,} ids; use {fits}a larger split.{name}, or more text."
        )


def read_shares(tokens: Path) -> "pd.DataFrame":
    """Read the table of shares (see division.py) from `tokens`, the folder that stage tokenize writes.

    The columns `first_id` and `ids` are the position of the first id of a share and its number of ids.
    """
    import pandas as pd

    return pd.read_parquet(tokens / SHARES)


def save_splits(folder: Path, ids: Ids, shares: "pd.DataFrame") -> None:
    """Write the ids of each split to <split>.npy, and the number of ids of each work in each split to lengths.npy.

    Args:
        folder: folder that is written. It appears only when it is complete.
        ids: (N,) ids of all shares, in the order of `shares`.
        shares: the table of shares (see `read_shares`).
    """
    names, n_works = names_in(shares), int(shares["work"].max()) + 1
    lengths = np.zeros((n_works, len(names)), np.int64)
    with atomic_folder(folder) as unfinished:
        for column, name in enumerate(names):
            rows = shares[shares["split"] == name]
            np.add.at(lengths[:, column], rows["work"], rows["ids"])
            with ids_file(unfinished / f"{name}.npy", ids.dtype) as write:
                for first, n in zip(rows["first_id"], rows["ids"], strict=True):
                    write(ids[first : first + n])
        np.save(unfinished / LENGTHS, lengths)


def load_splits(folder: Path) -> dict[str, Ids]:
    """Return split -> (N,) ids, memory-mapped. A split with fraction 0 is absent."""
    files = {name: folder / f"{name}.npy" for name in SPLITS}
    return {name: np.load(file, mmap_mode="r") for name, file in files.items() if file.exists()}


def load_lengths(folder: Path) -> dict[str, Lengths]:
    """Return split -> (n_works,) number of ids of each work in this split, in the order of the table of works."""
    return dict(zip(load_splits(folder), np.load(folder / LENGTHS).T, strict=True))
