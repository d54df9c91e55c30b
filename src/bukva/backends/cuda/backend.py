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


class CUDA(Backend):
    """The backend of GPUs."""

    def prepare_update(self, job: Job, update: Update, group: Group) -> Update:
        """Return the update as one CUDA graph, or as it is where several processes train, with a line that says which.

        A batch that cannot be recorded, and whatever the compiler does not support, falls back to the plain update.
        """
        if group.size > 1:
            _say(f"updates are launched kernel by kernel, because {group.size} processes train together.")
            return update
        device = next(job.model.parameters()).device
        return prepare(job, update, torch.cuda.default_generators[device.index], CUDARecorder(device))


def prepare(job: Job, update: Update, generator: torch.Generator, recorder: Recorder) -> Update:
    """Return an update that is recorded at its first batch, and falls back to `update` if that fails."""
    device = generator.device
    changed = [*job.model.parameters(), *job.optimizer.tensors()]
    job.optimizer.make_capturable(device)
    seconds = seconds_saved(job)
    compiles = seconds > COMPILE_SECONDS
    uncompiled = f"without compiled losses (they would save {seconds:.0f} s and take {COMPILE_SECONDS:.0f} s)."
    chosen: list[Update] = []

    def first(batch: Iterable[Examples]) -> Tensor:
        examples = list(batch)
        for is_compiled in (True, False) if compiles else (False,):
            graphed = GraphedUpdate(update, changed, generator, recorder)
            try:
                with compiled_losses(job.model, is_active=is_compiled):
                    result = graphed(examples)
            except Exception as error:
                what = "compiled" if is_compiled else "recorded as one CUDA graph, and are launched kernel by kernel"
                _say(f"updates cannot be {what}: {' '.join(str(error).split())[:300]}")
            else:
                _say("each update is one CUDA graph, " + ("with compiled losses." if is_compiled else uncompiled))
                chosen.append(graphed)
                return result
        chosen.append(update)
        return update(examples)

    return lambda batch: chosen[0](batch) if chosen else first(batch)


@contextlib.contextmanager
def compiled_losses(model: LanguageModel, *, is_active: bool) -> Iterator[None]:
    """Compile the losses of a model by torch.compile while the block runs, if is_active."""
    if not is_active:
        yield
        return
    import torch._inductor.config as inductor

    inductor.deterministic = True  # choose kernels by rules instead of by timing them
    model.__dict__["losses"] = torch.compile(model.losses, dynamic=False)
    try:
        yield
    finally:
        del model.__dict__["losses"]


def seconds_saved(job: Job) -> float:
    """Return the seconds that compiled losses save in the whole training, estimated from its size."""
    n_parameters = sum(parameter.numel() for parameter in job.model.parameters())
    flops = FLOPS_PER_WEIGHT * n_parameters * math.prod(job.batch_shape)
    return job.n_updates * (SAVED_SECONDS + SAVED_SECONDS_PER_FLOP * flops)


def _say(what: str) -> None:
    print(f"GPU: {what}", file=sys.stderr, flush=True)


BACKEND = CUDA()
