"""What the figures of the corpus and of its splits share: authors, categories and decades above, another half below."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from bukva.corpus.cleaning.page import Rows
from bukva.report.style import canvas

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure, SubFigure

ROW = 0.2  # inches of a label
LEAST_ROWS = 4  # for which there is room, so that a single bar is not a square


def halves(
    rows: Mapping[str, Rows], title: float, lower: float, margin: float = 0
) -> tuple["Figure", "SubFigure", dict[str, "Axes"], "SubFigure"]:
    """A figure, its upper half with the panel of each kind of label, and its lower half, which is empty.

    `rows` are those of the panels; the height of a panel's title with its axis, of the lower half, and of what is left
    to the legend are in inches.
    """
    author, category, decade = (ROW * len(rows[kind]) + title for kind in ("author", "category", "decade"))
    upper = max(author, category + decade)
    figure = canvas(height=upper + lower + margin)
    top, bottom = figure.subfigures(2, 1, squeeze=False, height_ratios=[upper, lower])[:, 0]
    panels = top.subplot_mosaic([["author", "category"], ["author", "decade"]], height_ratios=[category, decade])
    return figure, top, panels, bottom
