"""The models by name.

A model is a module with a KIND, a line in MODELS, and to be trained and scored a script stages/train_NAME.py and a
stage in dvc.yaml. It is imported when it is chosen.
"""

import importlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

import torch
from torch.overrides import TorchFunctionMode

from bukva.models.base import Config, Kind, LanguageModel

# name -> module
MODELS = {
    "bigram": "bukva.models.bigram",
    "gpt": "bukva.models.gpt",
}


def kind_of(name: str) -> Kind:
    """How a model is configured and built.

    Raises:
        KeyError: no model has this name.
    """
    return cast("Kind", importlib.import_module(MODELS[name]).KIND)


def build(config: Config) -> LanguageModel:
    """A new model of this shape, initialised from torch's global generator."""
    return kind_of(config.name).build(config)


def build_empty(config: Config) -> LanguageModel:
    """A model of this shape on torch's meta device: names and shapes without memory, so a config may claim any size."""
    with torch.device("meta"), _WithoutInitialValues():
        return build(config)


def count_parameters(config: Config) -> int:
    """How many parameters a model of this shape has; shared ones count once."""
    return sum(parameter.numel() for parameter in build_empty(config).parameters())


class _WithoutInitialValues(TorchFunctionMode):
    """Skips torch.nn.init, which imports the compiler of torch for tensors on the meta device: 2 to 3 seconds."""

    def __torch_function__(
        self, func: Callable[..., Any], _: Any, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        named = kwargs or {}
        if getattr(func, "__module__", None) == "torch.nn.init":
            return named["tensor"] if "tensor" in named else args[0]
        return func(*args, **named)
