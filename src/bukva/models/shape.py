"""Checks that the fields of a config can describe a model: the file of a config may have been edited."""

from collections.abc import Collection, Mapping
from dataclasses import fields
from typing import Any

MAX_SIZE = 2**24  # a greater count is a mistake, and torch cannot multiply such matrices
MAX_LAYERS = 1000  # building more takes too long


def check_fields(config: Any, choices: Mapping[str, Collection[str]] | None = None) -> None:
    """Check every field of a config against its type, and the named choices of its text fields.

    Raises:
        ValueError: names the field and the value.
    """
    for field in fields(config):
        value, valid = getattr(config, field.name), (choices or {}).get(field.name)
        fits = _fits(value, field.type) if valid is None else value in list(valid)  # value may not be hashable
        if not fits or (field.name == "n_layer" and value > MAX_LAYERS):
            raise ValueError(f"{field.name} cannot be {value!r}")


def _fits(value: Any, wanted: Any) -> bool:
    if wanted is int:
        return type(value) is int and 1 <= value <= MAX_SIZE
    if wanted is float:  # a probability of dropout
        return type(value) in (int, float) and 0 <= value < 1
    if wanted == tuple[int, ...]:
        return type(value) is tuple and all(_fits(item, int) for item in value)
    return type(value) is wanted
