"""Test a sequence of tries against a baseline. A try is a changed setting that should improve on the baseline.

A try is tested after 1, 2, 4 and 8 seeds, until there is a decision. Each of these four looks may use a quarter of the
significance level of the try (Bonferroni), but only the last one keeps it, because a baseline needs eight seeds anyway.
The other quarters make up for the selection: only tries that looked good before reach the last look.

The level of each try comes from ADDIS (Tian & Ramdas 2019, arXiv:1905.11465, algorithm 1). It limits the expected
fraction of wrong decisions among all decisions to keep a try. Each test spends a part of a budget, unless its p-value
is at most CANDIDATE or more than SELECTED, and each decision to keep a try adds to the budget.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Literal

from scipy.special import stdtr

from bukva.compare.statistics.estimate import Estimate, Floor, pool
from bukva.compare.statistics.settings import MATTERS

N_SEEDS = (1, 2, 4, 8)  # numbers of seeds after which a try is tested
HOPELESS = (0.5, 0.3, 0.2)  # for each look except the last: a try is discarded if its p-value is higher
# Most degrees of freedom with which the variance between seeds of other trainings counts for a try, next to its own
# variance, because its scores may vary more with the seed than theirs.
BORROWED_DF = 4

SELECTED = 0.5  # a try with a p-value above this costs nothing
CANDIDATE = 0.25  # a try with a p-value of at most this is likely to be better, and costs nothing either
EXPONENT = 1.6  # the tries that cost something spend the budget in proportion to 1, 1 / 2^1.6, 1 / 3^1.6, ...
ZETA = 2.2857656  # sum of the series 1 + 1 / 2^1.6 + 1 / 3^1.6 + ...
START = 0.5  # budget before a try is kept, as a fraction of the limit of the false discovery rate
# p-value of a try that was given up. It costs something, because the first scores may have been a reason to give it up.
GIVEN_UP = SELECTED

Decision = Literal["keep", "discard", "cannot tell", "more seeds"]


@dataclass(frozen=True)
class Look:
    """Result of one test of a try."""

    estimate: Estimate  # try minus baseline
    p: float  # one-sided p-value, multiplied by the number of looks and limited to 1
    decision: Decision


def look(text: Estimate, baseline: Sequence[float], tried: Sequence[float], known: Floor, level: float) -> Look:
    """Test a try that has been trained with 1, 2, 4 or 8 seeds.

    text: mean score of the try minus that of the baseline. Its error covers the choice of the text, but not the seeds.
    baseline, tried: bits per character, one score for each seed.
    known: standard deviation between seeds, pooled over the baseline and the earlier tries.
    level: significance level of all looks at this try together.
    """
    for_try = pool([Floor(known.sd, min(known.df, BORROWED_DF)), Floor.of(tried)])
    seeds = [(known.sd**2 / len(baseline), known.df), (for_try.sd**2 / len(tried), for_try.df)]
    estimate = Estimate.of(text.difference, [(text.se**2, text.df), *seeds])
    p = float(stdtr(estimate.df, estimate.difference / estimate.se))
    decision: Decision
    if len(tried) < N_SEEDS[-1]:
        decision = "discard" if p > HOPELESS[N_SEEDS.index(len(tried))] else "more seeds"
    elif p <= level / len(N_SEEDS):
        decision = "keep"
    else:
        decision = "discard" if estimate.interval[0] > -MATTERS else "cannot tell"
    return Look(estimate, min(1.0, p * len(N_SEEDS)), decision)


def next_level(ps: Sequence[float], kept: Sequence[bool], level: float) -> float:
    """Return the significance level of the next try, from the p-values of all tries so far and which were kept.

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
    """Return the fraction of a budget that the next test may spend, after n tests have spent a part of it."""
    return (n + 1) ** -EXPONENT / ZETA
