"""The figure of the corpus: characters by author, category and decade, and how often each symbol occurs."""

from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bukva.corpus.cleaning.page import Rows, largest, works_and_chars
from bukva.corpus.splits import balance
from bukva.report.halves import LEAST_ROWS, halves
from bukva.report.labels import drawn, drawn_symbol
from bukva.report.style import PALETTE, plain, save

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MOST_BARS = 20  # authors, categories or decades
MOST_SYMBOLS = 100
IN_ROW = 50  # symbols
TITLE, SYMBOLS, MARGIN = 0.75, 1.7, 0.4  # inches: a title and its axis, a row of symbols
COLOUR = PALETTE[2]


def draw_corpus(cleaning: dict[str, Any], works: "pd.DataFrame", author: str, path: Path) -> None:
    """Draw reports/corpus.png from reports/cleaning.json and the table of works, whose authors have this name."""
    save(corpus_figure(cleaning, works, author), path)


def corpus_figure(cleaning: dict[str, Any], works: "pd.DataFrame", author: str) -> "Figure":
    """The panels of authors, categories and decades, and below them the symbols in rows."""
    chars = works["chars"].tolist()
    bars = {
        kind: largest(works_and_chars(labels, chars), MOST_BARS, by_name=kind == "decade")
        for kind, labels in balance.labels(works).items()
    }
    counted = list(islice(cleaning["alphabet"].items(), MOST_SYMBOLS))
    rows = [counted[start : start + IN_ROW] for start in range(0, len(counted), IN_ROW)]
    figure, _, panels, bottom = halves(bars, TITLE, SYMBOLS * len(rows) + MARGIN)
    for kind, axes in panels.items():
        _bars(axes, f"Characters by {author if kind == 'author' else kind}", bars[kind])
    for axes, row in zip(bottom.subplots(len(rows), 1, squeeze=False)[:, 0], rows, strict=True):
        _symbols(axes, row, most=counted[0][1])
    which = "of each symbol" if len(counted) == cleaning["symbols"] else f"of the {len(counted)} most frequent symbols"
    bottom.axes[0].set_title(f"Counts {which}, {cleaning['symbols']:,} in all (log scale)", loc="left", fontsize=11)
    return figure


def _bars(axes: "Axes", title: str, rows: Rows) -> None:
    """A bar of the characters of each label, with its share."""
    from matplotlib.ticker import EngFormatter, MaxNLocator

    plain(axes, title, "", "")
    chars = [n for _, (n, _) in rows]
    places = range(len(rows))
    bars = axes.barh(places, chars, color=COLOUR)
    axes.bar_label(bars, [f"{n / sum(chars):.1%}" for n in chars], padding=3, fontsize=8)
    axes.set_yticks(places, [drawn(name) for name, _ in rows], fontsize=8, parse_math=False)
    axes.set_ylim(max(len(rows), LEAST_ROWS) - 0.4, -0.6)
    axes.margins(x=0.16)
    axes.xaxis.set_major_locator(MaxNLocator(4))
    axes.xaxis.set_major_formatter(EngFormatter(sep=""))
    axes.tick_params(axis="x", labelsize=8)
    axes.tick_params(axis="y", length=0)
    axes.grid(visible=False, axis="y")


def _symbols(axes: "Axes", counted: Sequence[tuple[str, int]], most: int) -> None:
    """A bar of the count of each symbol; a code point stands upright."""
    plain(axes, "", "", "")
    axes.bar(range(len(counted)), [n for _, n in counted], color=COLOUR)
    axes.set_yscale("log")
    axes.set_ylim(0.5, 2 * most)
    axes.set_xlim(-0.8, IN_ROW - 0.2)
    axes.set_xticks(range(len(counted)), [drawn_symbol(char) for char, _ in counted], fontsize=9, parse_math=False)
    for tick in axes.get_xticklabels():
        if len(tick.get_text()) > 1:
            tick.set(rotation=90, fontsize=6)
    axes.tick_params(axis="x", length=0)
    axes.tick_params(axis="y", labelsize=8)
    axes.grid(visible=False, axis="x")
