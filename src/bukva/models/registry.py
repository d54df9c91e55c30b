"""The models by name.

A model is a module with a KIND, and a line in MODELS. A module is imported when its model is chosen, so a stage depends
on that one only.
"""

import importlib
from typing import cast

import torch

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
    with torch.device("meta"):
        return build(config)


def count_parameters(config: Config) -> int:
    """How many parameters a model of this shape has; shared ones count once."""
    return sum(parameter.numel() for parameter in build_empty(config).parameters())
