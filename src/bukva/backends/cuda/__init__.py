"""Run each update on a GPU as one CUDA graph, and compile the loss function if that saves time."""

import contextlib
import math
import sys
from collections.abc import Iterable, Iterator
from typing import Any

import torch
from torch import Tensor

from bukva.backends.base import Backend, TrainingJob, Update
from bukva.backends.cuda.embedding import use_products
from bukva.backends.cuda.graph import CUDARecorder, GraphedUpdate
from bukva.backends.group import Group
from bukva.models.base import Batch

# On one H100, a compiled loss function saved 0.42 of 1.38 ms for an update of 4.9 GFLOP, and 9.06 of 15.7 ms for an
# update of 1.05 TFLOP (docs/scaling-method.md). The saved time is assumed to be linear in the FLOPs of an update.
SAVED_SECONDS, SAVED_SECONDS_PER_FLOP = 0.38e-3, 8.3e-15
COMPILE_SECONDS = 20.0  # measured: 16 to 18; torch keeps the result in a cache on disk
FLOPS_PER_WEIGHT = 6  # per id: a multiplication and an addition in the forward pass, twice as many in the backward pass
# The compiler otherwise sums the gradients of a norm's gains in the kernel that computes the gradients of its input. On
# one H100 this took 1.07 instead of 0.55 of the 7.5 ms of an update of 10.7 million parameters (docs/dev/log.md).
COMPILER: dict[str, str | int | bool] = {"triton.mix_order_reduction": False}
NOT_COMPILED = "not compiled"  # value of `losses` in numerics.json
MESSAGE_CHARS = 300  # quoted errors are cut to this length, because an error of the compiler can fill pages


class CUDA(Backend):
    """Backend that captures a whole update as one CUDA graph, and replays the graph for every batch."""

    def prepare_update(self, job: TrainingJob, update: Update, group: Group) -> Update:
        """Return a function that runs `update` as one CUDA graph. With several processes, return `update` itself."""
        if group.size == 1:
            device = next(job.model.parameters()).device
            return RecordedUpdate(job, update, torch.cuda.default_generators[device.index], CUDARecorder(device))
        if group.is_leader:
            _say(f"Training runs without a CUDA graph, because {group.size} processes train together.")
        return update


class RecordedUpdate:
    """Update function that captures a CUDA graph when it gets the first batch, and replays the graph for every batch.

    If the capture fails, the plain `update` is called for every batch. A message on stderr says whether a graph is
    used, and why.
    """

    def __init__(self, job: TrainingJob, update: Update, generator: torch.Generator, recorder: CUDARecorder) -> None:
        job.optimizer.make_capturable(generator.device)
        use_products(job.model)
        changed = [*job.model.parameters(), *job.optimizer.tensors()]
        self.job, self.plain = job, update
        self.graphed = GraphedUpdate(update, changed, generator, recorder)
        self.make: Update | None = None

    def __call__(self, batch: Iterable[Batch]) -> Tensor:
        if self.make is None:
            batch = list(batch)
            self.make = self._record(batch)
        return self.make(batch)

    def _record(self, batch: list[Batch]) -> Update:
        """Capture an update as a CUDA graph, and return it, or the plain update if that fails."""
        seconds = seconds_saved(self.job)
        how = (
            "without a compiled loss function, because compiling takes "
            f"{COMPILE_SECONDS:.0f} s and would save {seconds:.0f} s"
        )
        if seconds > COMPILE_SECONDS:
            with compiling(self.job):
                if not (error := self.graphed.warm_up(batch)):
                    return self._capture("with a compiled loss function", "compiled")
                _say(f"The loss function could not be compiled. Reason: {_one_line(error)}")
            how = "without a compiled loss function"
        error = self.graphed.warm_up(batch)
        return self._fall_back(error) if error else self._capture(how, NOT_COMPILED)

    def _capture(self, how: str, losses: str) -> Update:
        if error := self.graphed.capture():
            return self._fall_back(error)
        self._note(losses)
        _say(f"Each update runs as one CUDA graph, {how}.")
        return self.graphed

    def _note(self, losses: str) -> None:
        if self.job.numerics.setdefault("losses", losses) != losses:
            self.job.numerics["losses"] = "compiled for some updates"  # the run was resumed, and compiling failed

    def _fall_back(self, error: Exception) -> Update:
        self._note(NOT_COMPILED)
        why = f"the update could not be captured. Reason: {_one_line(error)}"
        if isinstance(error, torch.OutOfMemoryError):
            why = "the GPU does not have enough memory for a graph."
        _say(f"Training runs without a CUDA graph, because {why}")
        return self.plain


@contextlib.contextmanager
def compiling(job: TrainingJob) -> Iterator[None]:
    """Compile the loss function and Muon's update with torch.compile, until the with block ends."""
    torch.compiler.reset()  # otherwise torch.compile stops compiling a function after eight models
    muon = [optimizer for optimizer in job.optimizer.optimizers if hasattr(optimizer, "update")]
    owners: list[tuple[Any, str]] = [(job.model, "loss"), *((optimizer, "update") for optimizer in muon)]
    for owner, name in owners:
        function = getattr(owner, name)
        owner.__dict__[name] = torch.compile(function, dynamic=False, fullgraph=True, options=COMPILER)
    try:
        yield
    finally:
        for owner, name in owners:
            del owner.__dict__[name]


def seconds_saved(job: TrainingJob) -> float:
    """Estimate how many seconds a compiled loss function saves in the whole run. Compile time is not subtracted."""
    n_parameters = sum(parameter.numel() for parameter in job.model.parameters())
    flops = FLOPS_PER_WEIGHT * n_parameters * math.prod(job.batch_shape)
    return job.n_updates * (SAVED_SECONDS + SAVED_SECONDS_PER_FLOP * flops)


def _one_line(error: Exception) -> str:
    # after a failed capture, torch raises a second error, and its __context__ is the error that caused the failure
    return " ".join(str(error.__context__ or error).split())[:MESSAGE_CHARS]


def _say(message: str) -> None:
    print(f"GPU: {message}", file=sys.stderr, flush=True)


BACKEND = CUDA()
