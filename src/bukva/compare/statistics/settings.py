"""Compute verdicts on settings: would B still differ from A with other seeds and another text of this kind?

The variance of the difference has a part from the choice of the text and a part from the seeds. With three seeds or
more each, the second part is estimated from the scores of A and B. Otherwise, it is computed from the noise floor of
other settings, which is doubled because it may be too low for A and B, and the verdict is at most "probably better".
"""

from collections.abc import Collection, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

import numpy as np
from scipy.special import ndtr

from bukva.compare.statistics.estimate import BY_SIGN, LEVEL, Estimate, Floor, Part, Verdict
from bukva.compare.statistics.text import Floats, TextVerdict, Units, compare_text

MIN_SEEDS = 3  # of each setting, for a verdict without a noise floor
MATTERS = 0.01  # bits per character; smaller differences have no practical importance
DOUBLED = 2  # factor of the noise floor, because it may be too low for the settings that are compared

Method = Literal["paired", "unpaired", "noise floor", "text only"]
PROBABLY: dict[Verdict, Verdict] = {"better": "probably better", "worse": "probably worse"}


@dataclass(frozen=True, eq=False)
class SeedSums:
    """Total loss of each of k trainings, which differ only in the seed, on each of the G units of a text."""

    seeds: tuple[int, ...]
    sums: Floats  # (k, G) bits

    @classmethod
    def of(cls, runs: Sequence[tuple[int, Floats]]) -> "SeedSums":
        """Combine trainings, each given as its seed and its (G,) losses on the units in bits."""
        runs = sorted(runs, key=lambda run: run[0])
        return cls(tuple(seed for seed, _ in runs), np.stack([sums for _, sums in runs]))

    def only(self, seeds: Collection[int]) -> "SeedSums":
        return SeedSums.of([(seed, sums) for seed, sums in zip(self.seeds, self.sums, strict=True) if seed in seeds])

    def scores(self, units: Units) -> Floats:
        """Return the (k,) scores over the whole text in bits per character."""
        return self.sums.sum(axis=1) / units.edges[-1]


@dataclass(frozen=True)
class SettingsVerdict:
    """Verdict on settings B against settings A. It applies to other seeds and to other texts of the same kind."""

    verdict: Verdict
    difference: float  # mean bits per character of B minus the mean of A, over the seeds
    estimate: Estimate | None  # None if the variance between seeds is unknown
    p: float  # p-value, corrected for `compared` comparisons; 1 if the variance between seeds is unknown
    compared: int  # number of comparisons for which the p-value is corrected; 1 without a correction
    method: Method
    seeds_a: tuple[int, ...]  # seeds whose trainings were used
    seeds_b: tuple[int, ...]
    seed_sd: float | None  # standard deviation between seeds: of a score, or of a difference if paired
    text: TextVerdict  # verdict on the trained models, from their mean losses over these seeds

    @property
    def level(self) -> float:
        """Significance level after the correction: the interval at this level excludes 0 only if `p` is below 0.05."""
        return LEVEL * (self.estimate.p / self.p) if self.estimate and self.p else LEVEL

    def to_json(self) -> dict[str, Any]:
        estimate = self.estimate.to_json() if self.estimate else None
        text = {**asdict(self.text), "estimate": self.text.estimate.to_json()}
        return {**asdict(self), "estimate": estimate, "text": text}


def compare_settings(a: SeedSums, b: SeedSums, units: Units, floor: Floor | None, pairable: bool) -> SettingsVerdict:
    """Compare settings B with settings A.

    floor: standard deviation between seeds of settings with the same held-out text, model and optimizer, for fewer than
        three seeds of A or B. Without it, the verdict is then "cannot tell".
    pairable: whether A and B have the same numerics, and the same initial weights for the same seed.
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
    distinct = all(len(set(setting.seeds)) == len(setting.seeds) for setting in (a, b))
    common = set(a.seeds) & set(b.seeds)
    if pairable and distinct and len(common) >= MIN_SEEDS:
        return a.only(common), b.only(common), "paired"
    if min(len(a.seeds), len(b.seeds)) >= MIN_SEEDS:
        return a, b, "unpaired"
    return a, b, "noise floor" if floor and floor.known else "text only"


def _over_seeds(scores_a: Floats, scores_b: Floats, method: Method, floor: Floor | None) -> tuple[list[Part], float]:
    """Return the variance from the seeds as a list of independent parts, and the standard deviation between seeds."""
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
    verdict = BY_SIGN[estimate.sign]
    if method == "noise floor":
        return PROBABLY.get(verdict, verdict)
    low, high = estimate.interval
    return "no difference that matters" if low > -MATTERS and high < MATTERS else verdict


def holm(ps: Sequence[float]) -> list[float]:
    """Correct m p-values for m tests (Holm 1979), and return them in the order of `ps`.

    Among corrected p-values below 0.05, the probability of any false positive is at most 5 %.
    """
    order = np.argsort(ps)
    factors = np.arange(len(ps), 0, -1)
    corrected = np.maximum.accumulate(np.minimum(1.0, factors * np.take(ps, order)))
    return corrected[np.argsort(order)].tolist()


def correct(verdicts: Sequence[SettingsVerdict]) -> list[SettingsVerdict]:
    """Correct the p-values and verdicts of several comparisons for their number (Holm 1979).

    A verdict with a direction becomes "cannot tell" if its corrected p-value is 0.05 or more. Intervals stay.
    """
    return [
        replace(
            verdict,
            p=p,
            compared=len(verdicts),
            verdict="cannot tell" if verdict.verdict.endswith(("better", "worse")) and p >= LEVEL else verdict.verdict,
        )
        for verdict, p in zip(verdicts, holm([verdict.p for verdict in verdicts]), strict=True)
    ]


def expected_luck(m: int, sd: float) -> float:
    """Return the average gain of the best of m >= 1 equally good settings, which is due to luck alone.

    sd: standard deviation of the score of one setting: that between seeds over the square root of their number.
    """
    z = np.linspace(-10, 10, 2001)  # the integrand is 0 at both ends
    density = m * ndtr(z) ** (m - 1) * np.exp(-(z**2) / 2) / np.sqrt(2 * np.pi)  # density of the largest of m deviates
    return float((z * density).sum() * (z[1] - z[0])) * sd
