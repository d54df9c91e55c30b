"""The verdict on settings: would the difference between A and B stay with other seeds and another text of this kind?

The variance is that over the text plus that over seeds, estimated where both sides have three seeds or more. With
fewer, twice the noise floor of other seed groups takes its place, and the verdict is "probably" at best.
"""

from collections.abc import Collection, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

import numpy as np
from scipy.special import ndtr

from bukva.compare.statistics.estimate import BY_SIGN, LEVEL, Estimate, Floor, Part, Verdict
from bukva.compare.statistics.text import Floats, TextVerdict, Units, compare_text

MIN_SEEDS = 3
MATTERS = 0.01  # bits per character: a difference below this is not worth a decision
DOUBLED = 2  # times the noise floor, because another setting may scatter more than those it was measured on

Method = Literal["paired", "unpaired", "noise floor", "text only"]
PROBABLY: dict[Verdict, Verdict] = {"better": "probably better", "worse": "probably worse"}


@dataclass(frozen=True, eq=False)
class Side:
    """The trainings of one setting: k of them on the same G units."""

    seeds: tuple[int, ...]
    sums: Floats  # (k, G) bits

    @classmethod
    def of(cls, runs: Sequence[tuple[int, Floats]]) -> "Side":
        """One side from its (seed, (G,) bits of each unit), in the order of the seeds; one training or more."""
        runs = sorted(runs, key=lambda run: run[0])
        return cls(tuple(seed for seed, _ in runs), np.stack([sums for _, sums in runs]))

    def only(self, seeds: Collection[int]) -> "Side":
        """The trainings with these seeds."""
        return Side.of([(seed, sums) for seed, sums in zip(self.seeds, self.sums, strict=True) if seed in seeds])

    def scores(self, units: Units) -> Floats:
        """(k,) bits per character."""
        return self.sums.sum(axis=1) / units.edges[-1]


@dataclass(frozen=True)
class SettingsVerdict:
    """Settings B against settings A; the headline of a comparison."""

    verdict: Verdict
    difference: float  # bits per character, mean of the seeds
    estimate: Estimate | None  # None where nothing is known about seeds
    p: float  # corrected for the `compared` verdicts of a sweep; 1 where nothing is known about seeds
    compared: int  # verdicts that were corrected together; 1 for a comparison of its own
    method: Method
    seeds_a: tuple[int, ...]  # those that were used
    seeds_b: tuple[int, ...]
    seed_sd: float | None  # of one training (paired: of the difference of two), in bits per character
    text: TextVerdict  # of the means of the same seeds

    def to_json(self) -> dict[str, Any]:
        """Every number, for other programs."""
        estimate = self.estimate.to_json() if self.estimate else None
        return {**asdict(self), "estimate": estimate, "text": self.text.to_json()}


def compare_settings(a: Side, b: Side, units: Units, floor: Floor | None, pairable: bool) -> SettingsVerdict:
    """The verdict on settings B against settings A, each with one training or more on these units.

    floor: the noise floor of the corpus and recipe family; used where a side has fewer than three seeds.
    pairable: whether a seed means the same on both sides: same numerics, and initial weights of the same shapes.
    """
    a, b, method = _chosen(a, b, floor, pairable)
    text = compare_text(a.sums.mean(axis=0), b.sums.mean(axis=0), units)
    scores_a, scores_b = a.scores(units), b.scores(units)  # (k_A,), (k_B,)
    estimate, seed_sd = None, None
    if text.verdict == "identical" and np.array_equal(a.sums, b.sums):
        verdict: Verdict = "identical"
        estimate = text.estimate
    elif method == "text only":
        verdict = "cannot tell"
    else:
        of_seeds, seed_sd = _over_seeds(scores_a, scores_b, method, floor)
        over_text = (text.estimate.se**2, text.estimate.df)
        estimate = Estimate.of(text.estimate.difference, [over_text, *of_seeds])
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


def _chosen(a: Side, b: Side, floor: Floor | None, pairable: bool) -> tuple[Side, Side, Method]:
    """The trainings to compare and how; decided by their seeds alone, never by their scores.

    Three common seeds or more are paired, and the others left out. A seed that a side has twice pairs with nothing.
    """
    distinct = all(len(set(side.seeds)) == len(side.seeds) for side in (a, b))
    common = set(a.seeds) & set(b.seeds)
    if pairable and distinct and len(common) >= MIN_SEEDS:
        return a.only(common), b.only(common), "paired"
    if min(len(a.seeds), len(b.seeds)) >= MIN_SEEDS:
        return a, b, "unpaired"
    return a, b, "noise floor" if floor and floor.known else "text only"


def _over_seeds(scores_a: Floats, scores_b: Floats, method: Method, floor: Floor | None) -> tuple[list[Part], float]:
    """The parts of the variance over seeds, and the standard deviation of one training (of a pair where paired)."""
    k_a, k_b = len(scores_a), len(scores_b)
    if method == "paired":
        variance = float(np.var(scores_b - scores_a, ddof=1))
        return [(variance / k_a, k_a - 1)], variance**0.5
    if method == "unpaired":  # Welch: each side may scatter in its own way
        var_a, var_b = (float(np.var(scores, ddof=1)) for scores in (scores_a, scores_b))
        pooled = ((k_a - 1) * var_a + (k_b - 1) * var_b) / (k_a + k_b - 2)
        return [(var_a / k_a, k_a - 1), (var_b / k_b, k_b - 1)], pooled**0.5
    assert floor is not None
    return [((DOUBLED * floor.sd) ** 2 * (1 / k_a + 1 / k_b), floor.df)], floor.sd


def _verdict(estimate: Estimate, method: Method) -> Verdict:
    """The word for an interval: a difference that does not matter is one, whatever its sign."""
    found = BY_SIGN[estimate.sign]
    if method == "noise floor":
        return PROBABLY.get(found, found)
    low, high = estimate.interval
    return "no difference that matters" if low > -MATTERS and high < MATTERS else found


SIGNED = ("better", "worse", "probably better", "probably worse")


def holm(ps: Sequence[float]) -> list[float]:
    """(m,) p-values -> (m,) corrected ones: below 0.05 with at most 5 % chance of any false one (Holm 1979)."""
    m, highest = len(ps), 0.0
    corrected = [0.0] * m
    for rank, index in enumerate(sorted(range(m), key=lambda index: ps[index])):
        highest = max(highest, min(1.0, (m - rank) * ps[index]))
        corrected[index] = highest
    return corrected


def correct(verdicts: Sequence[SettingsVerdict]) -> list[SettingsVerdict]:
    """The verdicts of a sweep against one baseline, corrected together: "cannot tell" where Holm's p is 0.05 or more.

    Their intervals stay those of a single comparison.
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
    """How much better than its true value the best of m >= 1 equal settings looks on average, in the unit of `sd`.

    sd: the standard deviation of one setting's score: that between seeds by the square root of its seeds.
    """
    z = np.linspace(-10, 10, 2001)  # where normal deviates are; the integrand vanishes at both ends
    density = m * ndtr(z) ** (m - 1) * np.exp(-(z**2) / 2) / np.sqrt(2 * np.pi)  # of the greatest of m
    return float((z * density).sum() * (z[1] - z[0])) * sd
