"""What each split has: characters by author, category and decade, and what train knows of val and test."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from bukva.core.machine import n_cores
from bukva.corpus.repeats.leaks import seen_in_train
from bukva.corpus.splits.division import mapped_codes
from bukva.text.collection import decade
from bukva.text.splits import Spans, names_in

if TYPE_CHECKING:
    import pandas as pd

LENGTHS = (8, 16, 32, 64)  # of windows: a word and a half, half a line, a line, a sentence


def report(clean: Path, table: "pd.DataFrame", shares: "pd.DataFrame") -> dict[str, Any]:
    """reports/split.json of a cleaned text, its table of works and that of shares (bukva.corpus.splits.division).

    For each split its characters, also by category, decade and author. For val and test also `in_train`, the share of
    their windows of n characters that stand in train, too.
    """
    names = names_in(shares)
    result = {name: _contents(table, _chars(shares, name, len(table))) for name in names}
    held_out, train = [_spans(shares, name) for name in names[1:]], _spans(shares, "train")
    with (
        mapped_codes(clean, table) as (codes, text),
        ThreadPoolExecutor(min(n_cores(), len(LENGTHS))) as threads,  # compiled functions release the GIL
    ):
        seen = threads.map(lambda n: seen_in_train(codes, held_out, text, train, n), LENGTHS)
        for name, *of_lengths in zip(names[1:], *seen, strict=True):
            found = zip(LENGTHS, of_lengths, strict=True)
            result[name]["in_train"] = {str(n): round(share or 0.0, 6) for n, share in found}
    return result


def _contents(table: "pd.DataFrame", chars: npt.NDArray[np.int64]) -> dict[str, Any]:
    works = table[["category", "author"]].assign(chars=chars)
    return {
        "chars": int(chars.sum()),
        "categories": _summed(works, ["category"]),
        "decades": works.groupby(table["year"].map(decade))["chars"].sum().to_dict(),  # DVC would join a list
        "authors": _summed(works, ["category", "author"]),
    }


def _summed(works: "pd.DataFrame", by: list[str]) -> list[dict[str, Any]]:
    """Rows of characters by these columns; a list, because that is what DVC can draw."""
    sums = works.groupby(by)["chars"].sum()
    return [dict(zip([*by, "chars"], row, strict=True)) for row in sums.reset_index().itertuples(index=False)]


def _chars(shares: "pd.DataFrame", name: str, n_works: int) -> npt.NDArray[np.int64]:
    rows = shares[shares["split"] == name]
    return np.bincount(rows["work"], rows["stop"] - rows["start"], n_works).astype(np.int64)


def _spans(shares: "pd.DataFrame", name: str) -> Spans:
    return shares.loc[shares["split"] == name, ["start", "stop"]].to_numpy(np.int64)
