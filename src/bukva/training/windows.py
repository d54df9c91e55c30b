"""Windows of text and the order they are learned in.

Which windows make up a batch is a function of seed and step, so a checkpoint needs no position in the data, and nothing
here grows with the text.
"""

import functools
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from bukva.config.schema import Order
from bukva.text.ids import Ids
from bukva.training.permutation import Keys, draw_keys, permuted

Batch = tuple[Tensor, Tensor]  # inputs and targets, (B, T) each


class Windows:
    """Batches of windows of `block_size` characters from (N,) ids, N > block_size.

    Order `epoch`: the text is cut into windows side by side, from a random offset; every window
    comes once per epoch, in a random order; each epoch draws another offset and order. Order `random`, that of the
    lecture notes: every start is equally likely each time.
    """

    def __init__(self, ids: Ids, block_size: int, batch_size: int, order: Order, seed: int) -> None:
        if len(ids) <= block_size:
            raise ValueError(
                f"{len(ids)} characters are too few for a window of {block_size} and the character after it"
            )
        self.ids, self.block_size, self.batch_size, self.order, self.seed = (
            ids,
            block_size,
            batch_size,
            order,
            seed,
        )
        # as many as fit after any offset; a text shorter than two windows still has one
        self.n_windows = max(1, (len(ids) - block_size) // block_size)
        self._epoch = functools.lru_cache(maxsize=2)(self._draw_epoch)

    @property
    def ids_per_step(self) -> int:
        """Ids learned from in one step."""
        return self.batch_size * self.block_size

    def share(self, step: int, rank: int, size: int) -> Batch:
        """The share of one of `size` processes in the batch of update `step`: two (B / size, T)."""
        x, y = self.batch(step)
        return x.chunk(size)[rank], y.chunk(size)[rank]

    def batch(self, step: int) -> Batch:
        """The inputs and targets of update `step` (counted from 1): two (B, T) int64, targets one character later."""
        at = self.starts(step)[:, None] + np.arange(self.block_size + 1)  # (B, T + 1)
        window = torch.from_numpy(self.ids[at].astype(np.int64))
        return window[:, :-1], window[:, 1:]

    def starts(self, step: int) -> npt.NDArray[np.int64]:
        """(B,) where the windows of update `step` start."""
        if self.order == "random":
            return self._rng(step).integers(len(self.ids) - self.block_size, size=self.batch_size)
        drawn = np.arange((step - 1) * self.batch_size, step * self.batch_size)  # numbered through all epochs
        epoch, index = np.divmod(drawn, self.n_windows)
        starts = np.empty(self.batch_size, np.int64)
        for number in np.unique(epoch):
            offset, keys = self._epoch(int(number))
            window = permuted(index[epoch == number], self.n_windows, keys)
            starts[epoch == number] = offset + self.block_size * window
        return starts

    def _draw_epoch(self, number: int) -> tuple[int, Keys]:
        """Where the first window of an epoch starts, and the key of its order."""
        rng = self._rng(number)
        room = min(self.block_size, len(self.ids) - self.n_windows * self.block_size)
        return int(rng.integers(room)), draw_keys(rng)

    def _rng(self, number: int) -> np.random.Generator:
        """The randomness of one epoch or step: independent of all others, and of dropout's, by its key."""
        return np.random.default_rng([self.seed, number, 1])


def prefetched(windows: Windows, steps: range, rank: int = 0, size: int = 1) -> Iterator[tuple[int, Batch]]:
    """Each step with the share of its batch of one of `size` processes; the next one is read in the background."""
    with ThreadPoolExecutor(1) as pool:
        pending = [pool.submit(windows.share, step, rank, size) for step in steps[:1]]
        for step in steps:
            batch = pending.pop().result()
            if step + 1 in steps:
                pending.append(pool.submit(windows.share, step + 1, rank, size))
            yield step, batch
