"""Figures of the scores."""

import itertools
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pandas as pd

from bukva.base.units import bits
from bukva.pipeline.stages import TrainedModel
from bukva.report.style import PALETTE, canvas, level, plain, save


def losses(models: Iterable[TrainedModel], metrics: dict[str, Any], path: Path) -> None:
    """The models' losses by step, in bits per character, with the exact bigram as the baseline to beat.

    Args:
        models: their curves are read.
        metrics: reports/metrics.json.
        path: the PNG.
    """
    models = list(models)
    held_out = "test" if "test" in metrics["gpt"] else "val"
    scores = ", ".join(f"{model.label} {metrics[model.name][held_out]['bits_per_char']:.3f}" for model in models)
    figure = canvas(height=5)
    axes = figure.add_subplot()
    plain(
        axes,
        f"Score on {held_out}: {scores} bits per character",
        "step (optimizer updates)",
        "loss, bits per character",
    )
    for model, colour in zip(models, itertools.cycle(PALETTE), strict=False):
        curve = pd.read_csv(model.curve)
        for split, style, width in (("train", "--", 1.3), ("val", "-", 2.2)):
            scored = curve.dropna(subset=f"{split}_nats_per_char")
            axes.plot(
                scored["step"],
                scored[f"{split}_nats_per_char"].map(bits),
                style,
                color=colour,
                lw=width,
                label=f"{model.label}, {split}",
            )
    for baseline, label in (("unigram", "unigram, val"), ("bigram_exact", "exact bigram, val")):
        level(axes, metrics["baselines"]["val"][baseline], label)
    axes.set_xlim(left=0)
    axes.legend(frameon=False)
    save(figure, path)
