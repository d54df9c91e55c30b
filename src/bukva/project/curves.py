"""Read the loss curve of a training."""

import csv
import math

Point = dict[str, float]  # values at one step by column, without those that are missing


def read_curve(text: str) -> list[Point]:
    """Return the points of a loss curve in CSV, with the best score on val so far as `best_val_nats_per_char`."""
    points, best = list[Point](), math.inf
    for row in csv.DictReader(text.splitlines()):
        point = {name: float(cell) for name, cell in row.items() if cell}
        if "val_nats_per_char" in point:
            best = min(best, point["val_nats_per_char"])
            point["best_val_nats_per_char"] = best
        points.append(point)
    return points
