"""The optimizers by name.

To add an optimizer, write a module with `build` and WEIGHT_COPIES and add it to OPTIMIZERS, whose keys are the values
of train_gpt.optimizer. A module is imported when its optimizer is used, so a stage depends only on the module that it
uses.
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
    """Build the optimizer that `recipe.optimizer` names. `dtype` is the precision of Muon's matrix products."""
    return cast("Optimizers", importlib.import_module(OPTIMIZERS[recipe.optimizer]).build(model, recipe, dtype))


def weight_copies(name: str) -> int:
    """Return the memory of a training with an optimizer in multiples of the weights: weights, gradients and moments."""
    return int(importlib.import_module(OPTIMIZERS[name]).WEIGHT_COPIES)
