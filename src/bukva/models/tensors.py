"""Named tensors, and whether they fit a model."""

from collections.abc import Mapping
from typing import Any

from torch import Tensor

Tensors = dict[str, Tensor]


def describe(value: Any) -> str:
    """Type and shape: float32 (87, 128); absent for None."""
    if value is None:
        return "absent"
    if not isinstance(value, Tensor):
        return type(value).__name__
    return f"{value.dtype} {tuple(value.shape)}".removeprefix("torch.")


def first_mismatch(found: Mapping[str, Any], wanted: Mapping[str, Any]) -> str:
    """The first name whose tensors differ in type or shape, as half a sentence; empty if all agree."""
    for name in sorted(wanted.keys() | found.keys()):
        if describe(found.get(name)) != describe(wanted.get(name)):
            return f"{name} is {describe(found.get(name))}, not {describe(wanted.get(name))}"
    return ""
