"""A training that can be ended at any instant, and goes on where it was."""

import math
import sys
import time
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from bukva.errors import BukvaError
from bukva.training.checkpoint import Checkpoints, unpack
from bukva.training.interruption import Interruption
from bukva.training.loop import DivergedError, Progress, TrainState
from bukva.training.processes import ALONE, Group


def resume(state: TrainState, checkpoints: Checkpoints, group: Group = ALONE) -> None:
    """Put a state, as it starts, to where the last checkpoint left off; who leads a group tells the others, and us."""
    content = group.told(checkpoints.last(lambda saved: _misfit(saved, state)) if group.leads else b"")
    if content:
        state.load_state_dict(unpack(content))
    if group.leads:
        said = f"resumed at step {state.step}" if content else f"from the start: {checkpoints.why_none()}"
        print(said, file=sys.stderr, flush=True)


def saving(
    updates: Iterator[Progress], state: TrainState, checkpoints: Checkpoints, asked: Interruption
) -> Iterator[Progress]:
    """The updates of a training, with a checkpoint at its start, at its end, and every so many seconds between.

    The last one stays until DVC has the result (bukva.training.leftovers).

    Args:
        updates: of the training loop.
        state: what it changes.
        checkpoints: where that goes.
        asked: whether to end; then the update at hand is finished and saved first.

    Raises:
        SystemExit: 130 or 143, when SIGINT or SIGTERM asked for it.
        BukvaError: the training diverged; what was saved before is kept.
    """
    saved_at = -math.inf if checkpoints.step is None else time.monotonic()
    try:
        for progress in updates:
            yield progress
            ends = asked.signal
            if ends or time.monotonic() - saved_at >= checkpoints.seconds:
                _save(state, progress, checkpoints)
                saved_at = time.monotonic()
            if ends:
                saved = "is saved: the same command goes on" if checkpoints.step == progress.step else "is not saved"
                print(f"interrupted after step {progress.step}, which {saved}", file=sys.stderr, flush=True)
                asked.leave()
    except DivergedError as error:
        kept = f"the last good checkpoint, of step {checkpoints.step}, has the best weights, of step {state.best_step}"
        kept = "there is no checkpoint" if checkpoints.step is None else kept
        raise BukvaError(f"{error}; {kept}; a smaller learning_rate or more warmup_steps would do.") from None
    if checkpoints.step != state.step:
        checkpoints.save(state.step, state.state_dict())


def _save(state: TrainState, progress: Progress, checkpoints: Checkpoints) -> None:
    """Write a checkpoint of a state that is one: a loss that is no number must not replace the good ones."""
    if fault := state.fault():
        raise DivergedError(progress.step, progress.learning_rate, fault)
    checkpoints.save(progress.step, state.state_dict())


def _misfit(saved: Any, state: TrainState) -> str:
    """What keeps this from being a saved state of this training, or nothing: it may come from anybody."""
    wanted = state.state_dict()
    if saved.keys() != wanted.keys():
        return f"it has {', '.join(map(str, saved))}"
    for part in ("model", "best_weights"):
        for name in sorted(wanted[part].keys() | saved[part].keys()):
            found, fitting = _described(saved[part].get(name)), _described(wanted[part].get(name))
            if found != fitting:
                return f"{part}, {name}: {found}, not {fitting}"
    for name in ("step", "updates", "best_step", "best_val"):
        if not isinstance(saved[name], int | float):
            return f"{name}: {type(saved[name]).__name__}"
    [Progress(**values) for values in saved["scored"]]
    return _misfit_of_optimizers(saved["optimizer"], state)


def _misfit_of_optimizers(saved: list[dict[str, Any]], state: TrainState) -> str:
    for found, optimizer in zip(saved, state.optimizer.optimizers, strict=True):
        parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
        groups = [group["params"] for group in optimizer.state_dict()["param_groups"]]
        if [group["params"] for group in found["param_groups"]] != groups:
            return "optimizer: other groups of parameters"
        for index, values in found["state"].items():
            for name, value in values.items():
                if isinstance(value, Tensor) and value.shape not in (torch.Size(), parameters[index].shape):
                    return f"optimizer, {name} of parameter {index}: {_described(value)}"
    return ""


def _described(tensor: Any) -> str:
    return f"{tensor.dtype} {tuple(tensor.shape)}" if isinstance(tensor, Tensor) else type(tensor).__name__
