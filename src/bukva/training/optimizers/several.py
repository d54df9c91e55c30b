"""Several optimizers that step as one."""

from collections.abc import Iterable
from typing import Any

import torch


class Optimizers:
    """Several optimizers that step as one."""

    def __init__(self, optimizers: Iterable[torch.optim.Optimizer]) -> None:
        self.optimizers = list(optimizers)

    @property
    def param_groups(self) -> list[dict[str, Any]]:
        """The groups of all."""
        return [group for optimizer in self.optimizers for group in optimizer.param_groups]

    def step(self) -> None:
        """One update by each."""
        for optimizer in self.optimizers:
            optimizer.step()

    def zero_grad(self) -> None:
        """Drop the gradients."""
        for optimizer in self.optimizers:
            optimizer.zero_grad(set_to_none=True)

    def state_dict(self) -> list[dict[str, Any]]:
        """The states of all, in their order."""
        return [optimizer.state_dict() for optimizer in self.optimizers]

    def load_state_dict(self, saved: list[dict[str, Any]]) -> None:
        """Restore the state that `state_dict` returned."""
        for optimizer, state in zip(self.optimizers, saved, strict=True):
            optimizer.load_state_dict(state)
