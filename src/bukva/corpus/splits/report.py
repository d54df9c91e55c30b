"""Describe the contents of each split, and measure how much of val and test also occurs in train."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from bukva.core.machine import n_cores
from bukva.core.schema import Split
from bukva.core.words import count
from bukva.corpus.repeats import seen_in_train
from bukva.corpus.splits.unlike import PARTS, UNLIKE, bigram_bits
from bukva.text.characters import code_points
from bukva.text.collection import decade, read_text
from bukva.text.splits import Spans, names_in

if TYPE_CHECKING:
    import pandas as pd

LENGTHS = (8, 16, 32, 64)  # window lengths in characters: about 1.5 words, half a line, a line, and a sentence
LINE = "32"  # the window length that warnings are about
# A larger fraction of windows of LINE characters that also occur in train is reported. RusLit has 0.04.
MUCH_SEEN = 0.25
MISSED = 0.1  # a larger relative difference between the requested and the actual fraction of a split is reported


def report(clean: Path, table: "pd.DataFrame", shares: "pd.DataFrame") -> dict[str, Any]:
    """Return the content of reports/split.json: a description of each split, by name of the split.

    A description has the number of characters of the split, also by category, decade and author. For val and test,
    `in_train` is the fraction of the windows (sequences of n characters) that also occur in the training split, by
    window length n. If all splits are long enough, `bigram_bits` is the bits per character under a bigram model of the
    training split (unlike.py).

    `table` is the table of works of the corpus in the folder `clean`, and `shares` is its table of shares.
    """
    names = names_in(shares)
    result = {name: _contents(table, _chars(shares, name, len(table))) for name in names}
    held_out, train = [_spans(shares, name) for name in names[1:]], _spans(shares, "train")
    codes = code_points(read_text(clean))
    with ThreadPoolExecutor(min(n_cores(), len(LENGTHS))) as threads:  # numpy sorts and searches without the GIL
        seen = [*threads.map(lambda n: seen_in_train(codes, held_out, codes, train, n), LENGTHS)]
    for name, *of_lengths in zip(names[1:], *seen, strict=True):
        by_length = zip(LENGTHS, of_lengths, strict=True)
        result[name]["in_train"] = {str(n): round(share or 0.0, 6) for n, share in by_length}
    for name, bits in bigram_bits(codes, train, dict(zip(names[1:], held_out, strict=True))).items():
        result[name]["bigram_bits"] = round(bits, 3)
    return result


def missed_shares(table: "pd.DataFrame", shares: "pd.DataFrame", split: Split) -> str:
    """Return a message about splits whose size is far (see MISSED) from the requested one, with the reasons, or ""."""
    by_work = {name: _chars(shares, name, len(table)) for name in names_in(shares)}
    chars = {name: int(of_works.sum()) for name, of_works in by_work.items()}
    missed = _missed(chars, split)
    if not missed:
        return ""
    cut, reasons = table["chars"].to_numpy() - np.sum([*by_work.values()], axis=0), []  # (n_works,)
    if cut.any():
        why = "were cut out of train because they repeat val or test (split.duplicates)"
        reasons.append(f"{count(int(cut.sum()), 'character')} in {count(int(np.count_nonzero(cut)), 'work')} {why}")
    if _missed({**chars, "train": chars["train"] + int(cut.sum())}, split):
        whole_works = split.strategy in ("by_work", "by_author")
        what = "whole works cannot be divided exactly" if whole_works else "parts of short works are rounded"
        reasons.append(f"{what} (split.strategy={split.strategy})")
    return f"{'; '.join(missed)}: {', and '.join(reasons)}"


def _missed(chars: dict[str, int], split: Split) -> list[str]:
    shares = {name: (n / max(1, sum(chars.values())), getattr(split, name)) for name, n in chars.items()}
    return [
        f"{name} has {100 * actual:.3g} % of the characters instead of {100 * requested:.3g} %"
        for name, (actual, requested) in shares.items()
        if abs(actual - requested) > MISSED * requested
    ]


def short_ends(shares: "pd.DataFrame", split: Split) -> str:
    """Return a warning if most of val consists of parts with fewer than LINE characters, otherwise "".

    Such parts are the ends of short works. Only `split.strategy=tail` puts them into val.
    """
    val = shares[shares["split"] == "val"]
    sizes = (val["stop"] - val["start"]).to_numpy()
    short = sizes[sizes < int(LINE)]
    if split.strategy != "tail" or 2 * short.sum() <= sizes.sum():
        return ""
    return (
        f"most of val consists of the ends of {count(len(short), 'work')}, with fewer than {LINE} characters each, so "
        "a score on val says little about whole works; use `split.strategy=contiguous` or `split.strategy=by_work` to "
        "hold out whole works"
    )


def findings(report: dict[str, Any]) -> Iterator[str]:
    """Yield a warning for each held-out split of a `report` that repeats too much of train, or is too unlike train."""
    highest = report["train"].get("bigram_bits")
    for name, split in report.items():
        if name == "train":
            continue
        if (seen := split["in_train"][LINE]) > MUCH_SEEN:
            yield (
                f"{100 * seen:.1f} % of the windows of {LINE} characters in {name} also occur in train, so a score on "
                f"{name} measures memory as well as prediction; see `split.duplicates` and `split.strategy`"
            )
        if highest is not None and (bits := split["bigram_bits"]) > highest + UNLIKE:
            yield (
                f"most of {name} is unlike train: {name} has {bits:.2f} bits per character under a bigram model of "
                f"train, but {PARTS - 1} of {PARTS} parts of train have at most {highest:.2f}; check whether works end "
                "with a license, notes or an index, and see `clean.rules` and `split.strategy`"
            )


def _contents(table: "pd.DataFrame", chars: npt.NDArray[np.int64]) -> dict[str, Any]:
    works = table[["category", "author"]].assign(chars=chars)
    return {
        "chars": int(chars.sum()),
        "categories": _summed(works, ["category"]),
        # a mapping, not a list, because DVC joins all lists of a file into one plot, row by row
        "decades": works.groupby(table["year"].map(decade))["chars"].sum().to_dict(),
        "authors": _summed(works, ["category", "author"]),
    }


def _summed(works: "pd.DataFrame", by: list[str]) -> list[dict[str, Any]]:
    sums = works.groupby(by)["chars"].sum()
    return [dict(zip([*by, "chars"], row, strict=True)) for row in sums.reset_index().itertuples(index=False)]


def _chars(shares: "pd.DataFrame", name: str, n_works: int) -> npt.NDArray[np.int64]:
    rows = shares[shares["split"] == name]
    return np.bincount(rows["work"], rows["stop"] - rows["start"], n_works).astype(np.int64)


def _spans(shares: "pd.DataFrame", name: str) -> Spans:
    return shares.loc[shares["split"] == name, ["start", "stop"]].to_numpy(np.int64)
