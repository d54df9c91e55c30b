"""The base class of training callbacks, and two callbacks that stages and measurements need."""

import csv
import io
from pathlib import Path

from bukva.core.files import write_text
from bukva.training.state import Progress, TrainState

# columns of the loss curve that CurveFile writes
COLUMNS = ("step", "chars_seen", "train_nats_per_char", "val_nats_per_char", "learning_rate")


class Callback:
    """Base class of callbacks, whose methods do nothing by default."""

    def on_start(self, state: TrainState) -> None:
        """Called once, before anything is scored or updated. `state` is new, or was restored from a checkpoint."""

    def on_update(self, state: TrainState, progress: Progress) -> None:
        """Called for the untrained model, and after every update. `state.stop_requested` stops the training."""

    def on_end(self, state: TrainState) -> None:
        """Called after the last update. It is not called if a callback has stopped the training."""


class StopAfter(Callback):
    """Callback that stops a training after update `n_updates`. The learning rate is that of the full training."""

    def __init__(self, n_updates: int) -> None:
        self.n_updates = n_updates

    def on_update(self, state: TrainState, progress: Progress) -> None:
        state.stop_requested = progress.step >= self.n_updates


class CurveFile(Callback):
    """Callback that writes the loss curve to the CSV file `path`, after each scoring of the validation split.

    The first row describes the untrained model and has no training loss.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    def on_update(self, state: TrainState, progress: Progress) -> None:
        if progress.val_nats_per_char is not None:
            self.on_end(state)

    def on_end(self, state: TrainState) -> None:
        """Write the file, which may have been deleted since a finished training was interrupted."""
        text = io.StringIO()
        rows = csv.writer(text, lineterminator="\n")
        rows.writerow(COLUMNS)
        rows.writerows([getattr(point, column) for column in COLUMNS] for point in state.curve)
        write_text(self.path, text.getvalue())
