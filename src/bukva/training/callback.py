"""Define the interface of callbacks and two callbacks.

`CurveFile` writes the loss curve to a file. `StopAfter` stops a training early.
"""

# ruff: noqa: ARG002 (these methods do nothing)

import csv
import io
from pathlib import Path
from typing import Protocol

from bukva.core.files import write_text
from bukva.training.state import Progress, TrainState

COLUMNS = ("step", "chars_seen", "train_nats_per_char", "val_nats_per_char", "learning_rate")  # of CurveFile


class Callback(Protocol):
    """Callback of the training loop, called at the start, after each update, and at the end.

    A subclass overrides the methods that it needs.
    """

    # the `return` statements show mypy that the methods are not abstract

    def on_start(self, state: TrainState) -> None:
        """Called before val is scored and before any update. `state` is new or restored from a checkpoint."""
        return

    def on_update(self, state: TrainState, progress: Progress) -> None:
        """Called after every update, and once before the first update. It may set `state.stop_requested`."""
        return

    def on_end(self, state: TrainState) -> None:
        """Called after the last update, unless a callback has requested a stop."""
        return


class StopAfter(Callback):
    """Stop a training after `n_updates` updates. The learning rates are the same as in the full training."""

    def __init__(self, n_updates: int) -> None:
        self.n_updates = n_updates

    def on_update(self, state: TrainState, progress: Progress) -> None:
        state.stop_requested = progress.step >= self.n_updates


class CurveFile(Callback):
    """Write the loss curve to the CSV file `path` whenever val is scored, and at the end.

    Writing the file at the end restores a missing file when a finished training is resumed. The first row describes the
    model before the first update and has no train loss.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    def on_update(self, state: TrainState, progress: Progress) -> None:
        """Write the file if val was scored after this update."""
        if progress.val_nats_per_char is not None:
            self.on_end(state)

    def on_end(self, state: TrainState) -> None:
        text = io.StringIO()
        rows = csv.writer(text, lineterminator="\n")
        rows.writerow(COLUMNS)
        rows.writerows([getattr(point, column) for column in COLUMNS] for point in state.curve)
        write_text(self.path, text.getvalue())
