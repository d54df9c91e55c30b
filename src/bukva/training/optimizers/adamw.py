"""Build AdamW (Loshchilov and Hutter 2019, "Decoupled weight decay regularization"), and combine several optimizers."""

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor, nn

from bukva.config.schema import Training
from bukva.models.base import LanguageModel

WEIGHT_COPIES = 4  # number of tensors of the size of the weights: weights, gradients, two moments


class Optimizers:
    """Several optimizers that step together.

    All state tensors exist before the first step, so that processes can share them. Parameters without a gradient are
    skipped.
    """

    def __init__(self, optimizers: Iterable[torch.optim.Optimizer]) -> None:
        self.optimizers = list(optimizers)
        self._rate: Tensor | None = None  # learning rate on the device, after `make_capturable`

    @property
    def param_groups(self) -> list[dict[str, Any]]:
        """Parameter groups of all optimizers."""
        return [group for optimizer in self.optimizers for group in optimizer.param_groups]

    def tensors(self) -> list[Tensor]:
        """Return the state tensors of all optimizers."""
        states = (state for optimizer in self.optimizers for state in optimizer.state.values())
        return [tensor for state in states for tensor in state.values()]

    def step(self) -> None:
        """Make one update with each optimizer."""
        for optimizer in self.optimizers:
            optimizer.step()

    def set_learning_rate(self, rate: float) -> None:
        """Set the learning rate for the next updates."""
        if self._rate is not None:
            self._rate.fill_(rate)
            return
        for group in self.param_groups:
            group["lr"] = rate

    def make_capturable(self, device: torch.device) -> None:
        """Keep the learning rate in a tensor on `device`, so that a captured CUDA graph reads the current rate."""
        self._rate = torch.zeros((), device=device)
        for group in self.param_groups:
            group["lr"] = self._rate
            if "capturable" in group:  # torch's optimizers raise an error when they are captured without it
                group["capturable"] = True

    def zero_grad(self) -> None:
        """Set all gradients to None."""
        for optimizer in self.optimizers:
            optimizer.zero_grad(set_to_none=True)

    def state_dict(self) -> list[dict[str, Any]]:
        """Return the state of each optimizer."""
        return [optimizer.state_dict() for optimizer in self.optimizers]

    def load_state_dict(self, saved: list[dict[str, Any]]) -> None:
        """Restore the state from `saved`, a result of `state_dict`."""
        for optimizer, state in zip(self.optimizers, saved, strict=True):
            optimizer.load_state_dict(state)
        if self._rate is not None:  # loading replaced the tensor in the groups
            self.make_capturable(self._rate.device)


def build(model: LanguageModel, recipe: Training, dtype: torch.dtype) -> Optimizers:  # noqa: ARG001 (for Muon)
    """Build AdamW for all parameters of a model."""
    return Optimizers([adamw(list(model.parameters()), recipe)])


def adamw(parameters: list[nn.Parameter], recipe: Training) -> torch.optim.Optimizer:
    """Build AdamW. It applies weight decay to matrices, but not to gains and biases."""
    matrices = [parameter for parameter in parameters if parameter.dim() >= 2]
    vectors = [parameter for parameter in parameters if parameter.dim() < 2]
    groups = [{"params": matrices, "weight_decay": recipe.weight_decay}, {"params": vectors, "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(
        [group for group in groups if group["params"]],
        lr=recipe.learning_rate,
        betas=(0.9, recipe.beta2),
        fused=True,
    )
    for parameter in parameters:
        moments = {name: torch.zeros_like(parameter) for name in ("exp_avg", "exp_avg_sq")}
        optimizer.state[parameter] = {"step": torch.zeros((), device=parameter.device), **moments}
    return optimizer
