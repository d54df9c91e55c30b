"""Which characters are train, val and test.

One pure function of the table of works and the parameters decides; tokenize (whose vocabulary may be that of train)
and split both call it.
"""

import itertools
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from bukva.config.messages import WAY_BACK
from bukva.config.schema import Split
from bukva.core.errors import BukvaError
from bukva.corpus.splits.stratify import stratify
from bukva.text.splits import SPLITS, Spans

if TYPE_CHECKING:
    import pandas as pd

Numbers = npt.NDArray[np.int64]  # (n_works,)


def spans(table: "pd.DataFrame", split: Split, groups: Numbers | None = None) -> dict[str, Spans]:
    """The share of each split in the works of a table, in their order.

    `tail`: the end of each work is test, the part before it val. `contiguous`: the works are joined, then cut, as in
    the lecture notes. `by_work` and `by_author`: whole works, so that val and test are works, or works of authors, of
    which nothing is in train; works of one of the `groups`, (n_works,) numbers from 0, are then in the same split.
    Splits are disjoint and complete; one whose fraction is 0 is absent.

    Raises:
        BukvaError: there are fewer works, or authors, than splits.
    """
    chars = table["chars"].to_numpy(np.int64)
    stops = np.cumsum(chars)
    starts = stops - chars
    ends = _cumulated(split)
    match split.strategy:
        case "tail":
            edges = [starts + _cut(chars, end) for end in ends]
        case "contiguous":
            edges = [np.clip(_cut(stops[-1:], end), starts, stops) for end in ends]
        case _:
            split_of = _whole_works(table, split.strategy, ends, groups)
            edges = [np.where(split_of <= number, stops, starts) for number in range(len(ends))]
    named = zip(SPLITS, [starts, *edges], edges, strict=False)
    return {name: np.stack([start, stop], axis=1) for name, start, stop in named if getattr(split, name) > 0}


def _whole_works(table: "pd.DataFrame", strategy: str, ends: list[Fraction], groups: Numbers | None) -> Numbers:
    """(n_works,) the number of the split that has the work, or all works of its author."""
    # numbers in the order of the names, so that the order of the rows does not matter
    author, category, work = (
        table.groupby(list(names)).ngroup().to_numpy().astype(np.int64)
        for names in (("author",), ("category",), ("category", "author", "work"))
    )
    units = author if strategy == "by_author" else work
    if groups is not None:
        units = _joined(units, groups)
    fractions = [end - start for start, end in itertools.pairwise([Fraction(0), *ends])]
    try:
        return stratify(table["chars"].to_numpy(np.int64), units, [author, category], fractions)
    except ValueError:
        what, n = strategy.removeprefix("by_"), len(set(units))
        raise BukvaError(
            f"params.yaml, split.strategy: {strategy} needs one {what} for each of the {len(fractions)} splits, but "
            f"the corpus has {n}; use tail, or more text.\n{WAY_BACK}"
        ) from None


def _joined(units: Numbers, groups: Numbers) -> Numbers:
    """(n_works,) units, numbered by their first one: those that have works of the same group become one."""
    from scipy.sparse import coo_matrix
    from scipy.sparse.csgraph import connected_components

    n_units, n_groups = int(units.max()) + 1, int(groups.max()) + 1
    links = coo_matrix((np.ones(len(units)), (units, groups + n_units)), shape=(n_units + n_groups,) * 2)
    _, component = connected_components(links, directed=False)
    return np.unique(component[units], return_inverse=True)[1].astype(np.int64)


def _cumulated(split: Split) -> list[Fraction]:
    """Where train, val and test end, as exact fractions: 0.9 + 0.05 in floating point is not 0.95."""
    train, val = Fraction(str(split.train)), Fraction(str(split.val))
    return [train, min(train + val, Fraction(1)), Fraction(1)] if split.test > 0 else [train, Fraction(1)]


def _cut(chars: Spans, share: Fraction) -> Spans:
    # Python's integers: numerator times characters exceeds 64 bits
    return np.array([n * share.numerator // share.denominator for n in chars.tolist()], np.int64)
