"""Build the optimizer whose name is the value of `train_gpt.optimizer` in params.yaml."""

import torch

from bukva.core.schema import TrainGPT
from bukva.models.base import LanguageModel
from bukva.training.optimizers import adamw, muon
from bukva.training.optimizers.adamw import Optimizers

OPTIMIZERS = {"adamw": adamw.build, "muon": muon.build}


def build_optimizer(model: LanguageModel, recipe: TrainGPT, dtype: torch.dtype = torch.float32) -> Optimizers:
    """Build the optimizer `recipe.optimizer` for all parameters of `model`. Muon multiplies matrices in `dtype`."""
    return OPTIMIZERS[recipe.optimizer](model, recipe, dtype)
