"""Compare two training states."""

from typing import Any

import torch


def same(one: Any, other: Any) -> None:
    """Assert that two nested states are equal, with tensors bit by bit. A tuple equals a list: saving converts it."""
    if not isinstance(one, list | tuple):
        assert type(one) is type(other)
    if isinstance(one, dict):
        assert one.keys() == other.keys()
        for key in one:
            same(one[key], other[key])
    elif isinstance(one, list | tuple):
        for a, b in zip(one, other, strict=True):
            same(a, b)
    elif isinstance(one, torch.Tensor):
        assert one.dtype == other.dtype
        assert torch.equal(one, other)
    else:
        assert one == other
