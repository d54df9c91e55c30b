"""Test a try against the baseline, and decide to keep it, to discard it, or to train more seeds.

A try is a changed setting that should improve on the baseline. It is tested up to four times, after 1, 2, 4 and 8
seeds. Each of these tests is called a look, and may use a quarter of the significance level of the try (Bonferroni).
The first two looks never keep a try. Their quarters are a reserve, because the seed may change the score of a try more
than the score of the baseline.

The variance between seeds is pooled over the baseline and all earlier tries. After many tries, the significance level
is very low. Two or three seeds of a single try would then be too few to estimate the variance.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from scipy.special import fdtri, stdtr

from bukva.compare.statistics.estimate import Estimate, Floor, pool
from bukva.compare.statistics.settings import MATTERS

LOOKS = (1, 2, 4, 8)  # numbers of seeds after which a try is tested
MIN_SEEDS = 4  # a try with fewer seeds is not kept, because they do not show whether its scores vary more
HOPELESS = (0.5, 0.3, 0.2)  # for each look except the last: a try is discarded if its p-value is higher
# A try's own variance replaces the pooled variance if their ratio exceeds this quantile of the F distribution.
OWN_VARIANCE = 0.95

Decision = Literal["keep", "discard", "cannot tell", "more seeds"]


@dataclass(frozen=True)
class Look:
    """Result of one test of a try. A try is a changed setting that is compared with the baseline.

    A try is tested up to four times, with more seeds each time.

    n_seeds: number of seeds with which the try was trained.
    estimate: mean bits per character of the try minus those of the baseline; negative if the try is better.
    p: one-sided p-value of the hypothesis that the try is not better, multiplied by 4, the largest number of tests
        (Bonferroni), and limited to 1.
    decision: what to do with the try.
    """

    n_seeds: int
    estimate: Estimate
    p: float
    decision: Decision


def look(text: Estimate, baseline: Sequence[float], tried: Sequence[float], known: Floor, level: float) -> Look:
    """Test a changed setting (a try) against the baseline, after the try has been trained with 1, 2, 4 or 8 seeds.

    Args:
        text: mean score of the try minus mean score of the baseline (means over the seeds), in bits per character. The
            standard error covers the choice of the text, but not the variation between seeds.
        baseline: bits per character of the baseline, one score for each seed.
        tried: bits per character of the try, one score for each seed.
        known: standard deviation between seeds, pooled over the baseline and the earlier tries.
        level: significance level of all tests of this try together.
    """
    index = LOOKS.index(len(tried))
    own = Floor.of(tried)
    varies_more = own.df > 1 and own.sd**2 > known.sd**2 * fdtri(own.df, known.df, OWN_VARIANCE)
    floor = own if varies_more else known
    seeds = [(known.sd**2 / len(baseline), known.df), (floor.sd**2 / len(tried), floor.df)]
    estimate = Estimate.of(text.difference, [(text.se**2, text.df), *seeds])
    p = float(stdtr(estimate.df, estimate.difference / estimate.se))
    return Look(len(tried), estimate, min(1.0, p * len(LOOKS)), _decision(index, estimate, p, level))


def _decision(index: int, estimate: Estimate, p: float, level: float) -> Decision:
    if p <= level / len(LOOKS) and LOOKS[index] >= MIN_SEEDS:
        return "keep"
    if index < len(HOPELESS):
        return "discard" if p > HOPELESS[index] else "more seeds"
    return "discard" if estimate.interval[0] > -MATTERS else "cannot tell"


def decide(
    measured: Iterable[tuple[Estimate, Sequence[float]]],
    baseline: Sequence[float],
    known: Floor,
    level: float,
    on_look: Callable[[Look], None] = lambda _: None,
) -> Look:
    """Test a try until there is a verdict. Return the last look, with the smallest p-value of all looks that may keep.

    Args:
        measured: arguments `text` and `tried` of `look` for 1, 2, 4 and 8 seeds. Elements after the verdict are not
            read, so an iterator can train the seeds as they are needed.
        baseline, known, level: as in `look`.
        on_look: called with each look.
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


def noise_floor(groups: Sequence[Sequence[float]], known: Floor) -> Floor:
    """Estimate the standard deviation between seeds within each of `groups`, and pool these estimates with `known`.

    Each element of `groups` has the scores of trainings that differ only in the seed.
    """
    return pool([known, *(Floor.of(scores) for scores in groups)])
