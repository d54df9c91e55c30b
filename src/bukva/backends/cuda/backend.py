"""The backend for GPUs: one launch for each update, and compiled losses if they save more time than they cost."""

import contextlib
import math
import sys
from collections.abc import Iterable, Iterator

import torch
from torch import Tensor

from bukva.backends.base import Backend, TrainingJob, Update
from bukva.backends.cuda.graph import CUDARecorder, GraphedUpdate, Recorder
from bukva.backends.group import Group
from bukva.models.base import Examples, LanguageModel

# On one H100, compiled losses saved 0.42 of 1.38 ms for an update of 4.9 GFLOP, and 9.06 of 15.7 ms for an update of
# 1.05 TFLOP (docs/scaling-method.md). These constants are the line through both points.
SAVED_SECONDS, SAVED_SECONDS_PER_FLOP = 0.38e-3, 8.3e-15
COMPILE_SECONDS = 20.0  # measured: 16 to 18; torch keeps the result in a cache on disk
FLOPS_PER_WEIGHT = 6  # per id: a multiplication and an addition in the forward pass, twice as many in the backward pass
MESSAGE_CHARS = 300  # longest quotation of an error; the compiler's errors fill pages


class CUDA(Backend):
    """The backend for GPUs."""

    def prepare_update(self, job: TrainingJob, update: Update, group: Group) -> Update:
        """Return an update that runs as one CUDA graph. With several processes, return `update` unchanged."""
        if group.size == 1:
            device = next(job.model.parameters()).device
            return RecordedUpdate(job, update, torch.cuda.default_generators[device.index], CUDARecorder(device))
        if group.is_leader:
            _say(f"training without a CUDA graph, because {group.size} processes train together.")
        return update


class RecordedUpdate:
    """An update that is recorded as a graph at the first batch, and falls back to the plain update on failure.

    A message on stderr reports the choice and the reason.
    """

    def __init__(self, job: TrainingJob, update: Update, generator: torch.Generator, recorder: Recorder) -> None:
        job.optimizer.make_capturable(generator.device)
        changed = [*job.model.parameters(), *job.optimizer.tensors()]
        self.job, self.plain = job, update
        self.graphed = GraphedUpdate(update, changed, generator, recorder)
        self.make: Update = self._first

    def __call__(self, batch: Iterable[Examples]) -> Tensor:
        """Update the model from one batch. Return (2,): the loss and the norm of the gradient."""
        return self.make(batch)

    def _first(self, batch: Iterable[Examples]) -> Tensor:
        examples = list(batch)
        self.make = self._record(examples)
        return self.make(examples)

    def _record(self, batch: list[Examples]) -> Update:
        """Record an update for batches of this shape, with compiled losses if they save time."""
        seconds = seconds_saved(self.job)
        how = f"without compiled losses (they would save {seconds:.0f} s, compiling takes {COMPILE_SECONDS:.0f} s)"
        if seconds > COMPILE_SECONDS:
            with compiled_losses(self.job.model):
                if error := self.graphed.warm_up(batch):
                    _say(f"compiling the losses failed: {_one_line(error)}")
                    how = "without compiled losses"
                else:
                    return self._capture("with compiled losses")
        if error := self.graphed.warm_up(batch):
            return self._fall_back(error)
        return self._capture(how)

    def _capture(self, how: str) -> Update:
        if error := self.graphed.capture():
            return self._fall_back(error)
        _say(f"each update is one CUDA graph, {how}.")
        return self.graphed

    def _fall_back(self, error: Exception) -> Update:
        if isinstance(error, torch.OutOfMemoryError):
            _say("training without a CUDA graph, because the GPU does not have enough memory for it.")
        else:
            _say(f"training without a CUDA graph, because recording the update failed: {_one_line(error)}")
        return self.plain


@contextlib.contextmanager
def compiled_losses(model: LanguageModel) -> Iterator[None]:
    """Compile the losses of a model with torch.compile while the block runs."""
    torch.compiler.reset()  # otherwise dynamo stops compiling a function after eight models
    model.__dict__["losses"] = torch.compile(model.losses, dynamic=False, fullgraph=True)
    try:
        yield
    finally:
        del model.__dict__["losses"]


def seconds_saved(job: TrainingJob) -> float:
    """Return the seconds that compiled losses save in the whole run, estimated from its size."""
    n_parameters = sum(parameter.numel() for parameter in job.model.parameters())
    flops = FLOPS_PER_WEIGHT * n_parameters * math.prod(job.batch_shape)
    return job.n_updates * (SAVED_SECONDS + SAVED_SECONDS_PER_FLOP * flops)


def _one_line(error: Exception) -> str:
    # the error at the end of a failed capture hides the error that caused the failure
    return " ".join(str(error.__context__ or error).split())[:MESSAGE_CHARS]


def _say(message: str) -> None:
    print(f"GPU: {message}", file=sys.stderr, flush=True)


BACKEND = CUDA()
