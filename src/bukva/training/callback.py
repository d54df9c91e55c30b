"""What the training loop calls while it runs."""

# ruff: noqa: ARG002 (these methods do nothing)

from typing import Protocol

from bukva.training.state import Progress, TrainState


class Callback(Protocol):
    """What a training calls at its start, after each scoring and update, and at its end.

    A subclass overrides what it needs. Callbacks are called in the order of their list. (Each `return` tells mypy that
    the method is not abstract.)
    """

    def on_start(self, state: TrainState) -> None:
        """Before anything: the state is new, or restored from a checkpoint."""
        return

    def on_update(self, state: TrainState, progress: Progress) -> None:
        """After every update, and after the scoring before the first. May set state.stop_requested."""
        return

    def on_end(self, state: TrainState) -> None:
        """After the last update, unless a callback asked to stop."""
        return


class StopAfter(Callback):
    """A callback that ends a training after n updates, which have the learning rates of the whole."""

    def __init__(self, n_updates: int) -> None:
        self.n_updates = n_updates

    def on_update(self, state: TrainState, progress: Progress) -> None:
        """Request the stop."""
        state.stop_requested = progress.step >= self.n_updates
