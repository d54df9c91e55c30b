"""Build models from their configs.

To add a model, add its config to MODELS, its class to `build`, a script stages/train_NAME.py, and a stage in dvc.yaml.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from bukva.models.base import Config, LanguageModel
from bukva.models.bigram import Bigram, BigramConfig
from bukva.models.gpt import GPT, GPTConfig
from bukva.models.ngram_gpt import NgramGPT, TaughtGPT

MODELS: dict[str, Callable[..., Config]] = {"bigram": BigramConfig, "gpt": GPTConfig}


def build(config: Config) -> LanguageModel:
    """Return a new model. Its initial weights are drawn from torch's global random generator."""
    if isinstance(config, GPTConfig):
        return {"none": GPT, "targets": TaughtGPT}.get(config.ngrams, NgramGPT)(config)
    assert isinstance(config, BigramConfig), config
    return Bigram(config)


def build_empty(config: Config) -> LanguageModel:
    """Return a model on torch's meta device. Its tensors have shapes, but no values, and they take no memory."""
    with torch.device("meta"), _WithoutInitialValues():
        return build(config)


def count_parameters(config: Config) -> int:
    """Return the number of parameters of a model with this config. Tied weights count once."""
    return sum(parameter.numel() for parameter in build_empty(config).parameters())


class _WithoutInitialValues(TorchFunctionMode):
    """Context without torch.nn.init. On the meta device, it would import torch's compiler, which takes 2 to 3 s."""

    def __torch_function__(
        self, func: Callable[..., Any], _: Any, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        named = kwargs or {}
        if getattr(func, "__module__", None) == "torch.nn.init":
            return named["tensor"] if "tensor" in named else args[0]
        return func(*args, **named)
