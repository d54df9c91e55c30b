"""The optimizers by name.

An optimizer is a module with `build` and WEIGHT_COPIES, and a line in OPTIMIZERS, which is also the list of values of
train_gpt.optimizer. A module is imported when its optimizer is chosen, so a stage depends on that one only.
"""

import importlib
from typing import cast

import torch

from bukva.config.schema import Training
from bukva.models.base import LanguageModel
from bukva.training.optimizers.adamw import Optimizers

# name -> module
OPTIMIZERS = {
    "adamw": "bukva.training.optimizers.adamw",
    "muon": "bukva.training.optimizers.muon",
}


def build_optimizer(model: LanguageModel, recipe: Training, dtype: torch.dtype = torch.float32) -> Optimizers:
    """The optimizer that recipe.optimizer names; `dtype` is that of Muon's products."""
    return cast("Optimizers", importlib.import_module(OPTIMIZERS[recipe.optimizer]).build(model, recipe, dtype))


def weight_copies(name: str) -> int:
    """How many tensors of the size of the weights an optimizer holds: weights, gradients and moments."""
    return int(importlib.import_module(OPTIMIZERS[name]).WEIGHT_COPIES)
