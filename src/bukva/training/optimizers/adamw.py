"""The optimizer AdamW (Loshchilov and Hutter 2019), and `Optimizers`, which combines several optimizers."""

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor, nn

from bukva.core.schema import TrainGPT
from bukva.models.base import LanguageModel


class Uncompiled(torch.optim.Optimizer):
    """An optimizer of torch, without the decorators whose first call imports torch's compiler (1 s)."""

    add_param_group = torch.optim.Optimizer.add_param_group.__wrapped__
    state_dict = torch.optim.Optimizer.state_dict.__wrapped__
    load_state_dict = torch.optim.Optimizer.load_state_dict.__wrapped__


class AdamW(Uncompiled, torch.optim.AdamW):
    """The AdamW of torch."""

    step = torch.no_grad()(torch.optim.AdamW.step.__wrapped__)


class Optimizers:
    """Several optimizers that the training loop uses like a single one.

    All state tensors exist before the first step, so that several processes can share them. A step skips parameters
    that have no gradient.
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
        """Update the parameters once."""
        for optimizer in self.optimizers:
            optimizer.step()

    def set_learning_rate(self, rate: float) -> None:
        """Set the learning rate of the next updates."""
        if self._rate is not None:
            self._rate.fill_(rate)
            return
        for group in self.param_groups:
            group["lr"] = rate

    def make_capturable(self, device: torch.device) -> None:
        """Store the learning rate in a tensor on `device`, from which a CUDA graph reads it in each replay."""
        self._rate = torch.zeros((), device=device)
        for group in self.param_groups:
            group["lr"] = self._rate
            if "capturable" in group:  # without this flag, torch's optimizers raise an error during capture
                group["capturable"] = True

    def state_dict(self) -> list[dict[str, Any]]:
        """Return the states of all optimizers for a checkpoint."""
        return [optimizer.state_dict() for optimizer in self.optimizers]

    def load_state_dict(self, saved: list[dict[str, Any]]) -> None:
        """Restore all optimizers from `saved`, a return value of `state_dict`."""
        for optimizer, state in zip(self.optimizers, saved, strict=True):
            optimizer.load_state_dict(state)
        if self._rate is not None:  # loading replaced the tensor in the groups
            self.make_capturable(self._rate.device)


def build(model: LanguageModel, recipe: TrainGPT, _: torch.dtype) -> Optimizers:
    """Build AdamW for all parameters of a model."""
    return Optimizers([adamw(list(model.parameters()), recipe)])


def adamw(parameters: list[nn.Parameter], recipe: TrainGPT) -> torch.optim.Optimizer:
    """Build AdamW for `parameters`. Weight decay applies to matrices, but not to vectors (gains and biases)."""
    matrices = [parameter for parameter in parameters if parameter.dim() >= 2]
    vectors = [parameter for parameter in parameters if parameter.dim() < 2]
    groups = [{"params": matrices, "weight_decay": recipe.weight_decay}, {"params": vectors, "weight_decay": 0.0}]
    optimizer = AdamW(
        [group for group in groups if group["params"]],
        lr=recipe.learning_rate,
        betas=(0.9, recipe.beta2),
        fused=True,
    )
    for parameter in parameters:
        moments = {name: torch.zeros_like(parameter) for name in ("exp_avg", "exp_avg_sq")}
        optimizer.state[parameter] = {"step": torch.zeros((), device=parameter.device), **moments}
    return optimizer
