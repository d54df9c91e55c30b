"""Select the text windows of each training batch, and prepare the batches for the model.

A window is a section of consecutive ids of the training split. The windows of a batch depend only on the seed and the
step, so a checkpoint does not store a position in the text.
"""

import functools
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

T = TypeVar("T")


class Batch(NamedTuple):
    """The B windows of one update, or a part of them. Each window has T ids.

    inputs: (B, T) ids of the windows.
    targets: (B, T), the id that follows each of `inputs` in the text.
    before: (B, n_before), the ids before each window. Positions before the start of the training split contain NO_ID.
    numbers: (B,), index of each window among all windows of the update.
    """

    inputs: Tensor
    targets: Tensor
    before: Tensor
    numbers: Tensor


class Windows:
    """Training batches: each batch has `batch_size` windows, and each window has `block_size` consecutive ids of `ids`.

    The (N,) `ids` must be longer than a window, N > block_size. With `order="epoch"`, each epoch skips a random number
    of ids at the start of the text, and cuts the rest into adjacent windows. It uses every window once, in random
    order. With `order="random"`, as in the lecture notes, each window starts at a random position, and all positions
    are equally likely.
    """

    def __init__(self, ids: Ids, block_size: int, batch_size: int, order: Order, seed: int) -> None:
        if len(ids) <= block_size:
            raise ValueError(f"{len(ids)} ids are too few for `block_size={block_size}`. Use {block_size + 1} or more.")
        self.ids, self.block_size, self.batch_size = ids, block_size, batch_size
        self.order, self.seed = order, seed
        # number of windows of an epoch, which fit after any start position; a short text still has one window
        self.n_windows = max(1, (len(ids) - block_size) // block_size)
        self._epoch = functools.lru_cache(maxsize=2)(
            self._draw_epoch
        )  # a batch may begin in one epoch and end in the next

    @property
    def ids_per_step(self) -> int:
        """Number of ids in the windows of one update."""
        return self.batch_size * self.block_size

    def share(self, step: int, rank: int, size: int, n_before: int = 0) -> Batch:
        """Return the part of the batch of update `step` that the process of rank `rank` computes.

        The windows of the batch are divided equally among `size` processes. If this is not possible, the first
        processes get one more window. `n_before` is explained in `batch`.
        """
        return Batch(*(part.tensor_split(size)[rank] for part in self.batch(step, n_before)))

    def batch(self, step: int, n_before: int = 0) -> Batch:
        """Return the batch of update `step`, counted from 1. It includes the `n_before` ids before each window."""
        n, T = n_before, self.block_size
        around = ids_at(self.ids, self.starts(step)[:, None] + np.arange(-n, T + 1))  # (B, n + T + 1)
        before, inputs, targets = map(torch.from_numpy, (around[:, :n], around[:, n : n + T], around[:, n + 1 :]))
        return Batch(inputs, targets, before, torch.arange(self.batch_size))

    def starts(self, step: int) -> npt.NDArray[np.int64]:
        """Return the (B,) positions in the text at which the B windows of update `step` start."""
        if self.order == "random":
            return self._rng(step).integers(len(self.ids) - self.block_size, size=self.batch_size)
        numbers = np.arange((step - 1) * self.batch_size, step * self.batch_size)  # they continue across epochs
        epochs, indices = np.divmod(numbers, self.n_windows)
        return np.concatenate([self._epoch(int(each))[indices[epochs == each]] for each in np.unique(epochs)])

    def _draw_epoch(self, number: int) -> npt.NDArray[np.int64]:
        """Return the start positions of all windows of epoch `number` in their order."""
        rng = self._rng(number)
        n_offsets = min(self.block_size, len(self.ids) - self.n_windows * self.block_size)
        return rng.integers(n_offsets) + self.block_size * rng.permutation(self.n_windows)

    def _rng(self, number: int) -> np.random.Generator:
        """Return the random generator of epoch or step `number`. Dropout has other, independent generators."""
        return np.random.default_rng([self.seed, number, 1])


def micro_batches(
    model: LanguageModel, batch: Batch, n: int, device: torch.device, batch_size: int
) -> Iterable[Examples]:
    """Divide a batch into `n` micro-batches, and look up the n-gram predictions that the model needs for them.

    For a GPU, all micro-batches are prepared in advance in pinned memory, so that the GPU copies them while it
    computes. For a CPU, each micro-batch is prepared when it is needed. Preparing it in the background would take a
    core away from the training.

    Args:
        model: model that is trained.
        batch: the windows that this process computes.
        n: number of micro-batches.
        device: device of the training.
        batch_size: number of windows that all processes compute together.
    """
    chunks = (Batch(*part) for part in zip(*(tensor.chunk(n) for tensor in batch), strict=True))
    parts = (model.examples(part.inputs, part.targets, part.before, part.numbers, batch_size) for part in chunks)
    if device.type != "cuda":
        return parts
    return [part.map(lambda tensor: tensor.contiguous().pin_memory()) for part in parts]


def prefetched(read: Callable[[int], T], steps: range) -> Iterator[tuple[int, T]]:
    """Yield each step together with the result of `read(step)`.

    While the caller uses a result, a background thread reads the result of the next step.
    """
    with ThreadPoolExecutor(1) as pool:
        pending = [pool.submit(read, step) for step in steps[:1]]
        for step in steps:
            result = pending.pop().result()
            if step + 1 in steps:
                pending.append(pool.submit(read, step + 1))
            yield step, result
