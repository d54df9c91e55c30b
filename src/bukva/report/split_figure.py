"""The figure of the splits: how alike they are, and what of val and test stands in train."""

import math
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bukva.corpus.cleaning.page import Rows, largest
from bukva.corpus.splits import balance
from bukva.report.halves import LEAST_ROWS, halves
from bukva.report.labels import drawn
from bukva.report.style import PALETTE, plain, save

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MOST_ROWS = 15  # authors, categories or decades
TITLE, LEAKS, LEGEND = 0.95, 2.9, 0.3  # inches: a title of two lines with its axis, the panel of windows, the legend
COLOURS = {"train": "0.25", "val": PALETTE[0], "test": PALETTE[1]}
MARKS = {"train": ("s", -0.25), "val": ("o", 0), "test": ("D", 0.25)}  # and their places beside a label
FAINT = 0.4  # bars of what was before
LEAST = 1e-4  # per cent at the foot of the scale if all are 0


def draw_split(found: dict[str, Any], works: "pd.DataFrame", author: str, path: Path) -> None:
    """Draw reports/split.png from reports/split.json and the table of works, whose authors have this name."""
    save(split_figure(found, works, author), path)


def split_figure(found: dict[str, Any], works: "pd.DataFrame", author: str) -> "Figure":
    """The panels of authors, categories and decades, and below them that of the windows."""
    rows = {
        kind: largest(_sums(found, kind, labels, works["chars"].tolist()), MOST_ROWS, by_name=kind == "decade")
        for kind, labels in balance.labels(works).items()
    }
    figure, top, panels, bottom = halves(rows, TITLE, LEAKS, LEGEND)
    for kind, axes in panels.items():
        _shares(axes, list(found), rows[kind])
        distances = ", ".join(f"{name} {_distance(part['distance'][kind])}" for name, part in found.items())
        title = f"Shares of characters by {author if kind == 'author' else kind}\ntotal variation: {distances}"
        axes.set_title(title, loc="left", fontsize=9)
    handles, labels = panels["author"].get_legend_handles_labels()
    top.legend(handles, labels, loc="outside upper left", ncols=len(labels), frameon=False, fontsize=9)
    _windows(bottom.subplots(), {name: part["in_train"] for name, part in found.items() if "in_train" in part})
    return figure


def _sums(found: dict[str, Any], kind: str, labels: "pd.Series[str]", chars: list[int]) -> dict[str, list[int]]:
    """label -> characters of the whole, and of each split."""
    sums = {label: [0] * (1 + len(found)) for label in labels}
    for label, n in zip(labels, chars, strict=True):
        sums[label][0] += n
    for column, part in enumerate(found.values(), start=1):
        for label, n in _chars(part, kind):
            sums[label][column] += n
    return sums


def _chars(part: dict[str, Any], kind: str) -> Iterable[tuple[str, int]]:
    """The labels of a split with characters; an author is there once for each category."""
    if kind == "decade":
        return part["decades"].items()
    return ((row[kind], row["chars"]) for row in part["authors" if kind == "author" else "categories"])


def _distance(distance: float | None) -> str:
    return "(empty)" if distance is None else f"{distance:.3f}"


def _shares(axes: "Axes", splits: list[str], rows: Rows) -> None:
    """The share of each label in the whole is a bar, and those in the splits are marks on it."""
    from matplotlib.ticker import PercentFormatter

    plain(axes, "", "", "")
    columns = list(zip(*(numbers for _, numbers in rows), strict=True))
    whole, *parts = ([n / max(1, sum(column)) for n in column] for column in columns)
    places = range(len(rows))
    axes.barh(places, whole, color="0.85", label="whole corpus")
    for name, shares in zip(splits, parts, strict=True):
        marker, beside = MARKS[name]
        at = [place + beside for place in places]
        axes.plot(shares, at, marker, color=COLOURS[name], ms=3.5, label=name, clip_on=False)
    axes.set_yticks(places, [drawn(name) for name, _ in rows], fontsize=8, parse_math=False)
    axes.set_ylim(max(len(rows), LEAST_ROWS) - 0.4, -0.6)
    axes.set_xlim(left=0)
    axes.xaxis.set_major_formatter(PercentFormatter(1))
    axes.tick_params(axis="x", labelsize=8)
    axes.tick_params(axis="y", length=0)


def _windows(axes: "Axes", in_train: Mapping[str, Mapping[str, Mapping[str, float]]]) -> None:
    """The share of the windows of n characters that stand in train, too: a bar with its value, on a log scale."""
    plain(axes, "Windows of n characters that also stand in train", "n", "per cent of windows, log scale")
    lengths = list(next(iter(in_train.values()))["before"])
    series = [(name, when) for name in in_train for when in in_train[name]]
    shares = [share for of_split in in_train.values() for found in of_split.values() for share in found.values()]
    foot = 10.0 ** math.floor(math.log10(min((100 * share for share in shares if share), default=LEAST) / 2))
    axes.set_yscale("log")
    axes.set_ylim(foot, 300)  # before the bars, all of which may be 0
    width = 0.9 / len(series)
    for number, (name, when) in enumerate(series):
        places = [place + (number - (len(series) - 1) / 2) * width for place in range(len(lengths))]
        values = [100 * in_train[name][when][n] for n in lengths]
        alpha = FAINT if when == "before" else 1.0
        axes.bar(places, values, width * 0.92, color=COLOURS[name], alpha=alpha, label=f"{name}, {when}")
        for place, value in zip(places, values, strict=True):
            axes.annotate(
                _short(value), (place, max(value, foot)), (0, 2), textcoords="offset points", ha="center", fontsize=7
            )
    axes.yaxis.set_major_formatter("{x:g}")
    axes.set_xticks(range(len(lengths)), lengths)
    axes.grid(visible=False, axis="x")
    axes.legend(frameon=False, fontsize=8, title="before and after split.duplicates", title_fontsize=8)


def _short(percent: float) -> str:
    return f"{percent:.0f}" if percent >= 10 else f"{percent:.2g}"
