"""Compute intervals and p-values of differences, the smallest detectable difference, and the noise floor.

The noise floor is the standard deviation of the difference between two trainings that differ only in the seed.
"""

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np
from scipy.special import stdtr, stdtrit

LEVEL = 0.05  # significance level, two-sided
POWER = 0.8  # probability with which a difference of the smallest detectable size is detected

# Verdict on B against A. The verdict on the trained models alone (`TextVerdict`) is one of the first four.
Verdict = Literal[
    "better", "worse", "cannot tell", "identical", "no difference that matters", "probably better", "probably worse"
]
BY_SIGN: dict[int, Verdict] = {-1: "better", 0: "cannot tell", 1: "worse"}

Part = tuple[float, float]  # a variance in (bits per character)^2 that is added to others, and its degrees of freedom


@dataclass(frozen=True)
class Estimate:
    """Difference in bits per character with its standard error. Intervals and p-values use Student's t distribution."""

    difference: float
    se: float  # standard error
    df: float  # degrees of freedom

    @classmethod
    def of(cls, difference: float, parts: Sequence[Part]) -> "Estimate":
        """Return an estimate of `difference` whose variance V is the sum of the variances V_i of independent `parts`.

        Its degrees of freedom are V^2 / sum_i(V_i^2 / df_i) (Satterthwaite 1946).
        """
        total = sum(variance for variance, _ in parts)
        if total == 0:
            return cls(difference, 0.0, min(df for _, df in parts))
        return cls(difference, total**0.5, 1 / sum((variance / total) ** 2 / df for variance, df in parts))

    @property
    def interval(self) -> tuple[float, float]:
        """Lower and upper bound of the 95 % confidence interval."""
        return self.interval_at(LEVEL)

    def interval_at(self, level: float) -> tuple[float, float]:
        margin = float(stdtrit(self.df, 1 - level / 2)) * self.se
        return self.difference - margin, self.difference + margin

    @property
    def p(self) -> float:
        """Two-sided p-value of the hypothesis that the true difference is 0."""
        if self.se == 0:
            return 1.0 if self.difference == 0 else 0.0
        return float(2 * stdtr(self.df, -abs(self.difference) / self.se))

    @property
    def sign(self) -> int:
        """Sign of the difference, -1 or 1; 0 if the interval contains 0."""
        low, high = self.interval
        return int(low > 0) - int(high < 0)

    @property
    def smallest_detectable(self) -> float:
        """Smallest true difference that 80 % of comparisons with this standard error detect (Card et al. 2020)."""
        return float(stdtrit(self.df, [1 - LEVEL / 2, POWER]).sum()) * self.se

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "interval": self.interval, "p": self.p, "smallest_detectable": self.smallest_detectable}


def resolved_by(k: int, sd: float, *, paired: bool, text: Part) -> float:
    """Return the smallest true difference that 80 % of comparisons of two settings with k >= 2 seeds each detect.

    sd: standard deviation of the score of one training or, if the trainings are `paired` by seed, of their difference.
    text: variance from the choice of the text, and its degrees of freedom.
    """
    seeds: Part = (sd**2 / k, k - 1) if paired else (2 * sd**2 / k, 2 * (k - 1))
    return Estimate.of(0.0, [text, seeds]).smallest_detectable


MIN_DF = 4  # fewest degrees of freedom of a noise floor that is used; two settings with three seeds each have 4


@dataclass(frozen=True)
class Floor:
    """Standard deviation of scores between seeds, from which the noise floor is computed (see `difference`)."""

    sd: float  # standard deviation of the score of one training, in bits per character
    df: int  # degrees of freedom: number of seeds minus number of seed groups

    def __post_init__(self) -> None:
        if not (0 <= self.sd < np.inf and self.df >= 0):
            raise ValueError(f"No standard deviation between seeds: {self}.")

    @classmethod
    def of(cls, scores: Sequence[float]) -> "Floor":
        """Estimate it from the scores of 1 or more trainings that differ only in the seed. For one, `df` is 0."""
        return cls(float(np.std(scores, ddof=1)) if len(scores) > 1 else 0.0, len(scores) - 1)

    @property
    def difference(self) -> float:
        """The noise floor: the standard deviation of the difference between two trainings."""
        return 2**0.5 * self.sd

    @property
    def known(self) -> bool:
        """Whether the noise floor can be used in comparisons."""
        return self.df >= MIN_DF and self.sd > 0


def pool(floors: Iterable[Floor]) -> Floor:
    """Pool the standard deviations of seed groups with the same held-out text, model and optimizer."""
    floors = list(floors)
    df = sum(floor.df for floor in floors)
    return Floor((sum(floor.df * floor.sd**2 for floor in floors) / df) ** 0.5 if df else 0.0, df)
