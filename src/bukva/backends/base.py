"""What a backend may replace. The base class replaces nothing: it is the plain backend."""

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
    """What a backend needs of the optimizer."""

    def tensors(self) -> list[Tensor]:
        """Its states."""

    def make_capturable(self, device: torch.device) -> None:
        """Keep the learning rate in a tensor on the device."""


class Job(NamedTuple):
    """What a backend needs to know of a training.

    model: that is trained.
    optimizer: that updates it.
    batch_shape: B windows of T ids.
    n_updates: of the whole training, with those before an interruption.
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
        """Fork worker processes that run `work`, and yield the group of this process while they run."""
        yield ALONE

    def prepare_update(self, job: Job, update: Update, group: Group) -> Update:  # noqa: ARG002
        """Return a function that makes the same updates as `update`."""
        return update
