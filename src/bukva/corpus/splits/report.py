"""What each split has: characters by author, category and decade, its distance from the whole, and what train knows."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from bukva.base.progress import counting
from bukva.base.text import from_code_points
from bukva.base.threads import n_cores
from bukva.config.schema import Split
from bukva.corpus.collection import documents
from bukva.corpus.repeats.grams import Codes, Read
from bukva.corpus.repeats.leaks import LENGTHS, chars_to_search, longest_run, seen_in_train
from bukva.corpus.splits import balance
from bukva.corpus.splits.division import mapped_codes
from bukva.corpus.splits.folder import Spans, names_in
from bukva.corpus.splits.strategies import spans

if TYPE_CHECKING:
    import pandas as pd

SHOWN_CHARS = 100  # of the longest passage
MOST_THREADS = 5  # one for each search; each holds an index


def report(clean: Path, table: "pd.DataFrame", shares: "pd.DataFrame", split: Split) -> dict[str, Any]:
    """reports/split.json.

    Args:
        clean: the folder of the cleaned text.
        table: its works.
        shares: the table of shares (bukva.corpus.splits.division).
        split: section of params.yaml.

    Returns:
        For each split: `chars`; `distance` of its authors, categories and decades from those of the whole, 0 to 1;
        characters by category, decade and author. For val and test also `in_train`, the share of their windows of n
        characters that stand in train, too, and `longest`, the longest run of such characters with both works; each
        before what repeats was kept apart (split.duplicates), and after.
    """
    chars = {name: _chars(shares, name, len(table)) for name in names_in(shares)}
    result = {name: _contents(table, of_works) for name, of_works in chars.items()}
    with mapped_codes(clean, table) as codes:
        plain = spans(table, split)
        after = {name: _spans(shares, name) for name in chars}
        is_same = all(np.array_equal(_filled(plain[name]), _filled(after[name])) for name in chars)
        for name in list(chars)[1:]:
            found = {"before": _leaks(codes, table, name, plain)}
            found["after"] = found["before"] if is_same else _leaks(codes, table, name, after)
            for key in ("in_train", "longest"):
                result[name][key] = {when: leaks[key] for when, leaks in found.items()}
    return result


def _contents(table: "pd.DataFrame", chars: npt.NDArray[np.int64]) -> dict[str, Any]:
    labels = balance.labels(table)
    works = table[["category", "author"]].assign(chars=chars)
    return {
        "chars": int(chars.sum()),
        "distance": {name: _distance(of_works, chars, table["chars"].to_numpy()) for name, of_works in labels.items()},
        "categories": _summed(works, ["category"]),
        "decades": works.groupby(labels["decade"])["chars"].sum().to_dict(),  # DVC would join a list with authors
        "authors": _summed(works, ["category", "author"]),
    }


def _distance(labels: "pd.Series[str]", part: npt.NDArray[np.int64], whole: npt.NDArray[np.int64]) -> float | None:
    if not part.sum():
        return None
    return round(balance.total_variation(balance.shares(labels, part), balance.shares(labels, whole)), 4)


def _summed(works: "pd.DataFrame", by: list[str]) -> list[dict[str, Any]]:
    """Rows of characters by these columns; a list, because that is what DVC can draw."""
    sums = works.groupby(by)["chars"].sum()
    return [dict(zip([*by, "chars"], row, strict=True)) for row in sums.reset_index().itertuples(index=False)]


def _chars(shares: "pd.DataFrame", name: str, n_works: int) -> npt.NDArray[np.int64]:
    rows = shares[shares["split"] == name]
    return np.bincount(rows["work"], rows["stop"] - rows["start"], n_works).astype(np.int64)


def _spans(shares: "pd.DataFrame", name: str) -> Spans:
    return shares.loc[shares["split"] == name, ["start", "stop"]].to_numpy(np.int64)


def _filled(spans: Spans) -> Spans:
    return spans[spans[:, 1] > spans[:, 0]]


def _leaks(codes: Codes, table: "pd.DataFrame", name: str, shares: dict[str, Spans]) -> dict[str, Any]:
    held_out, train = shares[name], shares["train"]
    with (
        counting(f"split: looking for text of {name} in train", chars_to_search(held_out, train)) as read,
        ThreadPoolExecutor(min(n_cores(), MOST_THREADS)) as threads,  # compiled functions release the GIL
    ):
        longest = threads.submit(_longest, codes, table, held_out, train, read)
        seen = list(threads.map(lambda n: seen_in_train(codes, held_out, train, n, read), LENGTHS))
        shares_seen = [round(each.in_train / each.windows, 6) if each.windows else 0.0 for each in seen]
        in_train = dict(zip(map(str, LENGTHS), shares_seen, strict=True))
        return {"in_train": in_train, "longest": longest.result()}


def _longest(codes: Codes, table: "pd.DataFrame", held_out: Spans, train: Spans, read: Read) -> dict[str, Any] | None:
    run = longest_run(codes, held_out, train, read)
    if run is None:
        return None
    works, ends = list(documents(table)), table["chars"].to_numpy(np.int64).cumsum()
    text = from_code_points(np.array(codes[run.start_a : run.start_a + min(run.chars, SHOWN_CHARS)]))
    work, of_train = (works[int(np.searchsorted(ends, start, "right"))].name for start in (run.start_a, run.start_b))
    return {"chars": run.chars, "work": work, "of_train": of_train, "text": text}
