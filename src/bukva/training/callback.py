"""What the training loop calls while it runs; two of them: the curve as a file, and an early end."""

# ruff: noqa: ARG002 (these methods do nothing)

import csv
import io
from pathlib import Path
from typing import Protocol

from bukva.core.files import write_text
from bukva.training.state import Progress, TrainState

COLUMNS = ("step", "chars_seen", "train_nats_per_char", "val_nats_per_char", "learning_rate")  # of the curve


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


class CurveFile(Callback):
    """A callback that writes the curve after each scoring of val; the first row, before any update, has no train loss.

    So does a training that was restored at its end.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    def on_update(self, state: TrainState, progress: Progress) -> None:
        """Write the file if val was scored."""
        if progress.val_nats_per_char is not None:
            self.on_end(state)

    def on_end(self, state: TrainState) -> None:
        """Write the file."""
        text = io.StringIO()
        rows = csv.writer(text, lineterminator="\n")
        rows.writerow(COLUMNS)
        rows.writerows([getattr(point, column) for column in COLUMNS] for point in state.curve)
        write_text(self.path, text.getvalue())
