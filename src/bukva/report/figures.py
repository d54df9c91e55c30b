"""Figures of the scores."""

from pathlib import Path
from typing import Any

import pandas as pd

from bukva.report.style import COLOURS, NAMES, canvas, level, plain, save
from bukva.units import bits


def losses(curves: dict[str, pd.DataFrame], metrics: dict[str, Any], path: Path) -> None:
    """Both models' losses by step, in bits per character, with the exact bigram as the line to beat.

    Args:
        curves: model -> reports/curves/train_<model>.csv.
        metrics: reports/metrics.json.
        path: the PNG.
    """
    held_out = "test" if "test" in metrics["gpt"] else "val"
    bigram, gpt = (metrics[model][held_out]["bits_per_char"] for model in ("bigram", "gpt"))
    figure = canvas(height=5)
    axes = figure.add_subplot()
    plain(
        axes,
        f"{held_out}: bigram {bigram:.3f}, GPT {gpt:.3f} bits per character",
        "step (optimizer updates)",
        "loss, bits per character",
    )
    for model, curve in curves.items():
        for split, style, width in (("train", "--", 1.3), ("val", "-", 2.2)):
            scored = curve.dropna(subset=f"{split}_nats_per_char")
            axes.plot(
                scored["step"],
                scored[f"{split}_nats_per_char"].map(bits),
                style,
                color=COLOURS[model],
                lw=width,
                label=f"{NAMES[model]}, {split}",
            )
    for floor, label in (("unigram", "unigram, val"), ("bigram_exact", "exact bigram, val")):
        level(axes, metrics["floors"]["val"][floor], label)
    axes.set_xlim(left=0)
    axes.legend(frameon=False)
    save(figure, path)
