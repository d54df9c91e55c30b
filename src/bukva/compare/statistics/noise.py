"""The noise floor: how far two trainings differ that differ in nothing but the seed."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

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

    def to_json(self) -> dict[str, float]:
        """A dict of plain numbers."""
        return {"sd": self.sd, "df": self.df, "difference": self.difference}


def pool(floors: Iterable[Floor]) -> Floor:
    """The floor of several seed groups of one corpus and recipe family; each may have its own mean score."""
    floors = list(floors)
    df = sum(floor.df for floor in floors)
    return Floor((sum(floor.df * floor.sd**2 for floor in floors) / df) ** 0.5 if df else 0.0, df)
