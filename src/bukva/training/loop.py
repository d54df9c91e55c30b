"""The training loop: a generator that owns no file, no tracker and no clock.

It yields after every update; who asks may print, log, save `state` or stop. All that the next update depends on is
in `TrainState` (weights, optimizer, step, running sums, best so far) and in the parameters: the data order, the
schedule and dropout are functions of the seed and the step.
"""

import dataclasses
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from bukva.compute import Machine, seed_step
from bukva.errors import BukvaError
from bukva.modelfolder import Model
from bukva.params import Training
from bukva.training.optimizer import Optimizers
from bukva.training.processes import ALONE, Group
from bukva.training.schedule import learning_rate
from bukva.training.windows import Batch, Windows, ahead

Weights = dict[str, Tensor]

EXPLODED = 10.0  # times the loss before the first update: on train, for val may rise by overfitting


class DivergedError(BukvaError):
    """The loss is no number any more, or so great that nothing of what was learned is left."""

    def __init__(self, step: int, rate: float, fault: str) -> None:
        super().__init__(f"the training diverged at step {step}, learning rate {rate:.3g}: {fault}")


@dataclass(frozen=True)
class Progress:
    """Where training stands after `step` updates; the losses are given when the val split was scored."""

    step: int
    chars_seen: int
    learning_rate: float
    train_nats_per_char: float | None = None  # mean over the updates since the last scoring
    val_nats_per_char: float | None = None
    best_val_nats_per_char: float | None = None


class TrainState:
    """All that training has come to: one object that can be saved and put back."""

    def __init__(self, model: Model, optimizer: Optimizers) -> None:
        self.model, self.optimizer = model, optimizer
        device = next(model.parameters()).device
        self.step = 0
        self.train_nats = torch.zeros((), dtype=torch.float64, device=device)  # summed since the last scoring
        self.updates = 0  # how many that sum is over
        self.best_step = 0
        self.best_val = math.inf
        self.best_weights = self.weights()
        self.scored: list[Progress] = []  # the scorings of val so far

    def weights(self) -> Weights:
        """The model's weights as they are now, on the CPU, safe from further updates."""
        return {name: tensor.detach().cpu().clone() for name, tensor in self.model.state_dict().items()}

    def state_dict(self) -> dict[str, Any]:
        """Everything, as tensors, numbers and dictionaries of them."""
        return {
            "model": self.model.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "step": self.step,
            "train_nats": self.train_nats,
            "updates": self.updates,
            "best_step": self.best_step,
            "best_val": self.best_val,
            "best_weights": self.best_weights,
            "scored": [dataclasses.asdict(progress) for progress in self.scored],
        }

    def fault(self) -> str:
        """What keeps this from being a state to go on from, or nothing."""
        if not bool(torch.isfinite(self.train_nats)):
            return "the loss is no number"
        broken = [name for name, tensor in self.model.state_dict().items() if not bool(torch.isfinite(tensor).all())]
        return f"{broken[0]} holds what is no number" if broken else ""

    def load_state_dict(self, saved: dict[str, Any]) -> None:
        """Go back to where `state_dict` was taken."""
        self.model.load_state_dict(saved["model"])
        self.optimizer.load_state_dict(saved["optimizer"])
        for name in ("step", "train_nats", "updates", "best_step", "best_val", "best_weights"):
            setattr(self, name, saved[name])
        self.train_nats = self.train_nats.to(next(self.model.parameters()).device)
        self.scored = [Progress(**values) for values in saved["scored"]]


def train(
    state: TrainState,
    windows: Windows,
    score_val: Callable[[], float],
    recipe: Training,
    machine: Machine,
    group: Group = ALONE,
) -> Iterator[Progress]:
    """Train up to recipe.n_steps, from wherever `state` stands, or until recipe.patience is at its end.

    The whole val split is scored before the first update, every eval_every updates and after the last; the weights
    with the best score are kept in `state.best_weights`.

    Args:
        state: changed in place, and consistent whenever this generator pauses.
        windows: gives the batch of each step.
        score_val: nats per character of the whole val split, by the model as it stands.
        recipe: the numbers.
        machine: device and precision of the updates.
        group: the processes that train together; each runs this with a state of its own, and all stay the same.

    Raises:
        DivergedError: the loss is no longer a number, or has exploded.
    """
    if not state.scored:
        yield _score(state, windows, score_val, 0.0)
    state.model.train()
    steps = range(state.step + 1, recipe.n_steps + 1)
    batches = ahead(lambda step: windows.share(step, group.rank, group.size), steps)
    for step, batch in zip(steps, batches, strict=True):
        if _out_of_patience(state, recipe):
            return
        rate = learning_rate(step, recipe)
        seed_step(recipe.seed, step, group.rank)
        state.train_nats += update(state, batch, rate, recipe, machine, group)
        state.updates += 1
        state.step = step
        if step % recipe.eval_every == 0 or step == recipe.n_steps:
            yield _score(state, windows, score_val, rate)
        else:
            yield Progress(step, step * windows.chars_per_step, rate)


def update(
    state: TrainState, batch: Batch, rate: float, recipe: Training, machine: Machine, group: Group = ALONE
) -> Tensor:
    """One optimizer update on this process's share of a batch; returns the whole batch's mean nats per character.

    The mean stays on the device, in float64: to ask for it would have the processor wait for a GPU.
    """
    state.optimizer.zero_grad()
    nats = torch.zeros((), device=machine.device)
    for x, y in zip(*(part.to(machine.device).chunk(recipe.micro_batches) for part in batch), strict=True):
        with machine.autocast():
            logits = state.model(x)  # (B, T, V)
        part = F.cross_entropy(logits.flatten(0, 1).float(), y.flatten()) / recipe.micro_batches
        part.backward()  # adds to the gradients
        nats += part.detach()
    nats = group.average_gradients(list(state.model.parameters()), nats)
    if recipe.grad_clip:
        nn.utils.clip_grad_norm_(state.model.parameters(), recipe.grad_clip)
    for settings in state.optimizer.param_groups:
        settings["lr"] = rate
    state.optimizer.step()
    return nats.double()


def _out_of_patience(state: TrainState, recipe: Training) -> bool:
    """Whether the last recipe.patience scorings of val were no better than one before them."""
    return bool(recipe.patience) and state.step - state.best_step >= recipe.patience * recipe.eval_every


def _score(state: TrainState, windows: Windows, score_val: Callable[[], float], rate: float) -> Progress:
    val = score_val()
    train = float(state.train_nats) / state.updates if state.updates else None
    at_start = state.scored[0].val_nats_per_char if state.scored else None  # as high as that of train
    if not math.isfinite(val) or (train is not None and not math.isfinite(train)):
        raise DivergedError(state.step, rate, f"the loss is no number (train {train}, val {val} nats per character)")
    if train and at_start and train > EXPLODED * at_start:
        raise DivergedError(state.step, rate, f"train is {train:.4g} nats per character, and was {at_start:.4g}")
    if val < state.best_val:
        state.best_val, state.best_step, state.best_weights = val, state.step, state.weights()
    state.train_nats, state.updates = torch.zeros_like(state.train_nats), 0
    state.scored.append(Progress(state.step, state.step * windows.chars_per_step, rate, train, val, state.best_val))
    return state.scored[-1]
