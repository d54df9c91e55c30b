"""Select the windows of each training batch, which depend only on the seed and the step, and read them ahead."""

import functools
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import numpy as np
import numpy.typing as npt
import torch

from bukva.core.schema import Order
from bukva.models.base import Batch
from bukva.models.ngram_memory import NgramMemory
from bukva.text.ids import Ids, ids_at

T = TypeVar("T")


class Windows:
    """Training batches: each batch has `batch_size` windows, and each window has `block_size` consecutive ids of `ids`.

    With `order="epoch"`, each epoch skips a random number of ids, cuts the rest of the text into adjacent windows, and
    uses each once, in random order. With `order="random"`, as in the lecture notes, windows start at random positions.
    """

    def __init__(self, ids: Ids, block_size: int, batch_size: int, order: Order, seed: int) -> None:
        if len(ids) <= block_size:
            raise ValueError(f"{len(ids)} ids are too few for `block_size={block_size}`. Use {block_size + 1} or more.")
        self.ids, self.block_size, self.batch_size = ids, block_size, batch_size
        self.order, self.seed = order, seed
        # number of windows of an epoch, which fit after any start position; a short text still has one window
        self.n_windows = max(1, (len(ids) - block_size) // block_size)
        # a batch may begin in one epoch and end in the next
        self._epoch = functools.lru_cache(maxsize=2)(self._draw_epoch)

    def batch(
        self, step: int, rank: int = 0, size: int = 1, n: int = 1, ngrams: NgramMemory | None = None
    ) -> Iterator[Batch]:
        """Yield the micro-batches of update `step`, counted from 1, that one process computes.

        The windows of the whole batch are divided among `size` processes, and those of the process `rank` into `n`
        micro-batches. A micro-batch has the arguments of `LanguageModel.loss`: the ids of its windows, (b, T), the id
        that follows each of them, (b, T), and with `ngrams`, the predictions of the n-grams.
        """
        n_before, T = ngrams.n_before if ngrams else 0, self.block_size
        starts = self.starts(step)
        for numbers in torch.arange(self.batch_size).tensor_split(size)[rank].chunk(n):
            around = starts[numbers.numpy(), None] + np.arange(-n_before, T + 1)
            windows = torch.from_numpy(ids_at(self.ids, around))  # (b, n_before + T + 1)
            features = ngrams.inputs(windows, numbers, self.batch_size) if ngrams else ()
            yield windows[:, n_before:-1], windows[:, n_before + 1 :], *features

    def starts(self, step: int) -> npt.NDArray[np.int64]:
        """Return the (B,) positions in the text at which the B windows of update `step` start."""
        if self.order == "random":
            return self._rng(step).integers(len(self.ids) - self.block_size, size=self.batch_size)
        numbers = np.arange((step - 1) * self.batch_size, step * self.batch_size)  # they continue across epochs
        epochs, indices = np.divmod(numbers, self.n_windows)
        return np.concatenate([self._epoch(int(each))[indices[epochs == each]] for each in np.unique(epochs)])

    def _draw_epoch(self, number: int) -> npt.NDArray[np.int64]:
        rng = self._rng(number)
        n_offsets = min(self.block_size, len(self.ids) - self.n_windows * self.block_size)
        return rng.integers(n_offsets) + self.block_size * rng.permutation(self.n_windows)

    def _rng(self, number: int) -> np.random.Generator:
        """Return the random generator of epoch or step `number`. Dropout has other, independent generators."""
        return np.random.default_rng([self.seed, number, 1])


def pinned(batch: Iterable[Batch]) -> list[Batch]:
    """Prepare all micro-batches in pinned memory, so that a GPU copies them while it computes."""
    return [tuple(tensor.contiguous().pin_memory() for tensor in part) for part in batch]


def prefetched(read: Callable[[int], T], steps: range) -> Iterator[tuple[int, T]]:
    """Yield each step with the result of `read(step)`, which a background thread reads while the last one is used."""
    with ThreadPoolExecutor(1) as pool:
        pending = [pool.submit(read, step) for step in steps[:1]]
        for step in steps:
            result = pending.pop().result()
            if step + 1 in steps:
                pending.append(pool.submit(read, step + 1))
            yield step, result
