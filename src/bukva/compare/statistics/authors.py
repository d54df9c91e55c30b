"""Effect by author: who gains, and whether one author decides the verdict over the text."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from bukva.compare.statistics.estimate import BY_SIGN, Verdict
from bukva.compare.statistics.text import over_text
from bukva.compare.statistics.units import MIN_EFFECTIVE_WORKS, Chars, Floats, Units


@dataclass(frozen=True)
class AuthorEffect:
    """The difference on the text of one author."""

    author: str
    chars: int
    difference: float  # bits per character of this author
    share: float  # what it adds to the difference on the whole text; the shares of all authors sum to it
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

    def to_json(self) -> dict[str, Any]:
        """A dict of plain numbers, strings and None."""
        return {"better": self.better, "worse": self.worse, "effects": [asdict(effect) for effect in self.effects]}


def by_author(sums_a: Floats, sums_b: Floats, works: Units, authors: Sequence[str]) -> Authors:
    """The effect by author.

    Args:
        sums_a, sums_b: (G,) bits of each work.
        works: `Units.works`, not segments.
        authors: (W,) the author of every work, those without characters included.
    """
    chars, difference = works.chars, sums_b - sums_a  # (G,), (G,)
    of_work = np.asarray(authors)[works.rows]  # (G,)
    names = sorted(set(of_work.tolist()))
    # fewer works than that are compared by segments, which have no author
    checked = works.effective >= MIN_EFFECTIVE_WORKS and len(names) > 1
    whole = _verdict(difference, chars)
    effects = []
    for name in names:
        own = of_work == name
        n, total = int(chars[own].sum()), float(difference[own].sum())
        without = _verdict(difference[~own], chars[~own]) if checked else whole
        effects.append(
            AuthorEffect(name, n, total / n, total / int(chars.sum()), without if without != whole else None)
        )
    signs = [np.sign(effect.difference) for effect in effects]
    return Authors(tuple(effects), signs.count(-1), signs.count(1))


def _verdict(difference: Floats, chars: Chars) -> Verdict:
    """The verdict over works; one work alone has none."""
    if len(chars) < 2:
        return "cannot tell"
    return BY_SIGN[over_text(difference, Units.works(chars)).sign]
