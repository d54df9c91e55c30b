"""What each split has: characters by author, category and decade, and what train knows of val and test."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from bukva.config.schema import Split
from bukva.core.machine import n_cores
from bukva.corpus.repeats.leaks import seen_in_train
from bukva.corpus.splits.division import mapped_codes
from bukva.corpus.splits.unlike import PARTS, UNLIKE, bigram_bits
from bukva.text.collection import decade
from bukva.text.splits import Spans, names_in

if TYPE_CHECKING:
    import pandas as pd

LENGTHS = (8, 16, 32, 64)  # of windows: a word and a half, half a line, a line, a sentence
LINE = "32"
MUCH_SEEN = 0.25  # of the windows of a line; RusLit has 0.04
MISSED = 0.1  # of the share that was asked for


def report(clean: Path, table: "pd.DataFrame", shares: "pd.DataFrame") -> dict[str, Any]:
    """reports/split.json of a cleaned text, its table of works and that of shares (bukva.corpus.splits.division).

    For each split its characters, also by category, decade and author. For val and test also `in_train`, the share of
    their windows of n characters that are also in train. Where texts are long enough, `bigram_bits` are bits per
    character under a bigram model of train (bukva.corpus.splits.unlike).
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
        for name, bits in bigram_bits(codes, train, dict(zip(names[1:], held_out, strict=True))).items():
            result[name]["bigram_bits"] = round(bits, 3)
    return result


def missed_shares(table: "pd.DataFrame", shares: "pd.DataFrame", split: Split) -> str:
    """Return a sentence about splits whose share of the characters is not the one asked for; "" if there are none."""
    by_work = {name: _chars(shares, name, len(table)) for name in names_in(shares)}
    chars = {name: int(of_works.sum()) for name, of_works in by_work.items()}
    missed = _missed(chars, split)
    if not missed:
        return ""
    cut, reasons = table["chars"].to_numpy() - np.sum([*by_work.values()], axis=0), []  # (n_works,)
    if cut.any():
        passages = "repeat passages of val and test were cut out of train (split.duplicates)"
        reasons.append(f"{cut.sum():,} characters in {np.count_nonzero(cut):,} work(s) that {passages}")
    if _missed({**chars, "train": chars["train"] + int(cut.sum())}, split):
        whole_works = split.strategy in ("by_work", "by_author")
        what = "whole works do not divide as asked" if whole_works else "shares of short works are rounded"
        reasons.append(f"{what} (split.strategy {split.strategy})")
    return f"{'; '.join(missed)}: {', and '.join(reasons)}"


def _missed(chars: dict[str, int], split: Split) -> list[str]:
    """Return what each split has and should have, if both differ by more than MISSED."""
    shares = {name: (n / max(1, sum(chars.values())), getattr(split, name)) for name, n in chars.items()}
    return [
        f"{name} has {100 * reached:.3g} % of the characters, not {100 * asked:.3g} %"
        for name, (reached, asked) in shares.items()
        if abs(reached - asked) > MISSED * asked
    ]


def short_ends(shares: "pd.DataFrame", split: Split) -> str:
    """Return a sentence about a val that is mostly the last few characters of many short works; "" if it is not."""
    val = shares[shares["split"] == "val"]
    sizes = (val["stop"] - val["start"]).to_numpy()
    short = sizes[sizes < int(LINE)]
    if split.strategy != "tail" or 2 * short.sum() <= sizes.sum():
        return ""
    return (
        f"most of val is fewer than {LINE} characters of the end of each of {len(short):,} work(s), so a score on val "
        "says little about the rest of a work; split.strategy contiguous or by_work hold out whole works"
    )


def findings(report: dict[str, Any]) -> Iterator[str]:
    """Yield a sentence for each split that train knows too well, or that is of another kind than train.

    Args:
        report: the content of reports/split.json.
    """
    highest = report["train"].get("bigram_bits")
    for name, split in report.items():
        if name == "train":
            continue
        if (seen := split["in_train"][LINE]) > MUCH_SEEN:
            yield (
                f"{100 * seen:.1f} % of the windows of {LINE} characters of {name} are also in train, so a score on "
                f"{name} shows memory as well as prediction (split.duplicates, split.strategy)"
            )
        if highest is not None and (bits := split["bigram_bits"]) > highest + UNLIKE:
            yield (
                f"most of {name} is unlike train: {bits:.2f} bits per character under a bigram model of train, at most "
                f"{highest:.2f} for {PARTS - 1} of {PARTS} parts of train; check whether texts end in a licence, notes "
                "or an index (clean.rules, split.strategy)"
            )


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
