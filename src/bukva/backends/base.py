"""The interface of backends. The base class `Backend` is the plain backend, which changes nothing."""

import contextlib
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple, Protocol

import torch
from torch import Tensor

from bukva.backends.group import ALONE, Group
from bukva.models.base import Batch, LanguageModel
from bukva.models.gpt import Block

# makes one update from the micro-batches of a batch; returns a (2,) tensor with the loss and the gradient norm
Update = Callable[[Iterable[Batch]], Tensor]


class Optimizer(Protocol):
    """The part of `Optimizers` (bukva.training) that backends use."""

    optimizers: list[torch.optim.Optimizer]

    def tensors(self) -> list[Tensor]: ...

    def make_capturable(self, device: torch.device) -> None: ...


class TrainingJob(NamedTuple):
    """Information about a training run for its backend.

    batch_shape: number of windows in a batch, and number of ids in a window.
    n_updates: number of updates in the whole run, including updates before an interruption.
    numerics: facts that affect rounding and are not in `Machine.numerics`. Backends add them; checkpoints keep them.
    """

    model: LanguageModel
    optimizer: Optimizer
    batch_shape: tuple[int, int]
    n_updates: int
    numerics: dict[str, str]


class Backend:
    """The plain backend, which runs models and updates unchanged in a single process on all CPU cores or the GPU."""

    @property
    def block(self) -> type[Block]:
        """Class of the transformer blocks of a GPT, with the layers and the results of `Block`."""
        return Block

    @contextlib.contextmanager
    def workers(self, job: TrainingJob, work: Callable[[Group], None]) -> Iterator[Group]:  # noqa: ARG002
        """Start worker processes, each of which calls `work` with its own `Group` object, and yield that of rank 0."""
        yield ALONE

    def prepare_update(self, job: TrainingJob, update: Update, group: Group) -> Update:  # noqa: ARG002
        """Return a faster function with the same result as `update`."""
        return update
