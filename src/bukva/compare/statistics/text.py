"""Compute verdicts on trained models: would another text of this kind give a difference of the same sign?

A text is divided into units that are treated as independent. The units are the works if there are enough of them, and
otherwise segments of equal length. Characters of one work are similar, so a long text of few works says little about
other texts.

The difference per character is the total difference in bits divided by the number of characters. Its standard error is
computed by the jackknife, which leaves out one unit at a time. Intervals use Student's t distribution with G* - 1
degrees of freedom, where G* is the effective number of units (MacKinnon, Nielsen & Webb 2023; docs/comparing-method.md
compares the jackknife with bootstraps).
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any, Literal

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
    """The G units of a text, in order: its works or, if there are too few works, segments of equal length.

    No unit is empty.
    """

    kind: Literal["works", "segments"]
    edges: Chars  # (G + 1,): unit g has the characters from edges[g] to edges[g + 1]
    rows: Chars  # (G,): if the units are works, the index of each unit in the list of all works; empty for segments

    @classmethod
    def of(cls, chars: npt.ArrayLike) -> "Units":
        """Divide a text into its works, or into 20 equal segments if it has fewer than 6 effective works.

        See `effective` for the effective number of works.

        chars: (W,) number of characters of each work.

        Raises:
            BukvaError: the text has fewer than 6 effective works and fewer than 20 characters.
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
        """Divide a text into its works, even if there are few of them. Works without characters are left out.

        chars: (W,) number of characters of each work.
        """
        chars = np.asarray(chars, np.int64)
        rows = np.flatnonzero(chars)
        return cls("works", np.concatenate([[0], chars[rows].cumsum()]), rows)

    def __len__(self) -> int:
        return len(self.edges) - 1

    @cached_property
    def chars(self) -> Chars:
        """Number of characters of each of the G units."""
        return np.diff(self.edges)

    @cached_property
    def effective(self) -> float:
        """Effective number of units: the number of equally long units that would be as informative (Kish 1965).

        The value is 0 if there are no units.
        """
        n = self.chars.astype(np.float64)
        return float(n.sum() ** 2 / (n**2).sum()) if len(self) else 0.0

    def sums(self, nats: npt.NDArray[np.floating]) -> Floats:
        """Convert the (N,) losses of all characters in nats to the (G,) losses of the units in bits.

        The loss of a unit is the sum over its characters, computed in float64.

        Raises:
            BukvaError: the loss of a character is not finite.
        """
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
    """Verdict on trained model B against trained model A.

    The verdict applies to other texts of the same kind, but not to models that are trained with other seeds.
    """

    verdict: Verdict  # "better", "worse", "cannot tell" or "identical"
    estimate: Estimate
    unit: Literal["works", "segments"]
    n_units: int
    effective_units: float  # see Units.effective

    def to_json(self) -> dict[str, Any]:
        """Return a dict with all fields, in which `estimate` is a dict."""
        return {**asdict(self), "estimate": self.estimate.to_json()}


def compare_text(sums_a: Floats, sums_b: Floats, units: Units) -> TextVerdict:
    """Compare model B with model A on one text.

    sums_a, sums_b: (G,) bits of each unit of the text under model A and under model B; G >= 2.
    """
    estimate = over_text(sums_b - sums_a, units)
    verdict = BY_SIGN[estimate.sign] if (sums_a != sums_b).any() else "identical"
    return TextVerdict(verdict, estimate, units.kind, len(units), units.effective)


def over_text(sums: Floats, units: Units) -> Estimate:
    """Return the difference in bits per character, with its standard error from the choice of the text.

    sums: (G,) bits of each unit under model B minus its bits under model A; G >= 2.
    """
    difference, variance = jackknife(sums, units.chars)
    return Estimate.of(difference, [(variance, units.effective - 1)])


def jackknife(sums: Floats, chars: Chars) -> tuple[float, float]:
    """Return the ratio sum(sums) / sum(chars) of two (G,) arrays, and the variance of this ratio; G >= 2.

    The variance is estimated by the jackknife, which leaves out one unit at a time.
    """
    G, total, n = len(chars), sums.sum(), chars.sum()
    ratio = total / n
    without = (total - sums) / (n - chars)  # (G,): ratio over all other units
    return float(ratio), float((G - 1) / G * ((without - ratio) ** 2).sum())


@dataclass(frozen=True)
class AuthorEffect:
    """Difference between two models on the works of one author; negative if model B is better."""

    author: str
    difference: float  # bits per character
    # verdict if the works of this author are left out; None if the verdict does not change, or is not computed
    without: Verdict | None


@dataclass(frozen=True)
class Authors:
    """Differences between two models on the works of each author."""

    effects: tuple[AuthorEffect, ...]  # one for each author, sorted by the name of the author
    better: int  # number of authors whose works model B predicts better than model A
    worse: int  # number of authors whose works model B predicts worse than model A

    @property
    def deciding(self) -> list[AuthorEffect]:
        """The effects of authors who decide the verdict: without the works of one such author, the verdict changes."""
        return [effect for effect in self.effects if effect.without]


def by_author(sums_a: Floats, sums_b: Floats, works: Units, authors: Sequence[str]) -> Authors:
    """Compare model B with model A on the works of each author.

    Args:
        sums_a, sums_b: (G,) bits of each work under model A and under model B.
        works: the works that have characters, as returned by `Units.works`.
        authors: (W,) author of each work, including works without characters.
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
    """Return the verdict on a text whose units are its G works."""
    if len(chars) < 2:
        return "cannot tell"
    return BY_SIGN[over_text(difference, Units.works(chars)).sign]
