"""A difference with its error (Student's t), the noise floor between seeds, and what more seeds would resolve."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np
from scipy.special import stdtr, stdtrit

LEVEL = 0.05  # of false verdicts, both sides together
POWER = 0.8

# What is said of B against A. A text verdict is one of the first four.
Verdict = Literal[
    "better", "worse", "cannot tell", "identical", "no difference that matters", "probably better", "probably worse"
]
BY_SIGN: dict[int, Verdict] = {-1: "better", 0: "cannot tell", 1: "worse"}

Part = tuple[float, float]  # a variance in (bits per character)^2, and its degrees of freedom


@dataclass(frozen=True)
class Estimate:
    """A difference in bits per character, whose error follows Student's t."""

    difference: float
    se: float  # standard error
    df: float  # degrees of freedom

    @classmethod
    def of(cls, difference: float, parts: Sequence[Part]) -> "Estimate":
        """An estimate whose variance is the sum of independent parts."""
        return cls(difference, sum(variance for variance, _ in parts) ** 0.5, satterthwaite(parts))

    @property
    def interval(self) -> tuple[float, float]:
        """The 95 % interval: the lowest and the highest difference that fit the data."""
        margin = quantile(1 - LEVEL / 2, self.df) * self.se
        return self.difference - margin, self.difference + margin

    @property
    def p(self) -> float:
        """How often a difference of 0 gives one as large as this, on either side."""
        if self.se == 0:
            return 1.0 if self.difference == 0 else 0.0
        return float(2 * stdtr(self.df, -abs(self.difference) / self.se))

    @property
    def sign(self) -> int:
        """-1 or 1 where the interval excludes 0, else 0."""
        low, high = self.interval
        return int(low > 0) - int(high < 0)

    @property
    def smallest_detectable(self) -> float:
        """The true difference that is found in 80 of 100 such comparisons (Card et al. 2020)."""
        return (quantile(1 - LEVEL / 2, self.df) + quantile(POWER, self.df)) * self.se

    def to_json(self) -> dict[str, Any]:
        """Every number of this estimate, derived ones included."""
        return {**asdict(self), "interval": self.interval, "p": self.p, "smallest_detectable": self.smallest_detectable}


def quantile(share: float, df: float) -> float:
    """The value of Student's t below which a share of its mass lies."""
    return float(stdtrit(df, share))


def satterthwaite(parts: Sequence[Part]) -> float:
    """The degrees of freedom of a sum of estimated variances: V^2 / sum of V_i^2 / df_i (Satterthwaite 1946)."""
    total = sum(variance for variance, _ in parts)
    if total == 0:
        return min(df for _, df in parts)
    return 1 / sum((variance / total) ** 2 / df for variance, df in parts)


CERTAIN: Part = (0.0, math.inf)  # a text without an error of its own


def resolved_by(k: int, sd: float, *, paired: bool = False, text: Part = CERTAIN) -> float:
    """The smallest difference that k >= 2 seeds a side detect with 80 % probability, in bits per character.

    sd: the standard deviation between seeds of one setting; where paired, of the difference of two trainings.
    text: the variance over the text and its degrees of freedom.
    """
    seeds: Part = (sd**2 / k, k - 1) if paired else (2 * sd**2 / k, 2 * (k - 1))
    return Estimate.of(0.0, [text, seeds]).smallest_detectable


MIN_DF = 4  # five seeds of one setting


@dataclass(frozen=True)
class Floor:
    """The standard deviation between seeds, and how well it is known."""

    sd: float  # bits per character, of one training's score
    df: int  # degrees of freedom: seeds less groups

    @classmethod
    def of(cls, scores: Sequence[float]) -> "Floor":
        """The floor of one seed group: (k,) bits per character, k >= 1; one seed tells nothing and has 0 df."""
        return cls(float(np.std(scores, ddof=1)) if len(scores) > 1 else 0.0, len(scores) - 1)

    @property
    def difference(self) -> float:
        """The noise floor f: the standard deviation of the difference of two trainings, sqrt(2) sd."""
        return 2**0.5 * self.sd

    @property
    def known(self) -> bool:
        """Whether it may be borrowed for settings with fewer than three seeds."""
        return self.df >= MIN_DF and self.sd > 0


def pool(floors: Iterable[Floor]) -> Floor:
    """The floor of several seed groups of one corpus and recipe family; each may have its own mean score."""
    floors = list(floors)
    df = sum(floor.df for floor in floors)
    return Floor((sum(floor.df * floor.sd**2 for floor in floors) / df) ** 0.5 if df else 0.0, df)
