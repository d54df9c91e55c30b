"""Online control of the false discovery rate: the significance level at which each try of a sequence is tested.

The false discovery rate is the expected fraction of false keeps among all keeps. ADDIS (Tian & Ramdas 2019,
arXiv:1905.11465, algorithm 1) keeps it below a given level. It has a budget of significance: each try spends a part of
the budget, each keep earns some of it back, and tries that are clearly no better cost nothing.
"""

from collections.abc import Sequence
from itertools import accumulate

SELECTED = 0.5  # a try with a larger p costs nothing
CANDIDATE = 0.25  # a try with a p of at most this is a candidate for a gain and costs nothing either
POWER = 1.6  # the budget is spent in proportion to 1, 1 / 2^1.6, 1 / 3^1.6, ...
ZETA = 2.2857656  # sum of this series
START = 0.5  # fraction of the level that is available before the first keep


def next_level(ps: Sequence[float], kept: Sequence[bool], level: float) -> float:
    """Return the level at which the next try is tested.

    Args:
        ps: p-values of all earlier tries, in order.
        kept: for each earlier try, whether it was kept.
        level: upper limit of the false discovery rate, such as 0.1.
    """
    # spent[t]: number of tries among the first t that cost something
    spent = list(accumulate((CANDIDATE < p <= SELECTED for p in ps), initial=0))
    keeps = [t for t, was_kept in enumerate(kept, start=1) if was_kept]
    wealth = START * level * _share(spent[-1])
    for number, t in enumerate(keeps):
        wealth += (level - START * level if number == 0 else level) * _share(spent[-1] - spent[t])
    return min(CANDIDATE, (SELECTED - CANDIDATE) * wealth)


def _share(n: int) -> float:
    """Return the fraction of a budget that a try may spend after n tries that cost something."""
    return (n + 1) ** -POWER / ZETA
