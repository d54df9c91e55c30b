"""Whole works to splits, so that each split resembles the whole: the same shares of authors and of categories.

It is the greedy form of iterative stratification (Sechidis, Tsoumakas and Vlahavas: On the stratification of
multi-label data, 2011) for works of different lengths: the longest comes first, each goes to the split that lacks it
most, and then works move while that helps. Nothing is drawn, so the order of the files does not matter.
"""

from collections.abc import Sequence
from fractions import Fraction

import numpy as np
import numpy.typing as npt

ROUNDS = 20  # in which every unit may move; it is mostly over after three

Labels = npt.NDArray[np.int64]


def stratify(
    chars: npt.NDArray[np.int64], units: Labels, labels: Sequence[Labels], fractions: Sequence[Fraction]
) -> Labels:
    """The split of every work.

    Args:
        chars: (n_works,) lengths.
        units: (n_works,) numbers from 0; works of one unit come into the same split.
        labels: (n_works,) each: authors, categories, numbered from 0.
        fractions: of the splits; their sum is 1.

    Returns:
        (n_works,) the number of the split; no split is empty.

    Raises:
        ValueError: there are fewer units than splits.
    """
    n_units, n_splits = int(units.max(initial=-1)) + 1, len(fractions)
    if n_units < n_splits:
        raise ValueError(f"{n_units} units cannot fill {n_splits} splits")
    surplus, parts = _start(chars, units, labels, fractions)
    lengths = np.bincount(units, chars, n_units)
    split_of = np.full(n_units, -1)
    longest_first = np.argsort(-lengths, kind="stable").tolist()
    for _ in range(ROUNDS):
        before = split_of.copy()
        for unit in longest_first:
            _move(unit, split_of, surplus, parts[unit])
        if np.array_equal(split_of, before):
            break
    for empty in set(range(n_splits)) - set(split_of.tolist()):
        movable = [unit for unit in longest_first if (split_of == split_of[unit]).sum() > 1]
        split_of[movable[-1]] = empty
    return split_of[units]


Part = tuple[npt.NDArray[np.int64], npt.NDArray[np.float64]]  # a unit: its labels, and its characters in each


def _start(
    chars: npt.NDArray[np.int64], units: Labels, labels: Sequence[Labels], fractions: Sequence[Fraction]
) -> tuple[npt.NDArray[np.float64], list[Part]]:
    """(n_labels, n_splits) characters that a split has beyond its fraction, of each label; and every unit's part.

    The whole is a label too. It counts as much as the others together, so that the splits get their lengths.
    """
    levels = [*labels, *[np.zeros_like(units)] * max(len(labels), 1)]
    sizes = [int(level.max(initial=-1)) + 1 for level in levels]
    flat = np.concatenate([level + start for level, start in zip(levels, np.cumsum([0, *sizes]), strict=False)])
    # one row for each unit and label that meet, sorted by unit
    keys, where = np.unique(np.tile(units, len(levels)) * sum(sizes) + flat, return_inverse=True)
    weights = np.bincount(where, np.tile(chars, len(levels))).astype(np.float64)
    of_unit, of_label = np.divmod(keys, sum(sizes))
    starts = np.searchsorted(of_unit, np.arange(1, units.max() + 1))
    parts = list(zip(np.split(of_label.astype(np.int64), starts), np.split(weights, starts), strict=True))
    total = np.bincount(of_label, weights, sum(sizes)).astype(np.float64)
    return -total[:, None] * np.array([float(fraction) for fraction in fractions]), parts


def _move(unit: int, split_of: Labels, surplus: npt.NDArray[np.float64], part: Part) -> None:
    """Put a unit into the split where the surplus and the lack of all labels are least."""
    labels, weights = part
    if split_of[unit] >= 0:
        surplus[labels, split_of[unit]] -= weights
    here = surplus[labels]  # (n, n_splits)
    cost = (np.abs(here + weights[:, None]) - np.abs(here)).sum(axis=0)  # (n_splits,)
    split_of[unit] = min(range(len(cost)), key=lambda split: (cost[split], here[:, split].sum()))
    surplus[labels, split_of[unit]] += weights
