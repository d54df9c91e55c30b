"""Who predicted what: for each character, whether counting gave it more probability, or what was learned."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from bukva.interpret.predicted import Characters
from bukva.text.ids import bits

LENGTH = 600  # characters of the passage that is shown

Nats = npt.NDArray[np.floating]
Bits = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Shares:
    """The shares of characters to which either gave more probability, or neither as much as chance."""

    counted: float
    learned: float
    neither: float


def lead(counted: Nats, learned: Nats) -> Bits:
    """(n,) nats each -> (n,) how many bits less the learned predictor needs; negative where counting needs less."""
    return bits(1.0) * (counted.astype(np.float64) - learned)


def neither(counted: Nats, learned: Nats, n_symbols: int) -> npt.NDArray[np.bool_]:
    """(n,) whether both gave a character less probability than all n_symbols being equally likely."""
    return np.minimum(counted, learned) > np.log(n_symbols)


def shares(counted: Nats, learned: Nats, n_symbols: int) -> Shares:
    """Of (n,) characters; equal probabilities count for the learned predictor."""
    unknown = neither(counted, learned, n_symbols)
    by_learning = (lead(counted, learned) >= 0) & ~unknown
    return Shares(float((~by_learning & ~unknown).mean()), float(by_learning.mean()), float(unknown.mean()))


def passage(characters: Characters) -> slice:
    """LENGTH characters of the work that has most of them, from the beginning of its first whole line."""
    _, starts, lengths = np.unique(characters.work, return_index=True, return_counts=True)
    longest = int(lengths.argmax())
    start = int(starts[longest])
    stop = start + int(lengths[longest])
    newline = characters.text(start, stop - LENGTH).find("\n") if stop - start > LENGTH else -1
    first = start + newline + 1
    return slice(first, min(first + LENGTH, stop))
