"""Build optimizers by name.

To add an optimizer, write a module with `build` and WEIGHT_COPIES, and add the module to OPTIMIZERS. The keys of
OPTIMIZERS are the valid values of train_gpt.optimizer. A module is imported only when its optimizer is used, so a stage
depends only on the module that it uses.
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
    """Build the optimizer `recipe.optimizer`. `dtype` is the precision of Muon's matrix products."""
    return cast("Optimizers", importlib.import_module(OPTIMIZERS[recipe.optimizer]).build(model, recipe, dtype))


def weight_copies(name: str) -> int:
    """Return the memory of a training with optimizer `name`, as a multiple of the memory of the weights.

    The result counts the weights, their gradients, and the tensors of the optimizer's state.
    """
    return int(importlib.import_module(OPTIMIZERS[name]).WEIGHT_COPIES)
