"""Units: the pieces of a text that count as independent. Works where there are enough of them, else segments.

Characters of one work are alike, so a text of many characters and few works says little about another text.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np
import numpy.typing as npt

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
