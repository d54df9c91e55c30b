"""Verdicts on settings: would the difference between A and B persist with other seeds and another text of this kind?

The variance of the difference has a part over the text and a part over seeds. The part over seeds is estimated if both
settings have three seeds or more. With fewer seeds it is replaced by twice the noise floor of other seed groups, and
the verdict is at most "probably better" or "probably worse".
"""

from collections.abc import Collection, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

import numpy as np
from scipy.special import ndtr

from bukva.compare.statistics.estimate import BY_SIGN, LEVEL, Estimate, Floor, Part, Verdict
from bukva.compare.statistics.text import Floats, TextVerdict, Units, compare_text

MIN_SEEDS = 3
MATTERS = 0.01  # bits per character; smaller differences are of no practical importance
DOUBLED = 2  # factor of the noise floor, because another setting may vary more than those it was measured on

Method = Literal["paired", "unpaired", "noise floor", "text only"]
PROBABLY: dict[Verdict, Verdict] = {"better": "probably better", "worse": "probably worse"}


@dataclass(frozen=True, eq=False)
class SeedSums:
    """Losses of the k trainings of one setting, summed over each of the G units of a text."""

    seeds: tuple[int, ...]
    sums: Floats  # (k, G) bits

    @classmethod
    def of(cls, runs: Sequence[tuple[int, Floats]]) -> "SeedSums":
        """Sort one or more pairs (seed, (G,) bits of each unit) by seed, and stack their bits."""
        runs = sorted(runs, key=lambda run: run[0])
        return cls(tuple(seed for seed, _ in runs), np.stack([sums for _, sums in runs]))

    def only(self, seeds: Collection[int]) -> "SeedSums":
        """Return the trainings with the given seeds."""
        return SeedSums.of([(seed, sums) for seed, sums in zip(self.seeds, self.sums, strict=True) if seed in seeds])

    def scores(self, units: Units) -> Floats:
        """Return the (k,) bits per character of the trainings."""
        return self.sums.sum(axis=1) / units.edges[-1]


@dataclass(frozen=True)
class SettingsVerdict:
    """Verdict on settings B against settings A, the headline of a comparison."""

    verdict: Verdict
    difference: float  # bits per character, difference of the means over seeds
    estimate: Estimate | None  # None if the variance between seeds is unknown
    p: float  # corrected for all `compared` verdicts; 1 if the variance between seeds is unknown
    compared: int  # number of verdicts that were corrected together; 1 for a single comparison
    method: Method
    seeds_a: tuple[int, ...]  # seeds that were used
    seeds_b: tuple[int, ...]
    seed_sd: float | None  # bits per character: of the score of a training; if paired, of the difference of two
    text: TextVerdict  # verdict over the text, on the means over the same seeds

    def to_json(self) -> dict[str, Any]:
        """Return all numbers for other programs."""
        estimate = self.estimate.to_json() if self.estimate else None
        return {**asdict(self), "estimate": estimate, "text": self.text.to_json()}


def compare_settings(a: SeedSums, b: SeedSums, units: Units, floor: Floor | None, pairable: bool) -> SettingsVerdict:
    """Return the verdict on settings B against settings A, each with one or more trainings.

    Args:
        a, b: losses of the trainings on these units.
        units: units of the text.
        floor: noise floor of the corpus and recipe family; used if a setting has fewer than three seeds.
        pairable: whether trainings with equal seeds can be paired: A and B have the same numerics and initial weights
            of the same shapes.
    """
    a, b, method = _choose_seeds(a, b, floor, pairable)
    text = compare_text(a.sums.mean(axis=0), b.sums.mean(axis=0), units)
    scores_a, scores_b = a.scores(units), b.scores(units)  # (k_A,), (k_B,)
    estimate, seed_sd = None, None
    if text.verdict == "identical" and np.array_equal(a.sums, b.sums):
        verdict: Verdict = "identical"
        estimate = text.estimate
    elif method == "text only":
        verdict = "cannot tell"
    else:
        over_seeds, seed_sd = _over_seeds(scores_a, scores_b, method, floor)
        over_text = (text.estimate.se**2, text.estimate.df)
        estimate = Estimate.of(text.estimate.difference, [over_text, *over_seeds])
        verdict = _verdict(estimate, method)
    return SettingsVerdict(
        verdict=verdict,
        difference=text.estimate.difference,
        estimate=estimate,
        p=estimate.p if estimate else 1.0,
        compared=1,
        method=method,
        seeds_a=a.seeds,
        seeds_b=b.seeds,
        seed_sd=seed_sd,
        text=text,
    )


