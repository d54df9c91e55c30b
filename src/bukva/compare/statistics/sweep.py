"""Sweeps: with many comparisons some look like a gain by luck."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from bukva.compare.statistics.estimate import LEVEL
from bukva.compare.statistics.settings import SettingsVerdict

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
    """How much better than its true value the best of m equal settings looks on average, in the unit of `sd`.

    Args:
        m: the number of settings, 1 or more.
        sd: the standard deviation of one setting's score: that between seeds by the square root of its seeds.
    """
    from scipy.special import ndtr  # it takes 0.2 s to import

    z = np.linspace(-10, 10, 2001)  # where normal deviates are; the integrand vanishes at both ends
    density = m * ndtr(z) ** (m - 1) * np.exp(-(z**2) / 2) / np.sqrt(2 * np.pi)  # of the greatest of m
    return float((z * density).sum() * (z[1] - z[0])) * sd
