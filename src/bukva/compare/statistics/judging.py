"""Sequential test of one try against the baseline: keep it, discard it, or train more seeds.

There are four looks at a try: after 1, 2, 4 and 8 seeds. The variance between seeds is pooled over all tries of the
ledger. After many tries the level of a test is so low that two or three seeds of one try cannot estimate the variance
well enough. Each look is tested at a quarter of the level of the try (Bonferroni), so that all looks together keep to
that level.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from scipy.special import fdtri, stdtr

from bukva.compare.statistics.estimate import Estimate, Floor, pool
from bukva.compare.statistics.settings import MATTERS

LOOKS = (1, 2, 4, 8)  # numbers of seeds after which a try is tested
HOPELESS = (0.5, 0.3, 0.2)  # for each look but the last, the p above which a try is discarded
# If the ratio of a try's own variance to the pooled one exceeds this quantile of F, its own variance is used.
OWN_VARIANCE = 0.95

Decision = Literal["keep", "discard", "cannot tell", "more seeds"]


@dataclass(frozen=True)
class Look:
    """Interim result of a try after some of its seeds.

    estimate: bits per character of the try minus those of the baseline; negative if the try is better.
    p: one-sided p-value of the hypothesis that the try is no better, corrected for the number of looks.
    """

    n_seeds: int
    estimate: Estimate
    p: float
    decision: Decision


def look(text: Estimate, baseline: Sequence[float], tried: Sequence[float], known: Floor, level: float) -> Look:
    """Test a try after 1, 2, 4 or 8 seeds.

    Args:
        text: difference of the means over seeds, try minus baseline, in bits per character, with its error over the
            text.
        baseline, tried: bits per character of each seed.
        known: standard deviation between seeds, pooled over the baseline and the earlier tries.
        level: significance level of this try.
    """
    index = LOOKS.index(len(tried))
    own = Floor.of(tried)
    varies_more = own.df > 1 and own.sd**2 > known.sd**2 * fdtri(own.df, known.df, OWN_VARIANCE)
    floor = own if varies_more else known
    seeds = [(known.sd**2 / len(baseline), known.df), (floor.sd**2 / len(tried), floor.df)]
    estimate = Estimate.of(text.difference, [(text.se**2, text.df), *seeds])
    p = float(stdtr(estimate.df, estimate.difference / estimate.se))
    return Look(len(tried), estimate, min(1.0, p * len(LOOKS)), _decide(index, estimate, p, level))


def _decide(index: int, estimate: Estimate, p: float, level: float) -> Decision:
    if p <= level / len(LOOKS):
        return "keep"
    if index < len(HOPELESS):
        return "discard" if p > HOPELESS[index] else "more seeds"
    return "discard" if estimate.interval[0] > -MATTERS else "cannot tell"


def noise_floor(groups: Sequence[Sequence[float]], known: Floor) -> Floor:
    """Pool the noise floors of groups of scores, one group per setting, with a known noise floor."""
    return pool([known, *(Floor.of(scores) for scores in groups)])
