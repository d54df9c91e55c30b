"""Test a sequence of tries against a baseline. A try is a changed setting that should improve on the baseline.

A try is tested after 1, 2, 4 and 8 seeds, until there is a decision. Each of these four looks may use a quarter of the
significance level of the try (Bonferroni), and the first two never keep it. The variance between seeds is pooled over
the baseline and all earlier tries, because the level is very low late in a night.

The level of each try comes from ADDIS (Tian & Ramdas 2019, arXiv:1905.11465, algorithm 1). It limits the expected
fraction of wrong decisions among all decisions to keep a try. Each test spends a part of a budget, unless its p-value
is at most CANDIDATE or more than SELECTED, and each decision to keep a try adds to the budget.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import Literal

from scipy.special import fdtri, stdtr

from bukva.compare.statistics.estimate import Estimate, Floor
from bukva.compare.statistics.settings import MATTERS

LOOKS = (1, 2, 4, 8)  # numbers of seeds after which a try is tested
MIN_SEEDS = 4  # a try with fewer seeds is not kept, because they do not show whether its scores vary more
HOPELESS = (0.5, 0.3, 0.2)  # for each look except the last: a try is discarded if its p-value is higher
# A try's own variance replaces the pooled variance if their ratio exceeds this quantile of the F distribution.
OWN_VARIANCE = 0.95

SELECTED = 0.5  # a try with a p-value above this costs nothing
CANDIDATE = 0.25  # a try with a p-value of at most this is likely to be better, and costs nothing either
POWER = 1.6  # the tries that cost something spend the budget in proportion to 1, 1 / 2^1.6, 1 / 3^1.6, ...
ZETA = 2.2857656  # sum of the series 1 + 1 / 2^1.6 + 1 / 3^1.6 + ...
START = 0.5  # budget before a try is kept, as a fraction of the limit of the false discovery rate

Decision = Literal["keep", "discard", "cannot tell", "more seeds"]


@dataclass(frozen=True)
class Look:
    """Result of one test of a try."""

    n_seeds: int
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
    index = LOOKS.index(len(tried))
    own = Floor.of(tried)
    varies_more = own.df > 1 and own.sd**2 > known.sd**2 * fdtri(own.df, known.df, OWN_VARIANCE)
    floor = own if varies_more else known
    seeds = [(known.sd**2 / len(baseline), known.df), (floor.sd**2 / len(tried), floor.df)]
    estimate = Estimate.of(text.difference, [(text.se**2, text.df), *seeds])
    p = float(stdtr(estimate.df, estimate.difference / estimate.se))
    decision: Decision = "discard" if estimate.interval[0] > -MATTERS else "cannot tell"
    if p <= level / len(LOOKS) and len(tried) >= MIN_SEEDS:
        decision = "keep"
    elif index < len(HOPELESS):
        decision = "discard" if p > HOPELESS[index] else "more seeds"
    return Look(len(tried), estimate, min(1.0, p * len(LOOKS)), decision)


def decide(
    measured: Iterable[tuple[Estimate, Sequence[float]]],
    baseline: Sequence[float],
    known: Floor,
    level: float,
    on_look: Callable[[Look], None] = lambda _: None,
) -> Look:
    """Test a try until there is a verdict. Return the last look, with the smallest p-value of all looks that may keep.

    `measured` yields the arguments `text` and `tried` of `look` for 1, 2, 4 and 8 seeds, as they are needed.
    """
    p = 1.0
    for text, tried in measured:
        last = look(text, baseline, tried, known, level)
        on_look(last)
        if last.n_seeds >= MIN_SEEDS:
            p = min(p, last.p)
        if last.decision != "more seeds":
            break
    return replace(last, p=p)


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
    return (n + 1) ** -POWER / ZETA
