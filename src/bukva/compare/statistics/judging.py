"""One try against the baseline: is it better, are more seeds needed, or is there no hope?

A try is looked at after 1, 2, 4 and 8 seeds. The variance between seeds is pooled over all tries of the ledger, because
two or three seeds of one try say too little about it at the levels that are left late in a night. Each look is tested
at its share of the try's level (Bonferroni), so all looks together hold that level.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from scipy.special import fdtri, stdtr

from bukva.compare.statistics.estimate import Estimate, Floor, pool
from bukva.compare.statistics.settings import MATTERS

LOOKS = (1, 2, 4, 8)  # seeds
HOPELESS = (0.5, 0.3, 0.2)  # p at a look but the last, above which more seeds are a waste
SCATTERS = 0.95  # a try whose own variance exceeds this quantile of the pooled one is tested with its own

Decision = Literal["keep", "discard", "cannot tell", "more seeds"]


@dataclass(frozen=True)
class Look:
    """A try after some of its seeds.

    estimate: its bits per character less those of the baseline; below 0 the try is better.
    p: how often a try that is no better looks as good as this at this look or at one of the others.
    """

    n_seeds: int
    estimate: Estimate
    p: float
    decision: Decision


def look(text: Estimate, baseline: Sequence[float], tried: Sequence[float], known: Floor, level: float) -> Look:
    """Test a try after 1, 2, 4 or 8 seeds.

    Args:
        text: bits per character of the try less those of the baseline, each the mean of its seeds, with the error over
            the text.
        baseline, tried: bits per character of each seed.
        known: the scatter between seeds, pooled over the baseline and the tries before.
        level: of this try.
    """
    index = LOOKS.index(len(tried))
    own = Floor.of(tried)
    is_wild = own.df > 1 and own.sd**2 > known.sd**2 * fdtri(own.df, known.df, SCATTERS)
    of_try = own if is_wild else known
    seeds = [(known.sd**2 / len(baseline), known.df), (of_try.sd**2 / len(tried), of_try.df)]
    estimate = Estimate.of(text.difference, [(text.se**2, text.df), *seeds])
    p = float(stdtr(estimate.df, estimate.difference / estimate.se))
    return Look(len(tried), estimate, min(1.0, p * len(LOOKS)), _decide(index, estimate, p, level))


def _decide(index: int, estimate: Estimate, p: float, level: float) -> Decision:
    if p <= level / len(LOOKS):
        return "keep"
    if index < len(HOPELESS):
        return "discard" if p > HOPELESS[index] else "more seeds"
    return "discard" if estimate.interval[0] > -MATTERS else "cannot tell"


def scatter(groups: Sequence[Sequence[float]], floor: Floor) -> Floor:
    """Pool the scatter between seeds over groups of scores, each of one setting, and a floor that is known already."""
    return pool([floor, *(Floor.of(scores) for scores in groups)])
