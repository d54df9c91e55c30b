"""AdamW for all parameters (Loshchilov and Hutter 2019, "Decoupled weight decay regularization")."""

import torch
from torch import nn

from bukva.config.schema import Training
from bukva.models.base import LanguageModel
from bukva.training.optimizers.several import Optimizers

WEIGHT_COPIES = 4  # weights, gradients, two moments


def build(model: LanguageModel, recipe: Training, dtype: torch.dtype) -> Optimizers:  # noqa: ARG001 (for optimizers that multiply matrices)
    """AdamW for the whole model."""
    return Optimizers([adamw(list(model.parameters()), recipe)])


def adamw(parameters: list[nn.Parameter], recipe: Training) -> torch.optim.Optimizer:
    """AdamW with decoupled weight decay on matrices; gains and biases are not decayed."""
    matrices = [parameter for parameter in parameters if parameter.dim() >= 2]
    vectors = [parameter for parameter in parameters if parameter.dim() < 2]
    groups = [{"params": matrices, "weight_decay": recipe.weight_decay}, {"params": vectors, "weight_decay": 0.0}]
    return torch.optim.AdamW(
        [group for group in groups if group["params"]],
        lr=recipe.learning_rate,
        betas=(0.9, recipe.beta2),
        fused=True,
    )
