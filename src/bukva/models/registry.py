"""The models by name.

To add a model, write a module with a KIND and add it to MODELS. To train and score it, add a script
stages/train_NAME.py and a stage in dvc.yaml. A module is imported when its model is used.
"""

import importlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

import torch
from torch.overrides import TorchFunctionMode

from bukva.models.base import Config, LanguageModel, ModelKind

# name -> module
MODELS = {
    "bigram": "bukva.models.bigram",
    "gpt": "bukva.models.gpt",
}


def model_kind(name: str) -> ModelKind:
    """Return the classes of the model with this name.

    Raises:
        KeyError: no model has this name.
    """
    return cast("ModelKind", importlib.import_module(MODELS[name]).KIND)


def build(config: Config) -> LanguageModel:
    """Return a new model of this shape, initialized from torch's global generator."""
    return model_kind(config.name).build(config)


def build_empty(config: Config) -> LanguageModel:
    """Return a model of this shape on torch's meta device: names and shapes of tensors, but no memory."""
    with torch.device("meta"), _WithoutInitialValues():
        return build(config)


def count_parameters(config: Config) -> int:
    """Return the number of parameters of a model of this shape, where shared parameters count once."""
    return sum(parameter.numel() for parameter in build_empty(config).parameters())


class _WithoutInitialValues(TorchFunctionMode):
    """Skip torch.nn.init, which for tensors on the meta device imports torch's compiler and takes 2 to 3 seconds."""

    def __torch_function__(
        self, func: Callable[..., Any], _: Any, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        named = kwargs or {}
        if getattr(func, "__module__", None) == "torch.nn.init":
            return named["tensor"] if "tensor" in named else args[0]
        return func(*args, **named)