def _choose_seeds(a: SeedSums, b: SeedSums, floor: Floor | None, pairable: bool) -> tuple[SeedSums, SeedSums, Method]:
    """Choose the trainings to compare and the method. The choice depends on the seeds, never on the scores.

    With three or more common seeds, these are paired and all others are left out. Nothing is paired if a setting has
    the same seed twice.
    """
    distinct = all(len(set(setting.seeds)) == len(setting.seeds) for setting in (a, b))
    common = set(a.seeds) & set(b.seeds)
    if pairable and distinct and len(common) >= MIN_SEEDS:
        return a.only(common), b.only(common), "paired"
    if min(len(a.seeds), len(b.seeds)) >= MIN_SEEDS:
        return a, b, "unpaired"
    return a, b, "noise floor" if floor and floor.known else "text only"


def _over_seeds(scores_a: Floats, scores_b: Floats, method: Method, floor: Floor | None) -> tuple[list[Part], float]:
    """Return the parts of the variance over seeds, and the standard deviation between seeds.

    The standard deviation is that of the score of one training, or, if paired, of the difference of two.
    """
    k_a, k_b = len(scores_a), len(scores_b)
    if method == "paired":
        variance = float(np.var(scores_b - scores_a, ddof=1))
        return [(variance / k_a, k_a - 1)], variance**0.5
    if method == "unpaired":  # Welch: the two settings may have different variances
        var_a, var_b = (float(np.var(scores, ddof=1)) for scores in (scores_a, scores_b))
        pooled = ((k_a - 1) * var_a + (k_b - 1) * var_b) / (k_a + k_b - 2)
        return [(var_a / k_a, k_a - 1), (var_b / k_b, k_b - 1)], pooled**0.5
    assert floor is not None
    return [((DOUBLED * floor.sd) ** 2 * (1 / k_a + 1 / k_b), floor.df)], floor.sd


def _verdict(estimate: Estimate, method: Method) -> Verdict:
    """Return the verdict for an interval.

    An interval within `MATTERS` of 0 gives "no difference that matters", even if it excludes 0.
    """
    verdict = BY_SIGN[estimate.sign]
    if method == "noise floor":
        return PROBABLY.get(verdict, verdict)
    low, high = estimate.interval
    return "no difference that matters" if low > -MATTERS and high < MATTERS else verdict


SIGNED = ("better", "worse", "probably better", "probably worse")


def holm(ps: Sequence[float]) -> list[float]:
    """Correct (m,) p-values so that the chance of any false rejection at level 0.05 is at most 5 % (Holm 1979)."""
    m, highest = len(ps), 0.0
    corrected = [0.0] * m
    for rank, index in enumerate(sorted(range(m), key=lambda index: ps[index])):
        highest = max(highest, min(1.0, (m - rank) * ps[index]))
        corrected[index] = highest
    return corrected


def correct(verdicts: Sequence[SettingsVerdict]) -> list[SettingsVerdict]:
    """Correct the verdicts of several settings against one baseline for their number (Holm 1979).

    A verdict with a corrected p of 0.05 or more becomes "cannot tell". The intervals are not corrected.
    """
    return [
        replace(
            verdict,
            p=p,
            compared=len(verdicts),
            verdict="cannot tell" if verdict.verdict in SIGNED and p >= LEVEL else verdict.verdict,
        )
        for verdict, p in zip(verdicts, holm([verdict.p for verdict in verdicts]), strict=True)
    ]


def expected_luck(m: int, sd: float) -> float:
    """Return how much better than its true value the best of m >= 1 equal settings looks on average.

    sd: standard deviation of the score of one setting: the standard deviation between seeds, divided by the square
        root of the number of seeds. The result has the same unit.
    """
    z = np.linspace(-10, 10, 2001)  # the integrand vanishes at both ends
    density = m * ndtr(z) ** (m - 1) * np.exp(-(z**2) / 2) / np.sqrt(2 * np.pi)  # density of the largest of m deviates
    return float((z * density).sum() * (z[1] - z[0])) * sd
