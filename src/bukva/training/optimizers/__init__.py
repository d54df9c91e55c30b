"""Build the optimizer whose name is the value of `train_gpt.optimizer` in params.yaml.

To add an optimizer, write a module that defines `build` (adamw.py is an example), and add it to `OPTIMIZERS`.
"""

import importlib
from typing import cast

import torch

from bukva.config.schema import TrainGPT
from bukva.models.base import LanguageModel
from bukva.training.optimizers.adamw import Optimizers

# module of each optimizer, by the name of the optimizer
OPTIMIZERS = {
    "adamw": "bukva.training.optimizers.adamw",
    "muon": "bukva.training.optimizers.muon",
}


def build_optimizer(model: LanguageModel, recipe: TrainGPT, dtype: torch.dtype = torch.float32) -> Optimizers:
    """Build the optimizer `recipe.optimizer` for all parameters of `model`.

    Muon computes its matrix products in precision `dtype`. AdamW ignores `dtype`.
    """
    return cast("Optimizers", importlib.import_module(OPTIMIZERS[recipe.optimizer]).build(model, recipe, dtype))
