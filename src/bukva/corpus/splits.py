"""Which characters are train, val and test.

One pure function of the works' lengths and the parameters decides; tokenize (whose vocabulary may be that of train)
and split both call it.
"""

from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from bukva.base.errors import BukvaError
from bukva.base.files import atomic_folder
from bukva.base.ids import Ids, write_ids
from bukva.config.messages import WAY_BACK
from bukva.config.schema import Split

if TYPE_CHECKING:
    import pandas as pd

SPLITS = ("train", "val", "test")

LENGTHS = "lengths.npy"

Lengths = npt.NDArray[np.int64]  # (n_works, n_splits) or (n_works,): how many ids each share of each work became
Spans = npt.NDArray[np.int64]  # (n_works, 2): start and stop of each work's share, counted in the joined corpus


def spans(chars: npt.ArrayLike, split: Split) -> dict[str, Spans]:
    """The share of each split in works of so many characters each, in their order.

    `tail`: the end of each work is test, the part before it val. `contiguous`: the works are joined, then cut, as in
    the lecture notes. Splits are disjoint and complete; one whose fraction is 0 is absent.
    """
    chars = np.asarray(chars, np.int64)
    stops = np.cumsum(chars)
    starts = stops - chars
    edges = [starts]  # the edges of the splits within each work
    for share in _cumulated(split):
        if split.strategy == "tail":
            edges.append(starts + _cut(chars, share))
        else:
            edges.append(np.clip(_cut(stops[-1:], share), starts, stops))
    named = zip(SPLITS, edges, edges[1:], strict=False)
    return {name: np.stack([start, stop], axis=1) for name, start, stop in named if getattr(split, name) > 0}


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


def _cumulated(split: Split) -> list[Fraction]:
    """Where train, val and test end, as exact fractions: 0.9 + 0.05 in floating point is not 0.95."""
    train, val = Fraction(str(split.train)), Fraction(str(split.val))
    return [train, min(train + val, Fraction(1)), Fraction(1)] if split.test > 0 else [train, Fraction(1)]


def _cut(chars: Spans, share: Fraction) -> Spans:
    # Python's integers: numerator times characters exceeds 64 bits
    return np.array([n * share.numerator // share.denominator for n in chars.tolist()], np.int64)
