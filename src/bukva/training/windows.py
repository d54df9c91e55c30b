"""Windows of text and the order they are learned in.

Which windows make up a batch is a function of seed and step, so a checkpoint needs no position in the data, and nothing
here grows with the text.
"""

import functools
import math
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from bukva.config.schema import Order
from bukva.models.base import Examples, LanguageModel
from bukva.text.ids import Ids, ids_at

ROUNDS = 8  # each changes both halves; with 4, orders of few things are not all equally likely (docs/dev/log.md)
AT_ONCE = 16  # updates whose windows are drawn together
T = TypeVar("T")
Keys = npt.NDArray[np.uint64]  # (ROUNDS, 2)


class Batch(NamedTuple):
    """The windows of one update, or some of them.

    inputs: (B, T) ids.
    targets: (B, T), one character later.
    before: (B, n_before), the ids of train before each window, NO_ID where there are none.
    numbers: (B,), the index of each window among all windows of the update.
    """

    inputs: Tensor
    targets: Tensor
    before: Tensor
    numbers: Tensor


class Windows:
    """Batches of windows of `block_size` characters from (N,) ids, N > block_size.

    Order `epoch`: the text is cut into windows side by side, from a random offset; every window comes once per epoch,
    in a random order; each epoch draws another offset and order. Order `random`, that of the lecture notes: every start
    is equally likely each time.
    """

    def __init__(self, ids: Ids, block_size: int, batch_size: int, order: Order, seed: int) -> None:
        if len(ids) <= block_size:
            raise ValueError(
                f"{len(ids)} characters are too few for a window of {block_size} and the character after it"
            )
        self.ids, self.block_size, self.batch_size = ids, block_size, batch_size
        self.order, self.seed = order, seed
        # as many as fit after any offset; a text shorter than two windows still has one
        self.n_windows = max(1, (len(ids) - block_size) // block_size)
        self._epoch = functools.lru_cache(maxsize=2)(self._draw_epoch)
        self._some_starts = functools.lru_cache(maxsize=1)(self._draw_starts)

    @property
    def ids_per_step(self) -> int:
        """Ids learned from in one step."""
        return self.batch_size * self.block_size

    def share(self, step: int, rank: int, size: int, n_before: int = 0) -> Batch:
        """The share of one of `size` processes in the batch of update `step`: B / size windows, or one more."""
        return Batch(*(part.tensor_split(size)[rank] for part in self.batch(step, n_before)))

    def batch(self, step: int, n_before: int = 0) -> Batch:
        """The B windows of update `step` (counted from 1), int64, after as many ids as a model sees before them."""
        n, T = n_before, self.block_size
        around = ids_at(self.ids, self.starts(step)[:, None] + np.arange(-n, T + 1))  # (B, n + T + 1)
        before, inputs, targets = map(torch.from_numpy, (around[:, :n], around[:, n : n + T], around[:, n + 1 :]))
        return Batch(inputs, targets, before, torch.arange(self.batch_size))

    def starts(self, step: int) -> npt.NDArray[np.int64]:
        """(B,) where the windows of update `step` start."""
        if self.order == "random":
            return self._rng(step).integers(len(self.ids) - self.block_size, size=self.batch_size)
        number, place = divmod(step - 1, AT_ONCE)
        return self._some_starts(number)[place]

    def _draw_starts(self, number: int) -> npt.NDArray[np.int64]:
        """(AT_ONCE, B) where the windows of some updates start; drawing those of one takes as long."""
        n_drawn = AT_ONCE * self.batch_size
        drawn = np.arange(number * n_drawn, (number + 1) * n_drawn)  # numbered through all epochs
        epoch, index = np.divmod(drawn, self.n_windows)
        starts = np.empty(n_drawn, np.int64)
        for each in np.unique(epoch):
            offset, keys = self._epoch(int(each))
            window = permuted(index[epoch == each], self.n_windows, keys)
            starts[epoch == each] = offset + self.block_size * window
        return starts.reshape(AT_ONCE, -1)

    def _draw_epoch(self, number: int) -> tuple[int, Keys]:
        """Where the first window of an epoch starts, and the key of its order."""
        rng = self._rng(number)
        room = min(self.block_size, len(self.ids) - self.n_windows * self.block_size)
        return int(rng.integers(room)), draw_keys(rng)

    def _rng(self, number: int) -> np.random.Generator:
        """The randomness of one epoch or step: independent of all others, and of dropout's, by its key."""
        return np.random.default_rng([self.seed, number, 1])


def micro_batches(
    model: LanguageModel, batch: Batch, n: int, device: torch.device, batch_size: int
) -> Iterable[Examples]:
    """Split a batch, or a process's share of it, into the n parts that a model learns from one after the other.

    For a GPU all are made ready at once, counts too, in memory that it reads by itself while it computes. On a CPU each
    is made ready when it is wanted: looking up in the background would take a core from the training.
    """
    chunks = (Batch(*part) for part in zip(*(tensor.chunk(n) for tensor in batch), strict=True))
    parts = (model.examples(part.inputs, part.targets, part.before, part.numbers, batch_size) for part in chunks)
    if device.type != "cuda":
        return parts
    return [part.map(lambda tensor: tensor.contiguous().pin_memory()) for part in parts]


def prefetched(read: Callable[[int], T], steps: range) -> Iterator[tuple[int, T]]:
    """Yield each step with the result of `read`; the next step is read in the background."""
    with ThreadPoolExecutor(1) as pool:
        pending = [pool.submit(read, step) for step in steps[:1]]
        for step in steps:
            result = pending.pop().result()
            if step + 1 in steps:
                pending.append(pool.submit(read, step + 1))
            yield step, result


# ---- a random order


def draw_keys(rng: np.random.Generator) -> Keys:
    """The key of one order."""
    return rng.integers(2**64, size=(ROUNDS, 2), dtype=np.uint64)


def permuted(places: npt.NDArray[np.int64], n: int, keys: Keys) -> npt.NDArray[np.int64]:
    """(B,) places below n -> (B,) numbers below n, in a random order that takes no memory: a function of the key.

    A Feistel network maps the numbers below a * b one to one to themselves, with a * b barely above n; a number that
    lands on n or above is mapped again until it is below n (Black and Rogaway, "Ciphers with arbitrary finite domains",
    2002, the generalised Feistel network with cycle walking). A table of n places would take 8 bytes each.
    """
    columns = math.isqrt(n - 1) + 1
    rows = -(-n // columns)  # rows * columns is n, or a few above it
    numbers = _network(places, rows, columns, keys)
    while (outside := numbers >= n).any():
        numbers[outside] = _network(numbers[outside], rows, columns, keys)
    return numbers


def _network(numbers: npt.NDArray[np.int64], rows: int, columns: int, keys: Keys) -> npt.NDArray[np.int64]:
    """(B,) numbers below rows * columns, one to one to themselves."""
    row, column = (half.astype(np.uint64) for half in np.divmod(numbers, columns))
    for key_of_row, key_of_column in keys:
        row = (row + _mixed(column ^ key_of_row) % np.uint64(rows)) % np.uint64(rows)
        column = (column + _mixed(row ^ key_of_column) % np.uint64(columns)) % np.uint64(columns)
    return (row * np.uint64(columns) + column).astype(np.int64)


def _mixed(bits: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """The finaliser of SplitMix64 (Steele et al., "Fast splittable pseudorandom number generators", 2014)."""
    bits = (bits ^ (bits >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    bits = (bits ^ (bits >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return bits ^ (bits >> np.uint64(31))
