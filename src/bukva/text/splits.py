"""Read and write the table of shares (the parts of works in each split), and the ids of each split."""

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from bukva.core.errors import ParamsError
from bukva.core.files import atomic_folder
from bukva.text.ids import Ids, save_ids

if TYPE_CHECKING:
    import pandas as pd

SPLITS = ("train", "val", "test")

LENGTHS = "lengths.npy"
SHARES = "shares.parquet"

# (n_works, n_splits) number of ids of each work in each split, or (n_works,) number of ids of each work in one split
Lengths = npt.NDArray[np.int64]
# (n_works, 2) start and stop of each work's part in a split, as positions in the joined corpus
Spans = npt.NDArray[np.int64]


def names_in(shares: "pd.DataFrame") -> list[str]:
    """Return the names of the splits that occur in a table of shares, in the order train, val, test."""
    names = set(shares["split"])
    return [name for name in SPLITS if name in names]


def check_lengths(n_ids: dict[str, int], block_size: int, key: str) -> None:
    """Check that a window of `block_size` ids and the id after it fit in every split, by their numbers of ids.

    Raises:
        BukvaError: a split is too short. The message names `key`, the parameter that sets the block size.
    """
    name, n = min(n_ids.items(), key=lambda item: item[1])
    if n < block_size + 1:
        fits = f"{n - 1:,} or less, " if n > 2 else ""  # block_size is at least 2
        raise ParamsError(
            f"params.yaml, {key}: a window of {block_size} ids and the id after it do not fit in {name}, which "
            f"has only {n:,} ids (tokenize.kind); use {fits}a larger split.{name}, or more text."
        )


def read_shares(tokens: Path) -> "pd.DataFrame":
    """Read the table of shares (see bukva.corpus.splits.division) from `tokens`, the folder that stage tokenize writes.

    The columns `first_id` and `ids` have the position of the first id of a share, and its number of ids.
    """
    import pandas as pd

    return pd.read_parquet(tokens / SHARES)


def save_splits(folder: Path, ids: Ids, shares: "pd.DataFrame") -> None:
    """Write the ids of each split to <split>.npy, and the number of ids of each work in each split to lengths.npy.

    `ids` are those of all shares, in the order of the table `shares` (see `read_shares`).
    """
    names, n_works = names_in(shares), int(shares["work"].max()) + 1
    lengths = np.zeros((n_works, len(names)), np.int64)
    with atomic_folder(folder) as unfinished:
        for column, name in enumerate(names):
            rows = shares[shares["split"] == name]
            np.add.at(lengths[:, column], rows["work"], rows["ids"])
            parts = [ids[first : first + n] for first, n in zip(rows["first_id"], rows["ids"], strict=True)]
            save_ids(unfinished / f"{name}.npy", np.concatenate(parts))
        np.save(unfinished / LENGTHS, lengths)


def load_splits(folder: Path) -> dict[str, Ids]:
    """Return the (N,) ids of each split, memory-mapped, by name of the split. A split with fraction 0 is absent."""
    files = {name: folder / f"{name}.npy" for name in SPLITS}
    return {name: np.load(file, mmap_mode="r") for name, file in files.items() if file.exists()}


def load_lengths(folder: Path) -> dict[str, Lengths]:
    """Return the (n_works,) number of ids of each work in a split, by name of the split."""
    return dict(zip(load_splits(folder), np.load(folder / LENGTHS).T, strict=True))
