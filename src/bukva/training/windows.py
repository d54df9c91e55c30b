"""Batches of text windows, and the order in which they are trained on.

The windows of a batch are a function of seed and step. So a checkpoint needs no position in the data, and no table
grows with the text.
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

ROUNDS = 8  # of the Feistel network; with 4, not all orders of a few windows are equally likely (docs/dev/log.md)
UPDATES_PER_DRAW = 16  # number of updates whose windows are drawn together
T = TypeVar("T")
Keys = npt.NDArray[np.uint64]  # (ROUNDS, 2)


class Batch(NamedTuple):
    """The windows of one update, or a part of them.

    inputs: (B, T) ids.
    targets: (B, T), the next id after each of `inputs`.
    before: (B, n_before), the ids of the training split before each window, NO_ID where there are none.
    numbers: (B,), index of each window among all windows of the update.
    """

    inputs: Tensor
    targets: Tensor
    before: Tensor
    numbers: Tensor


class Windows:
    """Batches of windows of `block_size` characters from (N,) ids, N > block_size.

    With order `epoch`, the text is cut into adjacent windows from a random offset. Every window comes once per epoch,
    in random order. Each epoch draws a new offset and order. With order `random`, as in the lecture notes, each window
    starts at any position with equal probability.
    """

    def __init__(self, ids: Ids, block_size: int, batch_size: int, order: Order, seed: int) -> None:
        if len(ids) <= block_size:
            raise ValueError(
                f"{len(ids)} characters are too few for a window of {block_size} and the character after it"
            )
        self.ids, self.block_size, self.batch_size = ids, block_size, batch_size
        self.order, self.seed = order, seed
        # the number that fits after any offset; a text shorter than two windows still has one
        self.n_windows = max(1, (len(ids) - block_size) // block_size)
        self._epoch = functools.lru_cache(maxsize=2)(self._draw_epoch)
        self._drawn_starts = functools.lru_cache(maxsize=1)(self._draw_starts)

    @property
    def ids_per_step(self) -> int:
        """Number of ids trained on in one step."""
        return self.batch_size * self.block_size

    def share(self, step: int, rank: int, size: int, n_before: int = 0) -> Batch:
        """Return the part of the batch of update `step` for process `rank` of `size`: B / size windows, or one more."""
        return Batch(*(part.tensor_split(size)[rank] for part in self.batch(step, n_before)))

    def batch(self, step: int, n_before: int = 0) -> Batch:
        """Return the B windows of update `step`, counted from 1, and the n_before ids before each; all int64."""
        n, T = n_before, self.block_size
        around = ids_at(self.ids, self.starts(step)[:, None] + np.arange(-n, T + 1))  # (B, n + T + 1)
        before, inputs, targets = map(torch.from_numpy, (around[:, :n], around[:, n : n + T], around[:, n + 1 :]))
        return Batch(inputs, targets, before, torch.arange(self.batch_size))

    def starts(self, step: int) -> npt.NDArray[np.int64]:
        """Return the (B,) start positions of the windows of update `step`."""
        if self.order == "random":
            return self._rng(step).integers(len(self.ids) - self.block_size, size=self.batch_size)
        number, index = divmod(step - 1, UPDATES_PER_DRAW)
        return self._drawn_starts(number)[index]

    def _draw_starts(self, number: int) -> npt.NDArray[np.int64]:
        """Return the (UPDATES_PER_DRAW, B) start positions of several updates. Drawing one update takes as long."""
        n_drawn = UPDATES_PER_DRAW * self.batch_size
        drawn = np.arange(number * n_drawn, (number + 1) * n_drawn)  # window numbers that continue across epochs
        epoch, index = np.divmod(drawn, self.n_windows)
        starts = np.empty(n_drawn, np.int64)
        for each in np.unique(epoch):
            offset, keys = self._epoch(int(each))
            window = permuted(index[epoch == each], self.n_windows, keys)
            starts[epoch == each] = offset + self.block_size * window
        return starts.reshape(UPDATES_PER_DRAW, -1)

    def _draw_epoch(self, number: int) -> tuple[int, Keys]:
        """Return the start of the first window of an epoch, and the keys of the epoch's order."""
        rng = self._rng(number)
        n_offsets = min(self.block_size, len(self.ids) - self.n_windows * self.block_size)
        return int(rng.integers(n_offsets)), draw_keys(rng)

    def _rng(self, number: int) -> np.random.Generator:
        """Return the generator of one epoch or step. Its key makes it independent of all others, and of dropout."""
        return np.random.default_rng([self.seed, number, 1])


def micro_batches(
    model: LanguageModel, batch: Batch, n: int, device: torch.device, batch_size: int
) -> Iterable[Examples]:
    """Split a batch, or a process's share of it, into n micro-batches, including their n-gram lookups.

    For a GPU, all micro-batches are prepared in advance in pinned memory, so the GPU copies them while it computes. On
    a CPU, each one is prepared when it is needed, because a lookup in the background would take a core from training.
    """
    chunks = (Batch(*part) for part in zip(*(tensor.chunk(n) for tensor in batch), strict=True))
    parts = (model.examples(part.inputs, part.targets, part.before, part.numbers, batch_size) for part in chunks)
    if device.type != "cuda":
        return parts
    return [part.map(lambda tensor: tensor.contiguous().pin_memory()) for part in parts]


def prefetched(read: Callable[[int], T], steps: range) -> Iterator[tuple[int, T]]:
    """Yield each step with the result of `read`, while the next step is read in the background."""
    with ThreadPoolExecutor(1) as pool:
        pending = [pool.submit(read, step) for step in steps[:1]]
        for step in steps:
            result = pending.pop().result()
            if step + 1 in steps:
                pending.append(pool.submit(read, step + 1))
            yield step, result


# ---- random orders


def draw_keys(rng: np.random.Generator) -> Keys:
    """Draw the keys of one order."""
    return rng.integers(2**64, size=(ROUNDS, 2), dtype=np.uint64)


def permuted(positions: npt.NDArray[np.int64], n: int, keys: Keys) -> npt.NDArray[np.int64]:
    """Return the (B,) numbers below n that are at (B,) positions of a random order of all n numbers.

    The order is computed from the keys, because a table would take 8 bytes for each number. A Feistel network permutes
    the numbers below a * b, with a * b barely above n. A result that is not below n is permuted again until it is
    (Black and Rogaway, "Ciphers with arbitrary finite domains", 2002, the generalized Feistel network with cycle
    walking).
    """
    columns = math.isqrt(n - 1) + 1
    rows = -(-n // columns)  # rows * columns is n or slightly greater
    numbers = _feistel(positions, rows, columns, keys)
    while (outside := numbers >= n).any():
        numbers[outside] = _feistel(numbers[outside], rows, columns, keys)
    return numbers


def _feistel(numbers: npt.NDArray[np.int64], rows: int, columns: int, keys: Keys) -> npt.NDArray[np.int64]:
    """Permute (B,) numbers below rows * columns by a Feistel network."""
    row, column = (half.astype(np.uint64) for half in np.divmod(numbers, columns))
    for key_of_row, key_of_column in keys:
        row = (row + _hash(column ^ key_of_row) % np.uint64(rows)) % np.uint64(rows)
        column = (column + _hash(row ^ key_of_column) % np.uint64(columns)) % np.uint64(columns)
    return (row * np.uint64(columns) + column).astype(np.int64)


def _hash(bits: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """Apply the finalizer of SplitMix64 (Steele et al., "Fast splittable pseudorandom number generators", 2014)."""
    bits = (bits ^ (bits >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    bits = (bits ^ (bits >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return bits ^ (bits >> np.uint64(31))
