"""Divide the characters into train, val and test, and cut text of val and test out of train.

The table of shares has a row for each run of characters of one work in one split. Stage tokenize makes it, because the
vocabulary may be learned from train, and adds the number of ids of each row. Stage split reads it.
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

ROUNDS = 20  # of _stratify: in each, every unit may move to another split; three are mostly enough

Ints = npt.NDArray[np.int64]
Label = tuple[int, int]  # kind (author or category) and number


def divide(clean: Path, table: "pd.DataFrame", split: Split) -> "pd.DataFrame":
    """Return the table of shares: split, work (its row in the table of works), and start and stop in the joined text.

    The rows are in the order of the text. Every work has at least one row of every split, which may be empty. With
    split.duplicates `remove`, text that val or test shares with train of another work is cut out of train.

    Raises:
        BukvaError: there are fewer works, or authors, than splits; or nothing is left of train.
    """
    if split.duplicates == "keep":
        return rows_of(spans(table, split))
    from bukva.corpus.repeats.leaks import cut_from  # numba takes 0.3 s to import

    with mapped_codes(clean, table) as (codes, text):
        whole = spans(table, split)
        held_out = np.concatenate([span for name, span in whole.items() if name != "train"])
        held_out = held_out[np.argsort(held_out[:, 0], kind="stable")]
        left = cut_from(codes, held_out, text, whole["train"], _works(table), split.duplicate_chars)
    if not len(left) and np.diff(whole["train"]).any():
        raise ParamsError(
            "params.yaml, split.duplicates: remove leaves nothing of train, because all of it stands in val or test, "
            "too; use keep, or take the copies out of the texts."
        )
    return rows_of(whole, left)


@contextmanager
def mapped_codes(clean: Path, table: "pd.DataFrame") -> Iterator[tuple[Codes, Codes]]:
    """Map the (N,) code points of the joined text twice: for random access, and for reading from start to end.

    Both are mapped from one temporary file. The system reads ahead in the second only: reading ahead at every random
    access would read a file that does not fit the memory a hundred times (docs/dev/log.md).
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


def rows_of(shares: dict[str, Spans], train: Ints | None = None) -> "pd.DataFrame":
    """Return the table of shares.

    Args:
        shares: split -> the span of each work.
        train: (m, 3) work, start and stop of the remaining train, if some was cut out. A work of which nothing remains
            keeps an empty row.
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
    """The share of each split in the works of a table, in their order.

    `tail`: the end of each work is test, the part before it val. `contiguous`: the works are joined, then cut, as in
    the lecture notes. `by_work` and `by_author`: whole works, so that val and test are works, or works of authors, of
    which nothing is in train. Splits are disjoint and complete; one whose fraction is 0 is absent.

    Raises:
        BukvaError: there are fewer works, or authors, than splits.
    """
    chars = table["chars"].to_numpy(np.int64)
    stops = np.cumsum(chars)
    starts = stops - chars
    # exact fractions: 0.9 + 0.05 in floating point is not 0.95
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
    # Python's integers: numerator times characters exceeds 64 bits
    return np.array([n * share.numerator // share.denominator for n in chars.tolist()], np.int64)


def _whole_works(table: "pd.DataFrame", strategy: str, ends: list[Fraction]) -> Ints:
    """(n_works,) the number of the split that has the work, or all works of its author."""
    # numbers in the order of the names, so that the order of the rows does not matter
    author, category, work = (
        table.groupby(list(names)).ngroup().to_numpy().astype(np.int64)
        for names in (("author",), ("category",), ("category", "author", "work"))
    )
    units = author if strategy == "by_author" else work
    fractions = [end - start for start, end in itertools.pairwise([Fraction(0), *ends])]
    if (n := len(set(units.tolist()))) < len(fractions):
        what = strategy.removeprefix("by_")
        raise ParamsError(
            f"params.yaml, split.strategy: {strategy} needs one {what} for each of the {len(fractions)} splits, but "
            f"the corpus has {n}; use tail, or more text."
        )
    return _stratify(table["chars"].to_numpy(np.int64), units, [author, category], fractions)


def _stratify(chars: Ints, units: Ints, labels: Sequence[Ints], fractions: Sequence[Fraction]) -> Ints:
    """The split of every work, so that each split has the whole's shares of labels.

    It is the greedy form of iterative stratification (Sechidis, Tsoumakas and Vlahavas: On the stratification of
    multi-label data, 2011) for works of different lengths: the longest comes first, each goes to the split that lacks
    it most, and then works move while that helps. Nothing is drawn, so the order of the files does not matter.

    Args:
        chars: (n_works,) lengths.
        units: (n_works,) numbers from 0; works of one unit come into the same split.
        labels: (n_works,) each: authors, categories, numbered from 0.
        fractions: of the splits, at most one for each unit; their sum is 1.

    Returns:
        (n_works,) the number of the split; no split is empty.
    """
    # the whole is a label, too, and counts as much as the others together, so that the splits get their lengths
    levels = [*labels, *[np.zeros_like(units)] * len(labels)]
    parts, whole = [Counter[Label]() for _ in range(int(units.max()) + 1)], Counter[Label]()
    for unit, n, *of in np.column_stack([units, chars, *levels]).tolist():
        for counts in (parts[unit], whole):
            counts.update(dict.fromkeys(enumerate(of), n))
    # of each label the (n_splits,) characters that a split has beyond its fraction
    surplus = {label: -n * np.array([float(fraction) for fraction in fractions]) for label, n in whole.items()}
    longest_first = np.argsort(-np.bincount(units, chars), kind="stable").tolist()
    split_of = np.full(len(parts), -1)
    for _ in range(ROUNDS):
        before = split_of.copy()
        for unit in longest_first:
            if split_of[unit] >= 0:
                _add(surplus, split_of[unit], parts[unit], -1)
            here = np.array([surplus[label] for label in parts[unit]])  # (n, n_splits)
            cost = (np.abs(here + np.array([*parts[unit].values()])[:, None]) - np.abs(here)).sum(axis=0)  # (n_splits,)
            split_of[unit] = np.lexsort((here.sum(axis=0), cost))[0]  # the least of surplus and lack
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
