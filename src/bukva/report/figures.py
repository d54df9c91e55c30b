"""Figures of the scores: losses by step, and all models and baselines on one axis."""

import itertools
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from bukva.compare.statistics.text import N_SEGMENTS, Units, over_text
from bukva.evaluation.rows import Kind, Row
from bukva.project.stages import TrainedModel
from bukva.report.style import GPT_COLOUR, PALETTE, canvas, level, plain, save
from bukva.text.ids import bits
from bukva.text.scores import CharNats

COLOURS: dict[Kind, str] = {
    "counted": "0.45",
    "compressor": "#8a6d3b",
    "learned": GPT_COLOUR,
    "together": "#b3273d",
}
MEANINGS: dict[Kind, str] = {
    "counted": "counted on train",
    "compressor": "compressor, learns on from the text it is scored on",
    "learned": "learned by gradients",
    "together": "counted and learned together",
}
ROW_HEIGHT = 0.32  # inches


def losses(models: Iterable[TrainedModel], scores: dict[str, Any], path: Path) -> None:
    """The models' losses by step, in bits per character, with the exact bigram as the baseline to beat.

    Args:
        models: their curves are read.
        scores: reports/scores.json.
        path: the PNG.
    """
    models = list(models)
    held_out = "test" if "test" in scores["gpt"] else "val"
    shown = ", ".join(f"{model.label} {scores[model.name][held_out]['bits_per_char']:.3f}" for model in models)
    figure = canvas(height=5)
    axes = figure.add_subplot()
    plain(
        axes,
        f"Score on {held_out}: {shown} bits per character",
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
        level(axes, scores["baselines"]["val"][baseline], label)
    axes.set_xlim(left=0)
    axes.legend(frameon=False)
    save(figure, path)


def comparison(
    rows: Sequence[Row], nats: Mapping[str, Mapping[str, CharNats]], chars: npt.ArrayLike, path: Path
) -> None:
    """Models and baselines on one axis, the best on top, with the interval over the text where there is one.

    Args:
        rows: all of them; the last split of each is drawn.
        nats: model or baseline -> split -> (N,) nats of characters.
        chars: (n_works,) scored characters of each work of that split; a very short text has no intervals.
        path: the PNG.
    """
    split = next(reversed(rows[0].bits))
    units = Units.of(chars) if np.sum(chars) >= N_SEGMENTS else None
    drawn = sorted((row for row in rows if split in row.bits), key=lambda row: -row.bits[split])
    figure = canvas(height=1.3 + ROW_HEIGHT * len(drawn))
    axes = figure.add_subplot()
    intervals = f", with 95 % intervals over {len(units)} {units.kind}" if units else ""
    plain(axes, f"Scores on {split}{intervals} (left is better)", "bits per character", "")
    for y, row in enumerate(drawn):
        value, colour = row.bits[split], COLOURS[row.kind]
        if units and row.key in nats:
            low, high = over_text(units.sums(nats[row.key][split]), units).interval
            axes.plot([low, high], [y, y], color=colour, lw=2, alpha=0.6)
        axes.plot(value, y, "o", color=colour)
        axes.annotate(f"{value:.3f}", (1, y), xycoords=("axes fraction", "data"), va="center", fontsize=9, color=colour)
    axes.set_yticks(range(len(drawn)), [row.label for row in drawn], fontsize=9)
    kinds = [kind for kind in COLOURS if any(row.kind == kind for row in drawn)]
    handles = [axes.plot([], [], "o", color=COLOURS[kind], label=MEANINGS[kind])[0] for kind in kinds]
    axes.legend(handles=handles, frameon=False, fontsize=9, loc="lower left")
    save(figure, path)
