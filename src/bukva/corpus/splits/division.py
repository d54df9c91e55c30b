"""Divide a corpus into train, val and test, and cut text out of train that also occurs in val or test.

A share is a contiguous part of a work that belongs to one split. The table of shares has one row for each share. Stage
tokenize writes this table, because it may learn the vocabulary from the training split. It also adds the number of ids
of each share to the table. Stage split reads the table.
"""

import itertools
import mmap
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from fractions import Fraction
from pathlib import Path
from typing import IO, TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from bukva.config.schema import Split
from bukva.core.errors import ParamsError
from bukva.text.characters import Codes, code_points
from bukva.text.collection import read_texts
from bukva.text.splits import SPLITS, Spans

if TYPE_CHECKING:
    import pandas as pd

ROUNDS = 20  # maximum number of passes of `_stratify` over all units; three are mostly enough

Ints = npt.NDArray[np.int64]
Label = tuple[int, int]  # kind of the label (such as author or category), and number of the label in this kind


def divide(clean: Path, table: "pd.DataFrame", split: Split) -> "pd.DataFrame":
    """Return the table of shares.

    Its columns are `split`, `work` (row in the table of works), and `start` and `stop` (positions in the joined text).
    The rows are in the order of the text. Every work has at least one row for each split; the row may be empty. With
    split.duplicates=remove, passages that also occur in val or test of another work are cut out of the training split.

    Args:
        clean: folder of the cleaned collection.
        table: the table of works of this collection.
        split: the parameters of the split.

    Raises:
        BukvaError: split.strategy is `by_work` or `by_author`, and there are fewer works or authors than splits. Or
            nothing is left of the training split.
    """
    if split.duplicates == "keep":
        return share_table(spans(table, split))
    from bukva.corpus.repeats.leaks import cut_from  # numba takes 0.3 s to import

    with mapped_codes(clean, table) as (codes, text):
        whole = spans(table, split)
        held_out = np.concatenate([span for name, span in whole.items() if name != "train"])
        held_out = held_out[np.argsort(held_out[:, 0], kind="stable")]
        remaining = cut_from(codes, held_out, text, whole["train"], _works(table), split.duplicate_chars)
    if not len(remaining) and np.diff(whole["train"]).any():
        raise ParamsError(
            "params.yaml, split.duplicates=remove: nothing is left in train, because its whole text also occurs in val "
            "or test; use split.duplicates=keep, or remove the copies from the corpus."
        )
    return share_table(whole, remaining)


@contextmanager
def mapped_codes(clean: Path, table: "pd.DataFrame") -> Iterator[tuple[Codes, Codes]]:
    """Yield the (N,) code points of the joined text twice, as two arrays.

    The first array is for random access, the second for reading from start to end. Both arrays map the same temporary
    file. The operating system reads ahead only in the second array. If it also read ahead at every random access, a
    file that does not fit in memory would be read a hundred times (docs/dev/log.md).
    """
    with tempfile.TemporaryFile(dir=clean.parent) as file:
        for _, text in read_texts(clean, table):
            for piece in text:
                file.write(code_points(piece).data)
        file.flush()
        yield _mapped(file, mmap.MADV_RANDOM), _mapped(file, mmap.MADV_SEQUENTIAL)


def _mapped(file: IO[bytes], advice: int) -> Codes:
    if not file.tell():
        return np.empty(0, np.uint32)  # an empty file cannot be mapped
    mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    mapped.madvise(advice)
    return np.frombuffer(mapped, np.uint32)


def _works(table: "pd.DataFrame") -> Spans:
    stops = table["chars"].to_numpy(np.int64).cumsum()
    return np.stack([stops - table["chars"], stops], axis=1)


def share_table(shares: dict[str, Spans], train: Ints | None = None) -> "pd.DataFrame":
    """Return the table of shares (see `divide`).

    Args:
        shares: split -> (n_works, 2) span of each work in the split.
        train: if text was cut out of the training split, the (m, 3) work, start and stop of the pieces that remain. A
            work without remaining pieces gets an empty row.
    """
    import pandas as pd

    parts = []
    for number, span in enumerate(shares.values()):
        rows = np.column_stack([np.arange(len(span)), span])
        if number == 0 and train is not None:
            rows = np.concatenate([np.delete(rows[:, [0, 1, 1]], train[:, 0], axis=0), train])
        parts.append(np.column_stack([np.full(len(rows), number), rows]))
    joined = np.concatenate(parts)
    split, work, start, stop = joined[np.lexsort((joined[:, 0], joined[:, 2], joined[:, 1]))].T
    return pd.DataFrame({"split": np.array(list(shares))[split], "work": work, "start": start, "stop": stop})


# ---- strategies


