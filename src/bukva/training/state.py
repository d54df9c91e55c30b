"""The state of a training, which checkpoints save and restore."""

import dataclasses
import math
from dataclasses import dataclass
from typing import Any

import torch

from bukva.core.errors import BukvaError
from bukva.models.base import LanguageModel, Tensors
from bukva.training.optimizers.adamw import Optimizers


class DivergedError(BukvaError):
    """The loss or a weight is NaN or infinite, or the train loss has exploded."""

    def __init__(self, step: int, learning_rate: float, what: str) -> None:
        super().__init__(f"the training diverged at step {step}, learning rate {learning_rate:.3g}: {what}")


@dataclass(frozen=True)
class Progress:
    """The progress of a training after `step` updates.

    The losses and the gradient norm are None unless val was scored after update `step`.

    train_nats_per_char, gradient_norm: means over the updates since val was last scored. None before the first update.
        The norm is the norm of the gradient of all parameters before clipping.
    """

    step: int
    chars_seen: int
    learning_rate: float
    train_nats_per_char: float | None = None
    val_nats_per_char: float | None = None
    best_val_nats_per_char: float | None = None
    gradient_norm: float | None = None


class TrainState:
    """The state that a checkpoint contains: model, optimizer, step, running sums, best weights and loss curve.

    A training needs no other state to continue. The order of the data, the learning rate and dropout depend only on the
    hyperparameters, the seed and the step.
    """

    def __init__(self, model: LanguageModel, optimizer: Optimizers) -> None:
        self.model, self.optimizer = model, optimizer
        device = next(model.parameters()).device
        self.step = 0
        # sums of the train losses (nats per id) and of the gradient norms since val was last scored
        self.sums = torch.zeros(2, dtype=torch.float64, device=device)
        self.updates = 0  # number of updates since val was last scored
        self.best_step = 0
        self.best_val = math.inf
        self.best_weights = self.weights()
        self.curve: list[Progress] = []  # one point for each time that val was scored
        self.samples: list[str] = []  # texts that a callback may generate when val is scored
        self.stop_requested = False  # set by a callback; the loop ends before the next update

    def weights(self) -> Tensors:
        """Return a copy of the model's weights on the CPU."""
        return {name: tensor.detach().cpu().clone() for name, tensor in self.model.state_dict().items()}

    def state_dict(self) -> dict[str, Any]:
        """Return the whole state as nested dictionaries and lists of tensors, numbers and strings."""
        return {
            "model": self.model.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "step": self.step,
            "sums": self.sums,
            "updates": self.updates,
            "best_step": self.best_step,
            "best_val": self.best_val,
            "best_weights": self.best_weights,
            "curve": [dataclasses.asdict(progress) for progress in self.curve],
            "samples": self.samples,
        }

    def load_state_dict(self, saved: dict[str, Any]) -> None:
        """Restore the state from `saved`, a result of `state_dict`."""
        self.model.load_state_dict(saved["model"])
        self.optimizer.load_state_dict(saved["optimizer"])
        for name in ("step", "sums", "updates", "best_step", "best_val", "best_weights", "samples"):
            setattr(self, name, saved[name])
        self.sums = self.sums.to(next(self.model.parameters()).device)
        self.curve = [Progress(**values) for values in saved["curve"]]

    def check_finite(self, learning_rate: float) -> None:
        """Check that no value is NaN or infinite, before the state replaces a good checkpoint.

        Raises:
            DivergedError: the loss, the gradient or a weight is NaN or infinite. The message gives `learning_rate`.
        """
        for name, value in zip(("loss", "gradient"), self.sums.tolist(), strict=True):
            if not math.isfinite(value):
                raise DivergedError(self.step, learning_rate, f"the {name} is NaN or infinite")
        for name, tensor in self.model.state_dict().items():
            if not bool(torch.isfinite(tensor).all()):
                raise DivergedError(self.step, learning_rate, f"{name} is NaN or infinite")
