"""Choose the significance level at which each try in a sequence is tested (online control of false discoveries).

A try is a changed setting that is tested against the baseline, and is kept if it is better. The false discovery rate is
the expected fraction of wrong decisions among all decisions to keep a try. The algorithm ADDIS (Tian & Ramdas 2019,
arXiv:1905.11465, algorithm 1) keeps this rate below a given limit.

The algorithm has a budget. Each test spends a part of the budget, and each decision to keep a try adds to the budget.
However, a test is free if its p-value is at most CANDIDATE or more than SELECTED.
"""

from collections.abc import Sequence
from itertools import accumulate

SELECTED = 0.5  # a try with a p-value above this costs nothing
CANDIDATE = 0.25  # a try with a p-value of at most this is likely to be better, and costs nothing either
POWER = 1.6  # the tries that cost something spend the budget in proportion to 1, 1 / 2^1.6, 1 / 3^1.6, ...
ZETA = 2.2857656  # sum of the series 1 + 1 / 2^1.6 + 1 / 3^1.6 + ...
START = 0.5  # budget before a try is kept, as a fraction of the limit of the false discovery rate


def next_level(ps: Sequence[float], kept: Sequence[bool], level: float) -> float:
    """Return the significance level at which the next try (a changed setting) is tested against the baseline.

    Args:
        ps: p-value of each earlier try, from the first try to the last.
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
    """Return the fraction of a budget that the next test may spend, after n tests that have each spent a part of it."""
    return (n + 1) ** -POWER / ZETA
