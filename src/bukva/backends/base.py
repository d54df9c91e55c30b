"""Define the interface of backends. The base class `Backend` is the plain backend, which changes nothing."""

import contextlib
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple, Protocol

import torch
from torch import Tensor

from bukva.backends.group import ALONE, Group
from bukva.models.base import Examples, LanguageModel
from bukva.models.gpt import Stack

Update = Callable[[Iterable[Examples]], Tensor]  # micro-batches of one batch -> (2,): loss and gradient norm


class Optimizer(Protocol):
    """The methods of an optimizer that backends call."""

    def tensors(self) -> list[Tensor]:
        """Return all tensors of the optimizer's state."""

    def make_capturable(self, device: torch.device) -> None:
        """Keep the learning rate in a tensor on `device`, so that a captured CUDA graph reads its current value."""


class TrainingJob(NamedTuple):
    """The facts about a training run that backends need.

    model: the model to train.
    optimizer: the optimizer of the model.
    batch_shape: (B, T), for a batch of B windows of T ids.
    n_updates: number of updates in the whole run, including updates before an interruption.
    """

    model: LanguageModel
    optimizer: Optimizer
    batch_shape: tuple[int, int]
    n_updates: int


class Backend:
    """The plain backend. It runs models and updates unchanged, in one process that uses all cores or the GPU."""

    def stack(self, blocks: Stack) -> Stack:
        """Return a module that computes the same as `blocks`. The plain backend returns `blocks` itself."""
        return blocks

    @contextlib.contextmanager
    def workers(self, job: TrainingJob, work: Callable[[Group], None]) -> Iterator[Group]:  # noqa: ARG002
        """Start worker processes, and yield the group that consists of this process and the workers.

        Each worker calls `work` with its own view of the group. The plain backend starts no worker.
        """
        yield ALONE

    def prepare_update(self, job: TrainingJob, update: Update, group: Group) -> Update:  # noqa: ARG002
        """Return a function that makes the same updates as `update`. The plain backend returns `update` itself."""
        return update
