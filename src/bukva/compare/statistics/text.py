"""The interval over the text: would another text of this kind give a difference of the same sign?

The leave-one-work-out jackknife of a ratio (sum of bits by sum of characters), with Student's t at as many degrees of
freedom as the works are worth, less 1 (MacKinnon, Nielsen & Webb 2023; docs/comparing.md compares it with bootstraps).

Units are the pieces of a text that count as independent: works where there are enough of them, else segments.
Characters of one work are alike, so a text of many characters and few works says little about another text.
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
Chars = npt.NDArray[np.int64]  # (W,) characters of each work, or (G,) of each unit

MIN_EFFECTIVE_WORKS = 6
N_SEGMENTS = 20


@dataclass(frozen=True, eq=False)
class Units:
    """G units in the order of the text, each of one character or more."""

    kind: Literal["works", "segments"]
    edges: Chars  # (G + 1,): unit g has the characters from edges[g] to edges[g + 1]
    rows: Chars  # (G,): which of the given works each unit is; (0,) for segments

    @classmethod
    def of(cls, chars: npt.ArrayLike) -> "Units":
        """The works of (W,) characters each; 20 equal segments where they are worth fewer than 6 works.

        Raises:
            BukvaError: there are fewer characters than segments.
        """
        works = cls.works(chars)
        if works.effective >= MIN_EFFECTIVE_WORKS:
            return works
        n = int(works.edges[-1])
        if n < N_SEGMENTS:
            raise BukvaError(
                f"{n} scored characters are too few to compare models on; use {N_SEGMENTS} or more, a larger split or "
                "more text."
            )
        return cls("segments", np.arange(N_SEGMENTS + 1) * n // N_SEGMENTS, np.empty(0, np.int64))

    @classmethod
    def works(cls, chars: npt.ArrayLike) -> "Units":
        """The works of (W,) characters each, however few; those without characters are left out."""
        chars = np.asarray(chars, np.int64)
        rows = np.flatnonzero(chars)
        return cls("works", np.concatenate([[0], chars[rows].cumsum()]), rows)

    def __len__(self) -> int:
        return len(self.edges) - 1

    @cached_property
    def chars(self) -> Chars:
        """(G,) characters of each unit."""
        return np.diff(self.edges)

    @cached_property
    def effective(self) -> float:
        """The number of equally long units that these are worth; 0 for no units."""
        n = self.chars.astype(np.float64)
        return float(n.sum() ** 2 / (n**2).sum()) if len(self) else 0.0

    def sums(self, nats: npt.NDArray[np.floating]) -> Floats:
        """(N,) nats of each character -> (G,) bits of each unit, summed in float64.

        Raises:
            BukvaError: a character has no finite loss.
        """
        if len(nats) != self.edges[-1]:
            raise ValueError(f"{len(nats)} scores for {self.edges[-1]} characters")
        sums = np.add.reduceat(nats, self.edges[:-1], dtype=np.float64)
        if not np.isfinite(sums).all():
            raise BukvaError(
                f"{np.count_nonzero(~np.isfinite(nats))} of {len(nats)} characters have no finite loss, so there is no "
                "difference to compute; score a model whose training has not diverged."
            )
        return sums * bits(1.0)


@dataclass(frozen=True)
class TextVerdict:
    """Two models on one text; says nothing about other seeds of the same settings."""

    verdict: Verdict  # of B against A: better, worse, cannot tell or identical
    estimate: Estimate
    unit: Literal["works", "segments"]
    n_units: int
    effective_units: float  # the number of equally long ones that they are worth

    def to_json(self) -> dict[str, Any]:
        """Every number, for other programs."""
        return {**asdict(self), "estimate": self.estimate.to_json()}


def compare_text(sums_a: Floats, sums_b: Floats, units: Units) -> TextVerdict:
    """(G,) and (G,) bits of each unit under model A and model B -> the verdict over the text."""
    estimate = over_text(sums_b - sums_a, units)
    verdict = BY_SIGN[estimate.sign] if (sums_a != sums_b).any() else "identical"
    return TextVerdict(verdict, estimate, units.kind, len(units), units.effective)


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


@dataclass(frozen=True)
class AuthorEffect:
    """The difference on the text of one author."""

    author: str
    difference: float  # bits per character of this author
    without: Verdict | None  # the verdict over all other authors' text where it is another one


@dataclass(frozen=True)
class Authors:
    """The differences of all authors, in the order of their names."""

    effects: tuple[AuthorEffect, ...]
    better: int  # authors whose text B predicts better
    worse: int

    @property
    def deciding(self) -> list[AuthorEffect]:
        """Those without whom the verdict over the text is another."""
        return [effect for effect in self.effects if effect.without]


def by_author(sums_a: Floats, sums_b: Floats, works: Units, authors: Sequence[str]) -> Authors:
    """(G,) and (G,) bits of each of `Units.works`, and the (W,) authors of all works -> the effect by author."""
    chars, difference = works.chars, sums_b - sums_a  # (G,), (G,)
    of_work = np.asarray(authors)[works.rows]  # (G,)
    names = sorted(set(of_work.tolist()))
    # fewer works than that are compared by segments, which have no author
    checked = works.effective >= MIN_EFFECTIVE_WORKS and len(names) > 1
    whole = _verdict(difference, chars)
    effects = []
    for name in names:
        own = of_work == name
        without = _verdict(difference[~own], chars[~own]) if checked else whole
        effects.append(
            AuthorEffect(name, float(difference[own].sum() / chars[own].sum()), without if without != whole else None)
        )
    signs = [np.sign(effect.difference) for effect in effects]
    return Authors(tuple(effects), signs.count(-1), signs.count(1))


def _verdict(difference: Floats, chars: Chars) -> Verdict:
    """The verdict over works; one work alone has none."""
    if len(chars) < 2:
        return "cannot tell"
    return BY_SIGN[over_text(difference, Units.works(chars)).sign]
