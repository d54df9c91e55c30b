"""Find the classes of a model by its name, and build models.

To add a model, write a module that defines KIND, a `ModelKind`, and add the module to MODELS. To train and score the
model, add a script stages/train_NAME.py and a stage in dvc.yaml. A module is imported only when its model is used.
"""

import importlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

import torch
from torch.overrides import TorchFunctionMode

from bukva.models.base import Config, LanguageModel, ModelKind

# module of each model, by name of the model
MODELS = {
    "bigram": "bukva.models.bigram",
    "gpt": "bukva.models.gpt",
}


def model_kind(name: str) -> ModelKind:
    """Return the classes of the model with the name `name`.

    Raises:
        KeyError: MODELS does not contain `name`.
    """
    return cast("ModelKind", importlib.import_module(MODELS[name]).KIND)


def build(config: Config) -> LanguageModel:
    """Return a new model. Its initial weights are drawn from torch's global random generator."""
    return model_kind(config.name).build(config)


def build_empty(config: Config) -> LanguageModel:
    """Return a model on torch's meta device. Its tensors have shapes, but no values, and they take no memory."""
    with torch.device("meta"), _WithoutInitialValues():
        return build(config)


def count_parameters(config: Config) -> int:
    """Return the number of parameters of a model with this config. Tied weights count once."""
    return sum(parameter.numel() for parameter in build_empty(config).parameters())


class _WithoutInitialValues(TorchFunctionMode):
    """Context in which the functions of torch.nn.init do nothing.

    On the meta device, they would import torch's compiler, which takes 2 to 3 seconds.
    """

    def __torch_function__(
        self, func: Callable[..., Any], _: Any, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        named = kwargs or {}
        if getattr(func, "__module__", None) == "torch.nn.init":
            return named["tensor"] if "tensor" in named else args[0]
        return func(*args, **named)
