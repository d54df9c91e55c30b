"""Figures, drawn without a screen and without a date in the file."""

from pathlib import Path
from typing import Any

import pandas as pd

from bukva.files import atomic_file
from bukva.units import bits

COLOURS = {"bigram": "#d95f02", "gpt": "#1b6ca8"}
NAMES = {"bigram": "bigram", "gpt": "GPT"}


def losses(curves: dict[str, pd.DataFrame], metrics: dict[str, Any], path: Path) -> None:
    """Both models' losses by step, in bits per character, with the exact bigram as the line to beat.

    Args:
        curves: model -> reports/curves/train_<model>.csv.
        metrics: reports/metrics.json.
        path: the PNG.
    """
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 5), dpi=120, layout="constrained")
    axes = figure.add_subplot()
    for model, curve in curves.items():
        colour, name = COLOURS[model], NAMES[model]
        scored = curve.dropna(subset="train_nats_per_char")
        axes.plot(
            scored["step"],
            scored["train_nats_per_char"].map(bits),
            "--",
            color=colour,
            lw=1.3,
            label=f"{name}, train",
        )
        axes.plot(
            curve["step"],
            curve["val_nats_per_char"].map(bits),
            "-",
            color=colour,
            lw=2.2,
            label=f"{name}, val",
        )
    for floor, label in (("unigram", "unigram, val"), ("bigram_exact", "exact bigram, val")):
        level = metrics["floors"]["val"][floor]
        axes.axhline(level, color="0.55", lw=1, ls=":")
        axes.annotate(
            f"{label} {level:.2f}",
            (1, level),
            xycoords=("axes fraction", "data"),
            ha="right",
            va="bottom",
            fontsize=9,
            color="0.35",
        )
    held_out = "test" if "test" in metrics["gpt"] else "val"
    bigram, gpt = (metrics[model][held_out]["bits_per_char"] for model in ("bigram", "gpt"))
    axes.set_title(f"{held_out}: bigram {bigram:.3f}, GPT {gpt:.3f} bits per character", loc="left")
    axes.set_xlabel("step (optimizer updates)")
    axes.set_ylabel("loss, bits per character")
    axes.grid(alpha=0.25)
    axes.spines[["top", "right"]].set_visible(False)
    axes.set_xlim(left=0)
    axes.legend(frameon=False)
    with atomic_file(path) as part:
        figure.savefig(part, format="png", metadata={"Software": None})
