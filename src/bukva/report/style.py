"""The style of every figure: drawn without a screen, without a date in the file, legible at the width of a README."""

from pathlib import Path
from typing import TYPE_CHECKING

from bukva.core.files import atomic_file

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

PALETTE = ("#d95f02", "#1b6ca8", "#2c8c4b", "#7b4fa3", "#8a6d3b", "#c2356b")  # of the models, in their order
GPT_COLOUR = PALETTE[1]
RAW = "#d95f02"  # what stands out from the rest
SHOWN = {"\n": "⏎", " ": "␣", "\t": "⇥"}  # white space, as figures show it
WEIGHTS = "Blues"  # the colour map of anything between 0 and 1
WIDTH, DPI = 9.0, 120  # inches; 1,080 pixels


def canvas(height: float, width: float = WIDTH) -> "Figure":
    """An empty figure, in inches."""
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), dpi=DPI, layout="constrained")


def plain(axes: "Axes", title: str, x: str, y: str) -> None:
    """Set title and axis labels, a faint grid, and no box."""
    axes.set_title(title, loc="left", fontsize=11)
    axes.set_xlabel(x)
    axes.set_ylabel(y)
    axes.grid(alpha=0.25)
    axes.spines[["top", "right"]].set_visible(False)


def level(axes: "Axes", value: float, label: str) -> None:
    """Draw a dotted horizontal line, with its name and value at the right end."""
    axes.axhline(value, color="0.55", lw=1, ls=":")
    axes.annotate(
        f"{label} {value:.2f}",
        (1, value),
        (0, 3),
        textcoords="offset points",
        xycoords=("axes fraction", "data"),
        ha="right",
        va="bottom",
        fontsize=9,
        color="0.35",
    )


def save(figure: "Figure", path: Path) -> None:
    """Write a PNG in one step; the same figure gives the same bytes."""
    with atomic_file(path) as unfinished:
        figure.savefig(unfinished, format="png", metadata={"Software": None})
