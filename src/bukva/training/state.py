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
    """The loss, the gradient or a weight is NaN or infinite, or the train loss is far larger than at the start."""

    def __init__(self, step: int, learning_rate: float, what: str) -> None:
        super().__init__(f"the training diverged at step {step}, learning rate {learning_rate:.3g}: {what}")


@dataclass(frozen=True)
class Progress:
    """Progress of a training after update `step`. The losses are None unless val was scored after this update.

    chars_seen: number of characters in all batches so far.
    train_nats_per_char: mean training loss since the previous validation score; None before the first update.
    gradient_norm: norm of the gradient before clipping, as a mean over the same updates as `train_nats_per_char`.
    """

    step: int
    chars_seen: int
    learning_rate: float
    train_nats_per_char: float | None = None
    val_nats_per_char: float | None = None
    gradient_norm: float | None = None


class TrainState:
    """The state of a training, which is all that is needed to resume it.

    The order of the data, the learning rates and dropout depend only on the hyperparameters, the seed and the step.
    """

    SAVED = ("step", "sums", "updates", "best_step", "best_val", "best_weights", "samples", "numerics", "seconds")

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
        self.numerics: dict[str, str] = {}  # what backends have done that affects rounding (TrainingJob)
        self.seconds = 0.0  # time that the training has taken, which a callback may measure
        self.stop_requested = False  # set by a callback; the loop ends before the next update

    def weights(self) -> Tensors:
        """Return a copy of the model's weights on the CPU."""
        return {name: tensor.detach().cpu().clone() for name, tensor in self.model.state_dict().items()}

    def state_dict(self) -> dict[str, Any]:
        """Return the state for a checkpoint, as nested dictionaries and lists of tensors, numbers and strings."""
        return {name: getattr(self, name) for name in self.SAVED} | {
            "model": self.model.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "curve": [dataclasses.asdict(progress) for progress in self.curve],
        }

    def load_state_dict(self, saved: dict[str, Any]) -> None:
        """Restore the state from `saved`, a return value of `state_dict`."""
        self.model.load_state_dict(saved["model"])
        self.optimizer.load_state_dict(saved["optimizer"])
        for name in self.SAVED:
            setattr(self, name, saved[name])
        self.sums = self.sums.to(next(self.model.parameters()).device)
        self.curve = [Progress(**values) for values in saved["curve"]]

    def check_finite(self, learning_rate: float) -> None:
        """Raise DivergedError if the loss, the gradient or a weight is NaN or infinite."""
        for name, value in zip(("loss", "gradient"), self.sums.tolist(), strict=True):
            if not math.isfinite(value):
                raise DivergedError(self.step, learning_rate, f"the {name} is NaN or infinite")
        for name, tensor in self.model.state_dict().items():
            if not bool(torch.isfinite(tensor).all()):
                raise DivergedError(self.step, learning_rate, f"{name} is NaN or infinite")
