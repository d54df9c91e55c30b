"""Many tries one after the other: at which level each may be tested, so that few of those that are kept are false.

ADDIS (Tian & Ramdas 2019, arXiv:1905.11465, algorithm 1) holds the false discovery rate: the expected share of false
keeps among the kept. It spends a budget of level on each try, wins some back with each keep, and spends nothing on
tries that are clearly no better.
"""

from collections.abc import Sequence
from itertools import accumulate

SELECTED = 0.5  # a try with a larger p costs nothing
CANDIDATE = 0.25  # a try with a smaller p is a candidate for a gain, and costs nothing either
POWER = 1.6  # the budget is spent as 1, 1 / 2^1.6, 1 / 3^1.6 and so on
ZETA = 2.2857656  # the sum of these
START = 0.5  # share of the level that is there before the first keep


def next_level(ps: Sequence[float], kept: Sequence[bool], level: float) -> float:
    """Return the level at which the next try is tested.

    Args:
        ps: p-values of the tries before, in their order.
        kept: whether each of them was kept.
        level: the false discovery rate to hold, such as 0.1.
    """
    # spent[t]: how many of the first t tries cost something
    spent = list(accumulate((CANDIDATE < p <= SELECTED for p in ps), initial=0))
    keeps = [t for t, was_kept in enumerate(kept, start=1) if was_kept]
    wealth = START * level * _share(spent[-1])
    for number, t in enumerate(keeps):
        wealth += (level - START * level if number == 0 else level) * _share(spent[-1] - spent[t])
    return min(CANDIDATE, (SELECTED - CANDIDATE) * wealth)


def _share(n: int) -> float:
    """Return the share of a budget that is left for a try after n tries that cost something."""
    return (n + 1) ** -POWER / ZETA
