"""What each split has: characters by author, category and decade, its distance from the whole, and what train knows."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from bukva.config.schema import Split
from bukva.core.machine import n_cores
from bukva.core.progress import counting
from bukva.corpus.repeats.leaks import LENGTHS, Run, Seen, chars_to_search, longest_runs, seen_in_train
from bukva.corpus.repeats.lookup import Codes
from bukva.corpus.splits import balance
from bukva.corpus.splits.division import mapped_codes
from bukva.corpus.splits.strategies import spans
from bukva.text.characters import from_code_points
from bukva.text.collection import documents
from bukva.text.splits import Spans, names_in

if TYPE_CHECKING:
    import pandas as pd

SHOWN_CHARS = 100  # of the longest passage
MOST_MISSED = 0.1  # of the share that was asked for
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
    with mapped_codes(clean, table) as (codes, text):
        plain, after = spans(table, split), {name: _spans(shares, name) for name in chars}
        for name, leaks in _before_and_after(codes, text, table, plain, after).items():
            result[name] |= leaks
    return result


def tell_missed_shares(shares: "pd.DataFrame", split: Split, note: Callable[[str], object]) -> None:
    """Note the splits whose share of the characters is not the one asked for, by more than a tenth of it."""
    chars = {name: int(np.diff(_spans(shares, name)).sum()) for name in names_in(shares)}
    missed = []
    for name, n in chars.items():
        reached, asked = n / max(1, sum(chars.values())), getattr(split, name)
        if abs(reached / asked - 1) > MOST_MISSED:
            missed.append(f"{name} has {100 * reached:.3g} % of the characters, not {100 * asked:.3g} %")
    if missed:
        why = f"split.strategy {split.strategy}, split.duplicates {split.duplicates}"
        note(f"split: {'; '.join(missed)} ({why})")


def _before_and_after(
    codes: Codes, text: Codes, table: "pd.DataFrame", plain: dict[str, Spans], after: dict[str, Spans]
) -> dict[str, dict[str, Any]]:
    """split -> key -> `before` and `after`: what train knows of val and test."""
    names = list(after)[1:]
    if all(np.array_equal(_filled(plain[name]), _filled(after[name])) for name in names):  # so train only lost text
        texts = [after[name] for name in names]
        found_after, found_before = _leaks(
            codes, text, table, texts, [after["train"], _lost(plain["train"], after["train"])]
        )
    else:
        found_before, found_after = (
            _leaks(codes, text, table, [shares[name] for name in names], [shares["train"]])[0]
            for shares in (plain, after)
        )
    return {
        name: {key: {"before": before[key], "after": of_name[key]} for key in of_name}
        for name, before, of_name in zip(names, found_before, found_after, strict=True)
    }


def _lost(plain: Spans, after: Spans) -> Spans:
    """The spans of which something was cut out, whole."""
    left = set(map(tuple, after.tolist()))
    return np.array([span for span in plain.tolist() if tuple(span) not in left], np.int64).reshape(-1, 2)


def _filled(spans: Spans) -> Spans:
    return spans[spans[:, 1] > spans[:, 0]]


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


def _leaks(
    codes: Codes, text: Codes, table: "pd.DataFrame", held_out: list[Spans], trains: list[Spans]
) -> list[list[dict[str, Any]]]:
    """For each train with those before it, and each held-out text: `in_train` and `longest`."""
    with (
        counting("split: looking for text of val and test in train", chars_to_search(held_out, trains)) as read,
        ThreadPoolExecutor(min(n_cores(), MOST_THREADS)) as threads,  # compiled functions release the GIL
    ):
        longest = threads.submit(longest_runs, codes, held_out, text, trains, read)
        seen = list(threads.map(lambda n: seen_in_train(codes, held_out, text, trains, n, read), LENGTHS))
    return [
        [
            {"in_train": _shares(of_text), "longest": _described(run, codes, table)}
            for run, *of_text in zip(runs, *of_train, strict=True)
        ]
        for runs, *of_train in zip(longest.result(), *seen, strict=True)
    ]


def _shares(seen: list[Seen]) -> dict[str, float]:
    """n -> the share of windows of n characters that stand in train."""
    shares = (round(each.in_train / each.windows, 6) if each.windows else 0.0 for each in seen)
    return dict(zip(map(str, LENGTHS), shares, strict=True))


def _described(run: Run | None, codes: Codes, table: "pd.DataFrame") -> dict[str, Any] | None:
    if run is None:
        return None
    works, ends = list(documents(table)), table["chars"].to_numpy(np.int64).cumsum()
    text = from_code_points(np.array(codes[run.start_a : run.start_a + min(run.chars, SHOWN_CHARS)]))
    work, of_train = (works[int(np.searchsorted(ends, start, "right"))].name for start in (run.start_a, run.start_b))
    return {"chars": run.chars, "work": work, "of_train": of_train, "text": text}
