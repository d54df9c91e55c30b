"""The curve of a training run as CSV, the same columns for every model."""

import csv
import io
from collections.abc import Iterable
from pathlib import Path

from bukva.files import write_text
from bukva.training.loop import Progress, TrainState

COLUMNS = ("step", "chars_seen", "train_nats_per_char", "val_nats_per_char", "learning_rate")


def record(path: Path, state: TrainState, scorings: Iterable[Progress]) -> None:
    """Run through the scorings of a training; after each the file has all, those before an interruption too."""
    for _ in scorings:
        write_curve(path, state.scored)
    write_curve(path, state.scored)


def write_curve(path: Path, points: list[Progress]) -> None:
    """Write one row for each scoring of the val split; the first, before any update, has no train loss."""
    text = io.StringIO()
    rows = csv.writer(text, lineterminator="\n")
    rows.writerow(COLUMNS)
    rows.writerows([getattr(point, column) for column in COLUMNS] for point in points)
    write_text(path, text.getvalue())
