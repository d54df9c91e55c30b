"""The optimizer: AdamW, decaying matrices only."""

import torch
from torch import nn

from bukva.params import Training


def build_optimizer(model: nn.Module, recipe: Training) -> torch.optim.Optimizer:
    """AdamW (Loshchilov and Hutter 2019) with decoupled weight decay on matrices; gains and biases are left alone."""
    matrices = [parameter for parameter in model.parameters() if parameter.dim() >= 2]
    vectors = [parameter for parameter in model.parameters() if parameter.dim() < 2]
    groups = [
        {"params": matrices, "weight_decay": recipe.weight_decay},
        {"params": vectors, "weight_decay": 0.0},
    ]
    return torch.optim.AdamW(
        [group for group in groups if group["params"]],
        lr=recipe.learning_rate,
        betas=(0.9, recipe.beta2),
        fused=True,
    )
