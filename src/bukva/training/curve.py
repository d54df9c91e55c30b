"""The curve of a training as CSV, the same columns for every model."""

import csv
import io
from collections.abc import Sequence
from pathlib import Path

from bukva.core.files import write_text
from bukva.training.callback import Callback
from bukva.training.state import Progress, TrainState

COLUMNS = ("step", "chars_seen", "train_nats_per_char", "val_nats_per_char", "learning_rate")


class CurveFile(Callback):
    """A callback that writes the curve after each scoring, with the points before an interruption."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def on_update(self, state: TrainState, progress: Progress) -> None:
        """Write the file if val was scored."""
        if progress.val_nats_per_char is not None:
            write_curve(self.path, state.curve)

    def on_end(self, state: TrainState) -> None:
        """Write the file, also for a training that was restored at its end."""
        write_curve(self.path, state.curve)


def write_curve(path: Path, curve: Sequence[Progress]) -> None:
    """Write one row for each scoring of val; the first, before any update, has no train loss."""
    text = io.StringIO()
    rows = csv.writer(text, lineterminator="\n")
    rows.writerow(COLUMNS)
    rows.writerows([getattr(point, column) for column in COLUMNS] for point in curve)
    write_text(path, text.getvalue())
