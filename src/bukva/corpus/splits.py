"""The splits on disk, in characters and in ids."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from bukva.base.errors import BukvaError
from bukva.base.files import atomic_folder
from bukva.base.ids import Ids, write_ids
from bukva.config.messages import WAY_BACK

if TYPE_CHECKING:
    import pandas as pd

SPLITS = ("train", "val", "test")

LENGTHS = "lengths.npy"

Lengths = npt.NDArray[np.int64]  # (n_works, n_splits) or (n_works,): how many ids each share of each work became
Spans = npt.NDArray[np.int64]  # (n_works, 2): start and stop of each work's share, counted in the joined corpus


def sizes(spans: dict[str, Spans]) -> dict[str, int]:
    """The size of each split."""
    return {name: int((span[:, 1] - span[:, 0]).sum()) for name, span in spans.items()}


def check_lengths(n_chars: dict[str, int], block_size: int, key: str) -> None:
    """Raise when a split is too short for one window.

    Raises:
        BukvaError: names the split, its length and the parameter `key` that is too large for it.
    """
    for name, n in n_chars.items():
        if n < block_size + 1:
            fits = f"{n - 1:,} or less, " if n > 2 else ""  # block_size is at least 2
            raise BukvaError(
                f"params.yaml, {key}: a window of {block_size} characters and the next one is longer than {name}, "
                f"which has {n:,}; use {fits}a larger split.{name} or more text.\n{WAY_BACK}"
            )


def save_lengths(tokens: Path, shares: dict[str, Spans], lengths: Lengths) -> None:
    """Write how many ids the shares became, if that is not their number of characters."""
    chars = np.stack([span[:, 1] - span[:, 0] for span in shares.values()], axis=1)
    if not np.array_equal(lengths, chars):
        np.save(tokens / LENGTHS, lengths)


def spans_in_ids(tokens: Path, shares: dict[str, Spans]) -> dict[str, Spans]:
    """The shares of the splits counted in the ids that stage tokenize wrote; without lengths an id is a character."""
    file = tokens / LENGTHS
    if not file.exists():
        return shares
    lengths = np.load(file)  # (n_works, n_splits)
    stops = lengths.ravel().cumsum().reshape(lengths.shape)
    return {
        name: np.stack([stops[:, column] - lengths[:, column], stops[:, column]], axis=1)
        for column, name in enumerate(shares)
    }


def save_splits(folder: Path, ids: Ids, shares: dict[str, Spans]) -> None:
    """Write each split's (N,) ids as folder/<split>.npy, the works' shares one after the other, and their lengths."""
    with atomic_folder(folder) as unfinished:
        np.save(unfinished / LENGTHS, np.stack([span[:, 1] - span[:, 0] for span in shares.values()], axis=1))
        for name, span in shares.items():
            n = int((span[:, 1] - span[:, 0]).sum())
            write_ids(unfinished / f"{name}.npy", ids.dtype, n, (ids[start:stop] for start, stop in span))


def load_splits(folder: Path) -> dict[str, Ids]:
    """split -> (N,) ids, memory-mapped; a split of fraction 0 is absent."""
    files = {name: folder / f"{name}.npy" for name in SPLITS}
    return {name: np.load(file, mmap_mode="r") for name, file in files.items() if file.exists()}


def load_lengths(folder: Path) -> dict[str, Lengths]:
    """split -> (n_works,), how many of its ids each work has; the works are those of the document table."""
    return dict(zip(load_splits(folder), np.load(folder / LENGTHS).T, strict=True))


def summary(table: "pd.DataFrame", shares: dict[str, Spans]) -> dict[str, Any]:
    """reports/split.json: characters of each split, and of each category and author in it."""
    result: dict[str, Any] = {}
    for name, span in shares.items():
        works = table[["category", "author"]].assign(chars=span[:, 1] - span[:, 0])
        result[name] = {
            "chars": int(works["chars"].sum()),
            "categories": _summed(works, ["category"]),
            "authors": _summed(works, ["category", "author"]),
        }
    return result


def _summed(works: "pd.DataFrame", by: list[str]) -> list[dict[str, Any]]:
    """Rows of characters by these columns; a list, because that is what DVC can draw."""
    sums = works.groupby(by)["chars"].sum()
    return [dict(zip([*by, "chars"], row, strict=True)) for row in sums.reset_index().itertuples(index=False)]