def spans(table: "pd.DataFrame", split: Split) -> dict[str, Spans]:
    """Return split -> (n_works, 2) start and stop of the part of each work that belongs to this split.

    The positions are positions in the joined text. Every character belongs to exactly one split. A split with fraction
    0 is absent. split.strategy decides how the text is divided:
    `tail`: the end of each work belongs to test, and the part before the end belongs to val.
    `contiguous`: the works are joined and then cut, as in the lecture notes.
    `by_work`: each work belongs to one split as a whole.
    `by_author`: all works of an author belong to the same split.

    Raises:
        BukvaError: there are fewer works (`by_work`) or authors (`by_author`) than splits.
    """
    chars = table["chars"].to_numpy(np.int64)
    stops = np.cumsum(chars)
    starts = stops - chars
    # exact fractions, because 0.9 + 0.05 in floating point is not 0.95
    train, val = Fraction(str(split.train)), Fraction(str(split.val))
    ends = [train, min(train + val, Fraction(1)), Fraction(1)] if split.test > 0 else [train, Fraction(1)]
    match split.strategy:
        case "tail":
            edges = [starts + _cut(chars, end) for end in ends]
        case "contiguous":
            edges = [np.clip(_cut(stops[-1:], end), starts, stops) for end in ends]
        case _:
            split_of = _whole_works(table, split.strategy, ends)
            edges = [np.where(split_of <= number, stops, starts) for number in range(len(ends))]
    named = zip(SPLITS, [starts, *edges], edges, strict=False)
    return {name: np.stack([start, stop], axis=1) for name, start, stop in named if getattr(split, name) > 0}


def _cut(chars: Ints, share: Fraction) -> Ints:
    # Python's integers, because the product of a numerator and a number of characters can exceed 64 bits
    return np.array([n * share.numerator // share.denominator for n in chars.tolist()], np.int64)


def _whole_works(table: "pd.DataFrame", strategy: str, ends: list[Fraction]) -> Ints:
    """Return, for each of (n_works,) works, the number of its split, for the strategies `by_work` and `by_author`.

    `ends` are the fractions of the characters at which the splits end.
    """
    # numbered in the order of the names, so that the order of the rows does not matter
    author, category, work = (
        table.groupby(list(names)).ngroup().to_numpy().astype(np.int64)
        for names in (("author",), ("category",), ("category", "author", "work"))
    )
    units = author if strategy == "by_author" else work
    fractions = [end - start for start, end in itertools.pairwise([Fraction(0), *ends])]
    if (n := len(set(units.tolist()))) < len(fractions):
        what = strategy.removeprefix("by_")
        raise ParamsError(
            f"params.yaml, split.strategy: '{strategy}' needs at least one {what} for each of the {len(fractions)} "
            f"splits, but the corpus has {n}; use 'tail', or more text."
        )
    return _stratify(table["chars"].to_numpy(np.int64), units, [author, category], fractions)


def _stratify(chars: Ints, units: Ints, labels: Sequence[Ints], fractions: Sequence[Fraction]) -> Ints:
    """Assign works to splits so that the share of each label in a split is close to its share in the whole corpus.

    This is the greedy form of iterative stratification (Sechidis, Tsoumakas and Vlahavas: On the stratification of
    multi-label data, 2011) for works of different lengths. Works are assigned in units, such as all works of an author,
    the longest unit first. Each unit goes to the split that most lacks the labels of this unit. Then units are moved to
    another split for as long as this improves the result. Nothing is random, so the same corpus is always divided in
    the same way.

    Args:
        chars: (n_works,) lengths of the works.
        units: (n_works,) for each work, the number of its unit, from 0.
        labels: for each kind of label, such as author or category, the (n_works,) label of each work as a number.
        fractions: for each split, its fraction of the characters. Their sum is 1. There are at most as many splits as
            units.

    Returns:
        (n_works,) for each work, the number of its split. No split is empty.
    """
    # Add the same number of labels that all works share. The lengths of the splits then weigh as much as all other
    # labels together.
    levels = [*labels, *[np.zeros_like(units)] * len(labels)]
    parts, whole = [Counter[Label]() for _ in range(int(units.max()) + 1)], Counter[Label]()
    for unit, n, *numbers in np.column_stack([units, chars, *levels]).tolist():
        for counts in (parts[unit], whole):
            counts.update(dict.fromkeys(enumerate(numbers), n))
    # label -> (n_splits,) number of characters with this label that each split has beyond its fraction
    surplus = {label: -n * np.array([float(fraction) for fraction in fractions]) for label, n in whole.items()}
    longest_first = np.argsort(-np.bincount(units, chars), kind="stable").tolist()
    split_of = np.full(len(parts), -1)
    for _ in range(ROUNDS):
        before = split_of.copy()
        for unit in longest_first:
            if split_of[unit] >= 0:
                _add(surplus, split_of[unit], parts[unit], -1)
            current = np.array([surplus[label] for label in parts[unit]])  # (n, n_splits)
            added = np.array([*parts[unit].values()])[:, None]  # (n, 1)
            cost = (np.abs(current + added) - np.abs(current)).sum(axis=0)  # (n_splits,)
            # choose the lowest cost and, among equal costs, the split that lacks the most characters
            split_of[unit] = np.lexsort((current.sum(axis=0), cost))[0]
            _add(surplus, split_of[unit], parts[unit], 1)
        if np.array_equal(split_of, before):
            break
    for empty in set(range(len(fractions))) - set(split_of.tolist()):
        movable = [unit for unit in longest_first if (split_of == split_of[unit]).sum() > 1]
        split_of[movable[-1]] = empty
    return split_of[units]


def _add(surplus: dict[Label, npt.NDArray[np.float64]], split: int, part: Counter[Label], sign: int) -> None:
    for label, n in part.items():
        surplus[label][split] += sign * n
