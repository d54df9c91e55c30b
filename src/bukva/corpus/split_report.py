"""Describe the contents of each split, and measure how much val and test repeat train, or are unlike train."""

from collections.abc import Iterator, Mapping
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from bukva.core.schema import Split
from bukva.core.words import count
from bukva.corpus.repeats import seen_in_train
from bukva.text.characters import Codes
from bukva.text.collection import decade, read_codes
from bukva.text.ids import Spans, names_in

if TYPE_CHECKING:
    import pandas as pd

LENGTHS = (8, 16, 32, 64)  # window lengths in characters: about 1.5 words, half a line, a line, and a sentence
LINE = "32"  # the window length that warnings are about
MUCH_SEEN = 0.25  # a larger fraction of windows of LINE characters that occur in train is reported; RusLit has 0.04
MISSED = 0.1  # a larger relative difference between the requested and the actual fraction of a split is reported

PARTS = 16  # number of parts of the training split; the part that is most unlike the others is ignored
WINDOW = 1000  # maximum number of characters of a window that the bigram model predicts
SHORTEST = 50  # minimum number of characters of such a window; the bits per character of shorter ones vary too much
FEWEST, MOST = 8, 64  # minimum and maximum number of windows of val or test; a part of train can have fewer windows
UNLIKE = 0.25  # a split with so many more bits per character than the parts of train is reported (log, 2026-11-26)

Ints = npt.NDArray[np.int64]


def report(clean: Path, table: "pd.DataFrame", shares: "pd.DataFrame") -> dict[str, Any]:
    """Return the content of reports/split.json: a description of each split, by name of the split.

    A description has the number of characters of the split, also by category, decade and author. For val and test,
    `in_train` is the fraction of the windows (sequences of n characters) that also occur in train, by window length n.
    `table` is the table of works of the corpus in the folder `clean`, and `shares` is its table of shares.
    """
    names = names_in(shares)
    result = {name: _contents(table, _chars(shares, name, len(table))) for name in names}
    spans = {name: shares.loc[shares["split"] == name, ["start", "stop"]].to_numpy(np.int64) for name in names}
    train, codes = spans.pop("train"), read_codes(clean, table)
    seen = seen_in_train(codes, [*spans.values()], codes, train, LENGTHS)
    for i, name in enumerate(spans):
        result[name]["in_train"] = {str(n): round(of_texts[i] or 0.0, 6) for n, of_texts in seen.items()}
    for name, bits in bigram_bits(codes, train, spans).items():
        result[name]["bigram_bits"] = round(bits, 3)
    return result


def _chars(shares: "pd.DataFrame", name: str, n_works: int) -> Ints:
    """Return the (n_works,) number of characters of each work in a split."""
    rows = shares[shares["split"] == name]
    return np.bincount(rows["work"], rows["stop"] - rows["start"], n_works).astype(np.int64)


def _contents(table: "pd.DataFrame", chars: Ints) -> dict[str, Any]:
    works = table[["category", "author"]].assign(chars=chars)
    return {
        "chars": int(chars.sum()),
        "categories": _summed(works, ["category"]),
        # a mapping, not a list, because DVC joins all lists of a file into one plot, row by row
        "decades": works.groupby(table["year"].map(decade))["chars"].sum().to_dict(),
        "authors": _summed(works, ["category", "author"]),
    }


def _summed(works: "pd.DataFrame", by: list[str]) -> list[Any]:
    return works.groupby(by)["chars"].sum().reset_index().to_dict("records")


# ---- messages


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
    """Return a warning if most of val consists of ends of short works (only with strategy tail), otherwise ""."""
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


# ---- text unlike the training split, such as the notes of books


def bigram_bits(codes: Codes, train: Spans, held_out: Mapping[str, Spans]) -> dict[str, float]:
    """Return the bits per character of a typical window of each split, by name of the split.

    A bigram model of the training split predicts the windows. The windows of each of its PARTS parts are predicted from
    the counts of all other parts, so that they have no advantage over the windows of val and test. The value of val or
    test is the median of its windows. For `train`, each part has a median, and the value is the second highest of
    these. The result is empty if any split is too short to judge. The spans are positions in `codes`.
    """
    n_train = _n_chars(train)
    size = min([WINDOW, n_train // PARTS, *(_n_chars(spans) // FEWEST for spans in held_out.values())])
    if size < SHORTEST:
        return {}
    edges = [n_train * part // PARTS for part in range(PARTS + 1)]
    parts = [_windows(codes, train, start, stop, size) for start, stop in pairwise(edges)]
    parts += [_windows(codes, spans, 0, _n_chars(spans), size) for spans in held_out.values()]
    windows, part_of = np.concatenate(parts), np.repeat(np.arange(len(parts)), [len(part) for part in parts])
    kinds, chars = np.unique(windows, return_inverse=True)
    chars = chars.reshape(windows.shape)
    first, second = chars[:, :-1], chars[:, 1:]
    pair = np.unique(first * len(kinds) + second, return_inverse=True)[1].reshape(first.shape)
    medians = []
    for part in range(len(parts)):
        own = part_of == part
        counted = (part_of < PARTS) & ~own
        of_pair, of_first, of_second = (
            np.bincount(ids[counted].ravel(), minlength=int(ids.max()) + 1) for ids in (pair, first, second)
        )
        alone = (of_second + 0.5) / (of_second.sum() + 0.5 * (np.count_nonzero(of_second) + 1))
        p = (of_pair[pair[own]] + 2 * alone[second[own]]) / (of_first[first[own]] + 2)
        medians.append(float(np.median(-np.log2(p).mean(axis=1))))
    return {"train": sorted(medians[:PARTS])[-2], **dict(zip(held_out, medians[PARTS:], strict=True))}


def _n_chars(spans: Spans) -> int:
    return int((spans[:, 1] - spans[:, 0]).sum())


def _windows(codes: Codes, spans: Spans, start: int, stop: int, size: int) -> Codes:
    """Return at most MOST windows of `size` characters, as an array of shape (number of windows, size)."""
    n = min(MOST, (stop - start) // size)
    positions = np.linspace(start, stop - size, n).astype(np.int64)[:, None] + np.arange(size)
    ends = np.cumsum(spans[:, 1] - spans[:, 0])
    return codes[positions + (spans[:, 1] - ends)[np.searchsorted(ends, positions, side="right")]]
