"""Differences with their errors (Student's t), the noise floor between seeds, and detectable differences."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np
from scipy.special import stdtr, stdtrit

LEVEL = 0.05  # significance level, two-sided
POWER = 0.8

# Verdict on B against A. The verdict over the text alone is one of the first four.
Verdict = Literal[
    "better", "worse", "cannot tell", "identical", "no difference that matters", "probably better", "probably worse"
]
BY_SIGN: dict[int, Verdict] = {-1: "better", 0: "cannot tell", 1: "worse"}

Part = tuple[float, float]  # component of a variance, in (bits per character)^2, and its degrees of freedom


@dataclass(frozen=True)
class Estimate:
    """Difference in bits per character with an error that follows Student's t distribution."""

    difference: float
    se: float  # standard error
    df: float  # degrees of freedom

    @classmethod
    def of(cls, difference: float, parts: Sequence[Part]) -> "Estimate":
        """Build an estimate whose variance is the sum of independent parts."""
        return cls(difference, sum(variance for variance, _ in parts) ** 0.5, satterthwaite(parts))

    @property
    def interval(self) -> tuple[float, float]:
        """Lower and upper bound of the 95 % confidence interval."""
        margin = quantile(1 - LEVEL / 2, self.df) * self.se
        return self.difference - margin, self.difference + margin

    @property
    def p(self) -> float:
        """Two-sided p-value of the hypothesis that the true difference is 0."""
        if self.se == 0:
            return 1.0 if self.difference == 0 else 0.0
        return float(2 * stdtr(self.df, -abs(self.difference) / self.se))

    @property
    def sign(self) -> int:
        """Sign of the difference, -1 or 1, if the interval excludes 0; otherwise 0."""
        low, high = self.interval
        return int(low > 0) - int(high < 0)

    @property
    def smallest_detectable(self) -> float:
        """True difference that is detected in 80 of 100 comparisons with this error (Card et al. 2020)."""
        return (quantile(1 - LEVEL / 2, self.df) + quantile(POWER, self.df)) * self.se

    def to_json(self) -> dict[str, Any]:
        """Return all numbers of the estimate, including derived ones."""
        return {**asdict(self), "interval": self.interval, "p": self.p, "smallest_detectable": self.smallest_detectable}


def quantile(probability: float, df: float) -> float:
    """Return the quantile of Student's t distribution for a cumulative probability."""
    return float(stdtrit(df, probability))


def satterthwaite(parts: Sequence[Part]) -> float:
    """Return the degrees of freedom of a sum of estimated variances: V^2 / sum of V_i^2 / df_i (Satterthwaite 1946)."""
    total = sum(variance for variance, _ in parts)
    if total == 0:
        return min(df for _, df in parts)
    return 1 / sum((variance / total) ** 2 / df for variance, df in parts)


CERTAIN: Part = (0.0, math.inf)  # variance over a text so long that its error is 0


def resolved_by(k: int, sd: float, *, paired: bool = False, text: Part = CERTAIN) -> float:
    """Return the smallest difference in bits per character that k seeds per setting detect with 80 % probability.

    k: at least 2.
    sd: standard deviation between seeds of one setting; if paired, of the difference of two trainings.
    text: variance over the text and its degrees of freedom.
    """
    seeds: Part = (sd**2 / k, k - 1) if paired else (2 * sd**2 / k, 2 * (k - 1))
    return Estimate.of(0.0, [text, seeds]).smallest_detectable


MIN_DF = 4  # reached by five seeds of one setting


@dataclass(frozen=True)
class Floor:
    """Standard deviation between seeds, and how well it is known."""

    sd: float  # standard deviation of the score of one training, in bits per character
    df: int  # degrees of freedom: number of seeds minus number of seed groups

    @classmethod
    def of(cls, scores: Sequence[float]) -> "Floor":
        """Estimate the floor from the scores of one seed group, (k,) bits per character, k >= 1.

        A single seed gives no estimate: 0 degrees of freedom.
        """
        return cls(float(np.std(scores, ddof=1)) if len(scores) > 1 else 0.0, len(scores) - 1)

    @property
    def difference(self) -> float:
        """Noise floor f: standard deviation of the difference of two trainings, sqrt(2) sd."""
        return 2**0.5 * self.sd

    @property
    def known(self) -> bool:
        """Whether the floor is reliable enough for settings with fewer than three seeds."""
        return self.df >= MIN_DF and self.sd > 0


def pool(floors: Iterable[Floor]) -> Floor:
    """Pool the floors of several seed groups of one corpus and recipe family. Their mean scores may differ."""
    floors = list(floors)
    df = sum(floor.df for floor in floors)
    return Floor((sum(floor.df * floor.sd**2 for floor in floors) / df) ** 0.5 if df else 0.0, df)
