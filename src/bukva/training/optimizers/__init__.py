"""Build the optimizer that `train_gpt.optimizer` of params.yaml names. Each has a module of its name."""

from importlib import import_module

import torch

from bukva.core.schema import OPTIMIZERS, TrainGPT
from bukva.models.base import LanguageModel
from bukva.training.optimizers.adamw import Optimizers

BUILD = {name: import_module(f"{__name__}.{name}").build for name in OPTIMIZERS}


def build_optimizer(model: LanguageModel, recipe: TrainGPT, dtype: torch.dtype = torch.float32) -> Optimizers:
    """Build the optimizer `recipe.optimizer` for all parameters of `model`. Muon multiplies matrices in `dtype`."""
    optimizers: Optimizers = BUILD[recipe.optimizer](model, recipe, dtype)
    return optimizers
