"""Splitting: which characters the models learn from, are chosen by, and are judged by.

One pure function decides, of the works' lengths and the parameters alone; tokenize (whose alphabet may be that
of train) and split both call it.
"""

from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from bukva import params
from bukva.errors import BukvaError
from bukva.files import atomic_folder
from bukva.text.tokenizers import Ids, write_ids

if TYPE_CHECKING:
    import pandas as pd

PARTS = ("train", "val", "test")

Spans = npt.NDArray[np.int64]  # (n_works, 2): start and stop of each work's share, counted in the joined corpus


def spans(chars: npt.ArrayLike, split: params.Split) -> dict[str, Spans]:
    """The share of each part in works of so many characters each, in their order.

    `tail`: of each work the last part is test, the part before it val (a work's end tells most about how the model
    goes on in a known voice). `contiguous`: the works joined, then cut, as in the notes. Parts are disjoint and
    complete; one whose fraction is 0 is absent.
    """
    chars = np.asarray(chars, np.int64)
    stops = np.cumsum(chars)
    starts = stops - chars
    edges = [starts]  # the edges of the parts within each work
    for share in _cumulated(split):
        if split.strategy == "tail":
            edges.append(starts + _cut(chars, share))
        else:
            edges.append(np.clip(_cut(stops[-1:], share), starts, stops))
    parts = zip(PARTS, edges, edges[1:], strict=False)
    return {part: np.stack([start, stop], axis=1) for part, start, stop in parts if getattr(split, part) > 0}


def refuse_short(n_chars: dict[str, int], block_size: int, key: str) -> None:
    """Raise when a part cannot hold one window.

    Raises:
        BukvaError: names the part, its length and the parameter `key` that asks for more.
    """
    for part, n in n_chars.items():
        if n < block_size + 1:
            fits = f"{n - 1:,} or less, " if n > 2 else ""  # a window has 2 characters of context at least
            raise BukvaError(
                f"params.yaml, {key}: {block_size} characters of context and the next do not fit {part}, which has "
                f"{n:,}; {fits}a larger split.{part} or more text would do.\n{params.WAY_BACK}"
            )


def save_parts(folder: Path, ids: Ids, parts: dict[str, Spans]) -> None:
    """Write each part's (N,) ids as folder/<part>.npy, the works' shares one after the other."""
    with atomic_folder(folder) as unfinished:
        for part, span in parts.items():
            n = int((span[:, 1] - span[:, 0]).sum())
            write_ids(unfinished / f"{part}.npy", ids.dtype, n, (ids[start:stop] for start, stop in span))


def load_parts(folder: Path) -> dict[str, Ids]:
    """part -> (N,) ids, read from the disk as they are needed; a part of fraction 0 is absent."""
    files = {part: folder / f"{part}.npy" for part in PARTS}
    return {part: np.load(file, mmap_mode="r") for part, file in files.items() if file.exists()}


def report(table: "pd.DataFrame", parts: dict[str, Spans]) -> dict[str, Any]:
    """Characters of each part, and of each category and author in it, for reports/split.json."""
    result: dict[str, Any] = {}
    for part, span in parts.items():
        works = table[["category", "author"]].assign(chars=span[:, 1] - span[:, 0])
        result[part] = {
            "chars": int(works["chars"].sum()),
            "categories": _summed(works, ["category"]),
            "authors": _summed(works, ["category", "author"]),
        }
    return result


def _summed(works: "pd.DataFrame", by: list[str]) -> list[dict[str, Any]]:
    """Rows of characters by these columns; a list, because that is what DVC can draw."""
    sums = works.groupby(by)["chars"].sum()
    return [dict(zip([*by, "chars"], row, strict=True)) for row in sums.reset_index().itertuples(index=False)]


def _cumulated(split: params.Split) -> list[Fraction]:
    """Where train, val and test end, as exact fractions: 0.9 + 0.05 in floating point is not 0.95."""
    train, val = Fraction(str(split.train)), Fraction(str(split.val))
    return [train, min(train + val, Fraction(1)), Fraction(1)] if split.test > 0 else [train, Fraction(1)]


def _cut(chars: Spans, share: Fraction) -> Spans:
    # in Python's integers: the digits of a share times a corpus outgrow 64 bits
    return np.array([n * share.numerator // share.denominator for n in chars.tolist()], np.int64)
