"""Build the charts as Vega-Lite specifications.

A browser draws them on the pages, and vl-convert writes them as PNGs. Texts and lines use the text color of the page
(currentColor), so a chart is legible on a light and on a dark page. Each model has the same color on all charts; the
column `colour` of the data holds it. Every chart has a description for screen readers.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import altair as alt
import pandas as pd
import vl_convert

from bukva.core.files import atomic_file

Spec = dict[str, Any]
# Altair refuses more than 5,000 rows by default; a chart of the weights of eight heads per layer has more.
alt.data_transformers.disable_max_rows()

# All colors are legible on white and on black.
COLORS = {
    "counted": "#8c8c8c",
    "compressor": "#a8843f",
    "learned": "#3f8fd2",
    "together": "#e0566f",
}
GPT_COLOR = COLORS["together"]
SPLITS = {"train": "#8c8c8c", "val": "#3f8fd2", "test": "#e0566f"}
# A model or baseline without an entry has the color of its kind, from COLORS.
MODELS = {"gpt": GPT_COLOR, "bigram": "#3fa35f", "adaptive": "#e08a2e", "stream": "#e08a2e"}
SERIES = ("#e0566f", "#3f8fd2", "#3fa35f", "#e08a2e", "#9a70c8", "#8c8c8c", "#a8843f", "#2f9e9e")
FAINT = "#80808040"
LEVELS = (1, 2, 4, 6, 8, 11)  # lower limits, in bits, of the six colors of a character: .b1 to .b6 in page.css
ROW = 24  # height of a row of a chart in pixels
BITS = "bits per character"
TICKS = alt.ExprRef("width < 300 ? 4 : 8")  # number of ticks by the width of the chart in pixels
BEGINNING = 0.3  # first fraction of a training, whose losses are so high that the y axis does not include them
FONT_SIZE = 13  # pixels; the text of a page has 16
WIDTH = 700  # pixels of a PNG, before scaling, for a chart that fills its container on a page
SCALE = 1.25  # scale factor of PNGs
WHITESPACE_SYMBOLS = {"\n": "⏎", " ": "␣", "\t": "⇥"}
FORMATS = {"before": ",", "bits": ".3f", "low": ".3f", "high": ".3f", "chars": ",", "share": ".1%", "confidence": ".1%",
           "right": ".1%", "predictions": ",", "value": "+.3f", "weight": ".2f"}  # fmt: skip


def dots(rows: pd.DataFrame, title: str, description: str, series: str = "") -> Spec:
    """Draw a dot plot with one line per label.

    A gray rule on each line spans the interval from `low` to `high` or, without these columns, all dots of the line.

    Args:
        rows: columns `label`, `colour` and `bits`, and optionally `low` and `high`. The tooltip of a dot shows all
            columns except `colour`. The lines have the order of the rows.
        title: the title of the axis.
        description: the description for screen readers.
        series: the column that the legend explains; "" for no legend.
    """
    labels = rows["label"].unique().tolist()
    base = alt.Chart(rows).encode(y=alt.Y("label:N", sort=labels, title=None))
    color = colors(rows, series) if series else alt.Color("colour:N", scale=None, legend=None)
    low, high = ("low", "high") if "low" in rows else ("bits", "bits")
    lines = base.mark_rule(color=COLORS["counted"], opacity=0.5, strokeWidth=3).encode(
        x=alt.X(f"min({low}):Q", title=""), x2=f"max({high}):Q"
    )
    scale = alt.Scale(zero=False, nice=False, padding=12)
    points = base.mark_point(filled=True, size=70, opacity=1).encode(
        x=alt.X("bits:Q", scale=scale, title=title, axis=alt.Axis(format="~g", tickCount=TICKS, labelFlush=12)),
        color=color,
        tooltip=tooltips(rows),
    )
    return to_spec((lines + points).properties(height=ROW * len(labels)), description)


def curves(points: pd.DataFrame, x: str, title: str) -> Spec:
    """Draw the losses of all models as lines, zoomed to the range of the losses after BEGINNING.

    Args:
        points: columns `model`, `colour`, `split`, `bits` and the column named by `x`.
        x: the column of the x axis.
        title: the title of the x axis.
    """
    last = points.groupby(["model", "split"])[x].transform("max")
    shown = points[points[x] >= BEGINNING * last]["bits"]
    chart = (
        alt.Chart(points)
        .mark_line(point=alt.OverlayMarkDef(size=25), clip=True)
        .encode(
            x=alt.X(f"{x}:Q", title=title, axis=alt.Axis(labelExpr="format(datum.value, '~s')")),
            y=alt.Y("bits:Q", scale=alt.Scale(domain=[shown.min(), shown.max()], nice=True), title=BITS),
            color=colors(points, "model"),
            strokeDash=alt.StrokeDash("split:N", sort=["val", "train"], legend=None),  # solid, dashed
            tooltip=tooltips(points),
        )
    )
    return to_spec(chart.properties(height=300), f"Losses by {title}.")


def composition(rows: pd.DataFrame, by: str) -> Spec:
    """Draw the fraction of each split's characters that each label has, as bars.

    Args:
        rows: columns `label`, `split`, `chars`, `share` and `colour`.
        by: the name of the grouping, such as "author", for the description.
    """
    labels = rows["label"].unique().tolist()
    bars = (
        alt.Chart(rows)
        .mark_bar()
        .encode(
            y=alt.Y("label:N", sort=labels, title=None),
            x=alt.X("share:Q", axis=alt.Axis(format="%"), title="share of the characters of the split"),
            yOffset=alt.YOffset("split:N", sort=list(SPLITS)),
            color=colors(rows, "split"),
            tooltip=tooltips(rows),
        )
    )
    return to_spec(bars.properties(height=ROW * len(labels)), f"Characters of each split by {by}.")


def tries(rows: pd.DataFrame, baseline: pd.DataFrame, description: str) -> Spec:
    """Draw each try as a dot with its interval, colored by verdict, and the baseline's score over time as a line.

    Args:
        rows: columns `number`, `bits`, `low`, `high`, `verdict` and `colour`. The tooltip of a dot shows all columns
            except `colour`.
        baseline: columns `number` (of a try) and `bits` (the score of the baseline after this try).
        description: the description for screen readers.
    """
    x = alt.X("number:Q", title="try", axis=alt.Axis(tickMinStep=1, format="d"))
    y = alt.Y("bits:Q", scale=alt.Scale(zero=False, nice=True), title=f"{BITS} on val")
    line = alt.Chart(baseline).mark_line(interpolate="step-after", color=COLORS["counted"]).encode(x=x, y=y)
    base = alt.Chart(rows).encode(x=x, color=colors(rows, "verdict"))
    intervals = base.mark_rule(strokeWidth=1.5).encode(y=alt.Y("low:Q", title=""), y2="high:Q")
    points = base.mark_point(filled=True, size=60, opacity=1).encode(y=y, tooltip=tooltips(rows))
    return to_spec((line + intervals + points).properties(height=300), description)


def by_position(rows: pd.DataFrame) -> Spec:
    """Draw the score by position in the work, one line per model.

    Args:
        rows: columns `model`, `colour`, `before` (number of earlier characters of the work), `bits` and `chars`.
    """
    chart = (
        alt.Chart(rows)
        .mark_line(point=alt.OverlayMarkDef(size=25))
        .encode(
            x=alt.X(
                "before:Q",
                scale=alt.Scale(type="log", base=2),
                title="characters of the work already scored (at least)",
            ),
            y=alt.Y("bits:Q", scale=alt.Scale(zero=False), title=BITS),
            color=colors(rows, "model"),
            tooltip=tooltips(rows),
        )
    )
    return to_spec(chart.properties(height=260), "Bits per character by position in the work.")


def reliability(rows: pd.DataFrame) -> Spec:
    """Draw a reliability diagram: accuracy by confidence, with the diagonal of perfect calibration.

    Args:
        rows: one row per bin, with columns `confidence`, `right` (the accuracy) and `predictions` (their number).
    """
    fraction = {"scale": alt.Scale(domain=[0, 1]), "axis": alt.Axis(format="%")}
    x = alt.X("confidence:Q", title="confidence of the GPT", **fraction)
    y = alt.Y("right:Q", title="accuracy", **fraction)
    ideal = alt.Chart(pd.DataFrame({"confidence": [0, 1], "right": [0, 1]})).encode(x=x, y=y)
    base = alt.Chart(rows).encode(x=x, y=y)
    chart = alt.layer(
        ideal.mark_line(strokeDash=[4, 4], color=COLORS["counted"]),
        base.mark_line(color=GPT_COLOR),
        base.mark_point(filled=True, opacity=1, color=GPT_COLOR).encode(
            size=alt.Size("predictions:Q", legend=None), tooltip=tooltips(rows)
        ),
    )
    return to_spec(chart.properties(height=260), "Accuracy of the GPT by confidence.")


# ---- parts that all charts share


def colors(rows: pd.DataFrame, name: str) -> alt.Color:
    """Return the encoding that colors column `name` by column `colour`, with a legend in the order of the rows."""
    first = rows.drop_duplicates(name)
    columns = alt.ExprRef("width < 480 ? 1 : 2")  # pixels
    limit = alt.ExprRef("width < 480 ? width - 30 : width / 2 - 40")
    return alt.Color(
        f"{name}:N",
        scale=alt.Scale(domain=first[name].tolist(), range=first["colour"].tolist()),
        legend=alt.Legend(title=None, orient="top", labelLimit=limit, columns=columns),
    )


def tooltips(rows: pd.DataFrame) -> list[alt.Tooltip]:
    """Return a tooltip for each column except `colour`."""
    return [
        alt.Tooltip(f"{name}:Q", format=FORMATS[name]) if name in FORMATS else alt.Tooltip(f"{name}:N")
        for name in rows.columns.drop("colour", errors="ignore")
    ]


def visible(text: str) -> str:
    """Return a text with symbols for white space and U+XXXX for other unprintable characters."""
    return "".join(
        WHITESPACE_SYMBOLS.get(char) or (char if char.isprintable() else f"U+{ord(char):04X}") for char in text
    )


def reference_line(value: float, label: str, y: alt.Y) -> alt.LayerChart:
    """Draw a dashed horizontal line at `value` on axis `y`, with its label and value at the right end."""
    name = str(y.shorthand).partition(":")[0]
    base = alt.Chart(pd.DataFrame({name: [value], "label": [f"{label} {value:.2f}"]})).encode(y=y)
    line = base.mark_rule(strokeDash=[4, 4], color=COLORS["counted"])
    return line + base.mark_text(align="right", dy=-8, color="currentColor").encode(
        x=alt.value("width"), text="label:N"
    )


def to_spec(chart: Any, description: str, *, wide: bool = True) -> Spec:
    """Style a chart and convert it to a specification.

    Args:
        chart: an Altair chart.
        description: the description for screen readers.
        wide: fill the width of the container. Concatenated and faceted charts set their own widths.
    """
    text = {
        "labelColor": "currentColor",
        "titleColor": "currentColor",
        "titleFontWeight": "normal",
        "labelFontSize": FONT_SIZE,
        "titleFontSize": FONT_SIZE,
    }
    axis = {**text, "gridColor": FAINT, "domainColor": FAINT, "tickColor": FAINT}
    size = {"width": "container", "autosize": {"type": "fit-x", "contains": "padding"}} if wide else {}
    styled = (
        chart.properties(description=description, **size)
        .configure(background="transparent", font="sans-serif")
        .configure_axis(**axis, labelFlush=False)
        .configure_header(**text)
        .configure_legend(**text)
        .configure_text(fontSize=FONT_SIZE)
        .configure_title(color="currentColor", fontSize=FONT_SIZE, fontWeight="normal", subtitleColor="currentColor")
        .configure_view(stroke=None)
    )
    spec: Spec = styled.to_dict()
    return spec


def save(charts: Mapping[str, Spec], folder: Path) -> None:
    """Write each chart as a PNG, black on white. The same chart gives the same bytes on the same machine."""
    for name, spec in charts.items():
        drawn = {**spec, "background": "white"}
        if spec.get("width") == "container":
            drawn |= {"width": WIDTH, "autosize": "pad"}
        with atomic_file(folder / f"{name}.png") as unfinished:
            unfinished.write_bytes(vl_convert.vegalite_to_png(drawn, scale=SCALE))
