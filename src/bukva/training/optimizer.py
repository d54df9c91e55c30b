"""The optimizer of a recipe: AdamW for everything, or Muon for the matrices of the blocks and AdamW for the rest."""

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor, nn

from bukva.params import Training
from bukva.training.muon import Muon

STACKED = {"qkv": 3}  # layers whose weights are several matrices, one below the other


class Optimizers:
    """Several optimizers that step as one."""

    def __init__(self, optimizers: Iterable[torch.optim.Optimizer]) -> None:
        self.optimizers = list(optimizers)

    @property
    def param_groups(self) -> list[dict[str, Any]]:
        """The groups of all."""
        return [group for optimizer in self.optimizers for group in optimizer.param_groups]

    def step(self) -> None:
        """One update by each."""
        for optimizer in self.optimizers:
            optimizer.step()

    def zero_grad(self) -> None:
        """Forget the gradients."""
        for optimizer in self.optimizers:
            optimizer.zero_grad(set_to_none=True)

    def state_dict(self) -> list[dict[str, Any]]:
        """The states of all, in their order."""
        return [optimizer.state_dict() for optimizer in self.optimizers]

    def load_state_dict(self, saved: list[dict[str, Any]]) -> None:
        """Go back to where `state_dict` was taken."""
        for optimizer, state in zip(self.optimizers, saved, strict=True):
            optimizer.load_state_dict(state)


def build_optimizer(model: nn.Module, recipe: Training, dtype: torch.dtype = torch.float32) -> Optimizers:
    """The optimizer that recipe.optimizer names; `dtype` is that of Muon's products.

    Muon is for matrices between hidden channels. Embeddings and the head, whose rows stand for characters, are AdamW's,
    as gains and biases are.
    """
    hidden: dict[str, list[Tensor]] = {}
    rest = []
    for name, parameter in model.named_parameters():
        if recipe.optimizer == "muon" and name.startswith("blocks.") and parameter.dim() == 2:
            hidden.setdefault(".".join(name.split(".")[2:-1]), []).append(parameter)  # by layer: one shape each
        else:
            rest.append(parameter)
    if not hidden:
        return Optimizers([_adamw(rest, recipe)])
    groups = [{"params": same, "parts": STACKED.get(layer.split(".")[-1], 1)} for layer, same in hidden.items()]
    return Optimizers([Muon(groups, recipe.learning_rate, recipe.weight_decay, dtype), _adamw(rest, recipe)])


def _adamw(parameters: list[Tensor], recipe: Training) -> torch.optim.Optimizer:
    """AdamW (Loshchilov and Hutter 2019) with decoupled weight decay on matrices; gains and biases are left alone."""
    groups = [
        {
            "params": [parameter for parameter in parameters if parameter.dim() >= 2],
            "weight_decay": recipe.weight_decay,
        },
        {"params": [parameter for parameter in parameters if parameter.dim() < 2], "weight_decay": 0.0},
    ]
    return torch.optim.AdamW(
        [group for group in groups if group["params"]],
        lr=recipe.learning_rate,
        betas=(0.9, recipe.beta2),
        fused=True,
    )
