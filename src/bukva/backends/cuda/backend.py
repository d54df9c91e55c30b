"""The backend of GPUs: one launch for each update, and compiled losses where they pay."""

import contextlib
import math
import sys
from collections.abc import Iterable, Iterator

import torch
from torch import Tensor

from bukva.backends.base import Backend, Job, Update
from bukva.backends.cuda.graph import CUDARecorder, GraphedUpdate, Recorder
from bukva.backends.group import Group
from bukva.models.base import Examples, LanguageModel

# Compiled losses saved 0.42 of 1.38 ms for an update of 4.9 GFLOP, and 9.06 of 15.7 ms for one of 1.05 TFLOP, on one
# H100 (docs/scaling.md). This is the line through both.
SAVED_SECONDS, SAVED_SECONDS_PER_FLOP = 0.38e-3, 8.3e-15
COMPILE_SECONDS = 20.0  # measured: 16 to 18; torch keeps the result in a cache on disk
FLOPS_PER_WEIGHT = 6  # for each id: a multiplication and an addition in the forward pass, twice as many in the backward
MESSAGE_CHARS = 300  # of an error; the compiler's have pages


class CUDA(Backend):
    """The backend of GPUs."""

    def prepare_update(self, job: Job, update: Update, group: Group) -> Update:
        """Return the update as one CUDA graph. With several processes, return it unchanged."""
        if group.size == 1:
            device = next(job.model.parameters()).device
            return RecordedUpdate(job, update, torch.cuda.default_generators[device.index], CUDARecorder(device))
        if group.leads:
            _say(f"updates are launched kernel by kernel, because {group.size} processes train together.")
        return update


class RecordedUpdate:
    """Makes updates by a graph that is recorded at the first batch, or by the plain update where that fails.

    It prints which, and why.
    """

    def __init__(self, job: Job, update: Update, generator: torch.Generator, recorder: Recorder) -> None:
        job.optimizer.make_capturable(generator.device)
        changed = [*job.model.parameters(), *job.optimizer.tensors()]
        self.job, self.plain = job, update
        self.graphed = GraphedUpdate(update, changed, generator, recorder)
        self.make: Update = self._first

    def __call__(self, batch: Iterable[Examples]) -> Tensor:
        """Make the update of a batch; return (2,), the loss and the norm of the gradient."""
        return self.make(batch)

    def _first(self, batch: Iterable[Examples]) -> Tensor:
        examples = list(batch)
        self.make = self._recorded(examples)
        return self.make(examples)

    def _recorded(self, batch: list[Examples]) -> Update:
        """Record an update for batches of this shape, with compiled losses if they pay."""
        seconds = seconds_saved(self.job)
        how = f"without compiled losses (they would save {seconds:.0f} s and take {COMPILE_SECONDS:.0f} s)"
        if seconds > COMPILE_SECONDS:
            with compiled_losses(self.job.model):
                if error := self.graphed.warm_up(batch):
                    _say(f"losses cannot be compiled: {_one_line(error)}")
                    how = "without compiled losses"
                else:
                    return self._captured("with compiled losses")
        if error := self.graphed.warm_up(batch):
            return self._failed(error)
        return self._captured(how)

    def _captured(self, how: str) -> Update:
        if error := self.graphed.capture():
            return self._failed(error)
        _say(f"each update is one CUDA graph, {how}.")
        return self.graphed

    def _failed(self, error: Exception) -> Update:
        if isinstance(error, torch.OutOfMemoryError):
            _say("updates are launched kernel by kernel, because the memory is too small for a CUDA graph.")
        else:
            _say(f"updates are launched kernel by kernel, because they cannot be recorded: {_one_line(error)}")
        return self.plain


@contextlib.contextmanager
def compiled_losses(model: LanguageModel) -> Iterator[None]:
    """Compile the losses of a model by torch.compile while the block runs."""
    torch.compiler.reset()  # dynamo compiles a function for eight models at most
    model.__dict__["losses"] = torch.compile(model.losses, dynamic=False, fullgraph=True)
    try:
        yield
    finally:
        del model.__dict__["losses"]


def seconds_saved(job: Job) -> float:
    """Return the seconds that compiled losses save in the whole training, estimated from its size."""
    n_parameters = sum(parameter.numel() for parameter in job.model.parameters())
    flops = FLOPS_PER_WEIGHT * n_parameters * math.prod(job.batch_shape)
    return job.n_updates * (SAVED_SECONDS + SAVED_SECONDS_PER_FLOP * flops)


def _one_line(error: Exception) -> str:
    # an error that ends a capture hides the error that invalidated it
    return " ".join(str(error.__context__ or error).split())[:MESSAGE_CHARS]


def _say(what: str) -> None:
    print(f"GPU: {what}", file=sys.stderr, flush=True)


BACKEND = CUDA()
