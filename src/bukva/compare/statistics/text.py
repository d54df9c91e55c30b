"""The interval over the text: would another text of this kind give a difference of the same sign?

The leave-one-work-out jackknife of a ratio (sum of bits by sum of characters), with Student's t at as many degrees of
freedom as the works are worth, less 1 (MacKinnon, Nielsen & Webb 2023; docs/comparing.md compares it with bootstraps).
"""

from dataclasses import dataclass
from typing import Any, Literal

from bukva.compare.statistics.estimate import BY_SIGN, Estimate, Verdict
from bukva.compare.statistics.units import Chars, Floats, Units


@dataclass(frozen=True)
class TextVerdict:
    """Two models on one text; says nothing about other seeds of the same settings."""

    verdict: Verdict  # of B against A: better, worse, cannot tell or identical
    estimate: Estimate
    unit: Literal["works", "segments"]
    n_units: int
    effective_units: float  # the number of equally long ones that they are worth
    chars: int

    def to_json(self) -> dict[str, Any]:
        """A dict of plain numbers and strings."""
        return {
            "verdict": self.verdict,
            **self.estimate.to_json(),
            "p": self.estimate.p,
            "unit": self.unit,
            "n_units": self.n_units,
            "effective_units": self.effective_units,
            "chars": self.chars,
        }


def compare_text(sums_a: Floats, sums_b: Floats, units: Units) -> TextVerdict:
    """(G,) and (G,) bits of each unit under model A and model B -> the verdict over the text."""
    estimate = over_text(sums_b - sums_a, units)
    verdict = BY_SIGN[estimate.sign] if (sums_a != sums_b).any() else "identical"
    return TextVerdict(verdict, estimate, units.kind, len(units), units.effective, int(units.edges[-1]))


def over_text(sums: Floats, units: Units) -> Estimate:
    """(G,) summed differences of two or more units -> the difference by character, with its error over the text."""
    difference, variance = jackknife(sums, units.chars)
    return Estimate.of(difference, [(variance, units.effective - 1)])


def jackknife(sums: Floats, chars: Chars) -> tuple[float, float]:
    """(G,), (G,) -> the ratio of their sums, and its variance from leaving out one unit at a time; G >= 2."""
    G, total, n = len(chars), sums.sum(), chars.sum()
    ratio = total / n
    without = (total - sums) / (n - chars)  # (G,): the ratio of all other units
    return float(ratio), float((G - 1) / G * ((without - ratio) ** 2).sum())
