"""The passages that a model finds easiest and hardest."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from bukva.interpret.predicted import Characters, Ints
from bukva.text.ids import bits

LENGTH = 100  # characters of a passage
STEP = 10  # between the starts of passages that are compared
MOST_OF_WORK = 3  # so that one work is not all there is to see


@dataclass(frozen=True, eq=False)
class Extreme:
    """A passage of LENGTH characters of one work.

    work: its row in the table of works.
    bits: (LENGTH,) of its characters.
    """

    work: int
    text: str
    bits: npt.NDArray[np.float64]

    @property
    def mean(self) -> float:
        """Bits per character."""
        return float(self.bits.mean())


def extremes(characters: Characters, nats: npt.NDArray[np.floating], n: int) -> tuple[list[Extreme], list[Extreme]]:
    """At most n passages with the fewest, and n with the most, of (N,) nats; the most extreme first.

    Passages do not overlap, and of a work there are MOST_OF_WORK in each list.
    """
    starts = _starts(characters.work)
    sums = np.concatenate([[0.0], np.cumsum(nats, dtype=np.float64)])
    means = (sums[starts + LENGTH] - sums[starts]) / LENGTH
    easiest = np.argsort(means, kind="stable")

    def passages(order: Ints) -> list[Extreme]:
        return [_extreme(characters, nats, start) for start in _chosen(starts[order], characters.work, n)]

    return passages(easiest), passages(easiest[::-1])


def _starts(work: Ints) -> Ints:
    """Multiples of STEP from which LENGTH characters are of one work."""
    starts = np.arange(0, max(0, len(work) - LENGTH + 1), STEP)
    return starts[work[starts] == work[starts + LENGTH - 1]]


def _chosen(starts: Ints, work: Ints, n: int) -> Iterator[int]:
    """The first n of the starts that overlap none before them and are not too many of their work."""
    taken: list[int] = []
    of_work: dict[int, int] = {}
    for start in starts.tolist():
        if len(taken) == n:
            return
        row = int(work[start])
        if of_work.get(row, 0) < MOST_OF_WORK and all(abs(start - other) >= LENGTH for other in taken):
            taken.append(start)
            of_work[row] = of_work.get(row, 0) + 1
            yield start


def _extreme(characters: Characters, nats: npt.NDArray[np.floating], start: int) -> Extreme:
    stop = start + LENGTH
    shares = nats[start:stop].astype(np.float64) * bits(1.0)
    return Extreme(int(characters.work[start]), characters.text(start, stop), shares)
