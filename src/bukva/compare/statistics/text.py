"""Compute verdicts on trained models: would another text of this kind give a difference of the same sign?

A text is divided into units that are treated as independent: its works or, if there are too few, equal segments. The
standard error comes from the jackknife, which leaves out one unit at a time, and intervals from Student's t with G* - 1
degrees of freedom, where G* is the effective number of units (MacKinnon, Nielsen & Webb 2023; docs/comparing-method.md
compares the jackknife with bootstraps).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np
import numpy.typing as npt

from bukva.compare.statistics.estimate import BY_SIGN, Estimate, Verdict
from bukva.core.errors import BukvaError
from bukva.text.ids import bits

Floats = npt.NDArray[np.float64]
Chars = npt.NDArray[np.int64]  # number of characters: (W,) of each work, or (G,) of each unit

MIN_EFFECTIVE_WORKS = 6  # a text with fewer effective works is divided into segments
N_SEGMENTS = 20


@dataclass(frozen=True, eq=False)
class Units:
    """The G units of a text, in order. No unit is empty."""

    kind: Literal["works", "segments"]
    edges: Chars  # (G + 1,): unit g has the characters from edges[g] to edges[g + 1]
    rows: Chars  # (G,): if the units are works, the index of each unit in the list of all works; empty for segments

    @classmethod
    def of(cls, chars: npt.ArrayLike) -> "Units":
        """Divide a text into its works, or into 20 equal segments if it has fewer than 6 effective works.

        chars: (W,) number of characters of each work. BukvaError: there are fewer than 20 characters.
        """
        works = cls.works(chars)
        if works.effective >= MIN_EFFECTIVE_WORKS:
            return works
        n = int(works.edges[-1])
        if n < N_SEGMENTS:
            raise BukvaError(
                f"Too few scored characters to compare models: got {n}, need at least {N_SEGMENTS}. Use a larger split "
                "or more text."
            )
        return cls("segments", np.arange(N_SEGMENTS + 1) * n // N_SEGMENTS, np.empty(0, np.int64))

    @classmethod
    def works(cls, chars: npt.ArrayLike) -> "Units":
        """Divide a text into its works, even if there are few of them. Works without characters are left out."""
        chars = np.asarray(chars, np.int64)
        rows = np.flatnonzero(chars)
        return cls("works", np.concatenate([[0], chars[rows].cumsum()]), rows)

    def __len__(self) -> int:
        return len(self.edges) - 1

    @cached_property
    def chars(self) -> Chars:
        return np.diff(self.edges)

    @cached_property
    def effective(self) -> float:
        """Number of equally long units that would be as informative (Kish 1965)."""
        n = self.chars.astype(np.float64)
        return float(n.sum() ** 2 / (n**2).sum()) if len(self) else 0.0

    def sums(self, nats: npt.NDArray[np.floating]) -> Floats:
        """Convert the (N,) losses of all characters in nats, which must be finite, to losses of the units in bits."""
        if len(nats) != self.edges[-1]:
            raise ValueError(f"{len(nats)} scores for {self.edges[-1]} characters")
        sums = np.add.reduceat(nats, self.edges[:-1], dtype=np.float64)
        if not np.isfinite(sums).all():
            raise BukvaError(
                f"{np.count_nonzero(~np.isfinite(nats))} of {len(nats)} characters have no finite loss, so no "
                "difference can be computed. The training of the model has probably diverged. Train the model again "
                "with a lower learning rate."
            )
        return sums * bits(1.0)


@dataclass(frozen=True)
class TextVerdict:
    """Verdict on trained model B against trained model A, for other texts of the same kind but not for other seeds."""

    verdict: Verdict  # "better", "worse", "cannot tell" or "identical"
    estimate: Estimate
    unit: Literal["works", "segments"]
    n_units: int
    effective_units: float  # see Units.effective


def compare_text(sums_a: Floats, sums_b: Floats, units: Units) -> TextVerdict:
    """Compare two models by their (G,) total losses in bits on the units of one text; G >= 2."""
    estimate = over_text(sums_b - sums_a, units)
    verdict = BY_SIGN[estimate.sign] if (sums_a != sums_b).any() else "identical"
    return TextVerdict(verdict, estimate, units.kind, len(units), units.effective)


def over_text(sums: Floats, units: Units) -> Estimate:
    """Return (G,) differences of G >= 2 units in bits per character, with the error from the choice of the text."""
    G, total, n = len(units), sums.sum(), units.chars.sum()
    difference = total / n
    without = (total - sums) / (n - units.chars)  # (G,): difference on all other units
    variance = (G - 1) / G * ((without - difference) ** 2).sum()
    return Estimate.of(float(difference), [(float(variance), units.effective - 1)])


@dataclass(frozen=True)
class AuthorEffect:
    """Difference between two models on the works of one author; negative if model B is better."""

    author: str
    difference: float  # bits per character
    # verdict if the works of this author are left out; None if the verdict does not change, or is not computed
    without: Verdict | None


@dataclass(frozen=True)
class Authors:
    """Differences between two models on the works of each author, sorted by name, and the number of each sign."""

    effects: tuple[AuthorEffect, ...]
    better: int
    worse: int


def by_author(sums_a: Floats, sums_b: Floats, works: Units, authors: Sequence[str]) -> Authors:
    """Compare two models on the works of each author, by their (G,) total losses in bits on `works`.

    `authors` has the author of each of the W works, including works without characters.
    """
    chars, difference = works.chars, sums_b - sums_a  # (G,), (G,)
    author_of_work = np.asarray(authors)[works.rows]  # (G,)
    names = sorted(set(author_of_work.tolist()))
    # a text with too few works is compared by segments, which have no author
    checked = works.effective >= MIN_EFFECTIVE_WORKS and len(names) > 1
    overall = _verdict(difference, chars)
    effects = []
    for name in names:
        own = author_of_work == name
        without = _verdict(difference[~own], chars[~own]) if checked else overall
        effects.append(
            AuthorEffect(name, float(difference[own].sum() / chars[own].sum()), without if without != overall else None)
        )
    signs = [np.sign(effect.difference) for effect in effects]
    return Authors(tuple(effects), signs.count(-1), signs.count(1))


def _verdict(difference: Floats, chars: Chars) -> Verdict:
    if len(chars) < 2:
        return "cannot tell"
    return BY_SIGN[over_text(difference, Units.works(chars)).sign]
