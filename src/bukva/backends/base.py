"""The interface of backends. The base class is the plain backend, which replaces nothing."""

import contextlib
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple, Protocol

import torch
from torch import Tensor

from bukva.backends.group import ALONE, Group
from bukva.models.base import Examples, LanguageModel
from bukva.models.gpt import Stack

Update = Callable[[Iterable[Examples]], Tensor]  # micro-batches -> (2,), the loss and the norm of the gradient


class Optimizer(Protocol):
    """The part of an optimizer's interface that backends use."""

    def tensors(self) -> list[Tensor]:
        """Return the optimizer's states."""

    def make_capturable(self, device: torch.device) -> None:
        """Keep the learning rate in a tensor on the device."""


class Job(NamedTuple):
    """A training, as backends see it.

    model: the model that is trained.
    optimizer: its optimizer.
    batch_shape: B windows of T ids.
    n_updates: number of updates of the whole training, those before an interruption included.
    """

    model: LanguageModel
    optimizer: Optimizer
    batch_shape: tuple[int, int]
    n_updates: int


class Backend:
    """The plain backend: models as they are, one process that uses all cores or the GPU, updates kernel by kernel."""

    def stack(self, blocks: Stack) -> Stack:
        """Return the module that computes the blocks."""
        return blocks

    @contextlib.contextmanager
    def workers(self, job: Job, work: Callable[[Group], None]) -> Iterator[Group]:  # noqa: ARG002 (there are none)
        """Yield the group of processes that train; the plain backend trains in this process alone."""
        yield ALONE

    def prepare_update(self, job: Job, update: Update, group: Group) -> Update:  # noqa: ARG002
        """Return a function that makes the same updates as `update`."""
        return update
