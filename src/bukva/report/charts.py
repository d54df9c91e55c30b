"""All charts, as Vega-Lite specifications: a browser draws them on the pages, and vl-convert writes them as PNGs.

Texts and lines have the colour of the page (currentColor), so that a chart fits a light and a dark page. A model has
one colour on all charts: column colour of their rows. Every chart has a description for screen readers.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import altair as alt
import pandas as pd
import vl_convert

from bukva.core.files import atomic_file

Spec = dict[str, Any]
alt.data_transformers.disable_max_rows()  # the weights of eight heads a layer are more than 5,000

# legible on white and on black
COLOURS = {
    "counted": "#8c8c8c",
    "compressor": "#a8843f",
    "learned": "#3f8fd2",
    "together": "#e0566f",
}
GPT = COLOURS["together"]
SPLITS = {"train": "#8c8c8c", "val": "#3f8fd2", "test": "#e0566f"}
# others have the colour of their kind
MODELS = {"gpt": GPT, "bigram": "#3fa35f", "adaptive": "#e08a2e", "stream": "#e08a2e"}
SERIES = ("#e0566f", "#3f8fd2", "#3fa35f", "#e08a2e", "#9a70c8", "#8c8c8c", "#a8843f", "#2f9e9e")
FAINT = "#80808040"
LEVELS = (1, 2, 4, 6, 8, 11)  # bits from which a character has the next colour, b1 to b6 in page.css
ROW = 24  # pixels
BITS = "bits per character"
TICKS = alt.ExprRef("width < 300 ? 4 : 8")  # width in pixels
BEGINNING = 0.3  # of a training, which the chart leaves out: its losses are far above all others
FONT_SIZE = 13  # pixels, beside a text of 16
WIDTH, SCALE = 700, 1.25  # of a PNG: pixels of a chart that a page makes as wide as its place, and how much they grow
SHOWN = {"\n": "⏎", " ": "␣", "\t": "⇥"}  # white space, as charts show it
FORMATS = {"before": ",", "bits": ".3f", "low": ".3f", "high": ".3f", "chars": ",", "share": ".1%", "confidence": ".1%",
           "right": ".1%", "predictions": ",", "value": "+.3f", "weight": ".2f"}  # fmt: skip


def dots(rows: pd.DataFrame, title: str, description: str, series: str = "") -> Spec:
    """Dots on one axis, a line for each label in the order of the rows, between its lowest and its highest value.

    Args:
        rows: columns label, colour, bits, an interval low, high if there is one, and what is shown under the pointer.
        title: of the axis.
        description: for screen readers.
        series: the column whose values have the colours, for a legend.
    """
    labels = rows["label"].unique().tolist()
    base = alt.Chart(rows).encode(y=alt.Y("label:N", sort=labels, title=None))
    colour = colours(rows, series) if series else alt.Color("colour:N", scale=None, legend=None)
    low, high = ("low", "high") if "low" in rows else ("bits", "bits")
    lines = base.mark_rule(color=COLOURS["counted"], opacity=0.5, strokeWidth=3).encode(
        x=alt.X(f"min({low}):Q", title=""), x2=f"max({high}):Q"
    )
    scale = alt.Scale(zero=False, nice=False, padding=12)
    points = base.mark_point(filled=True, size=70, opacity=1).encode(
        x=alt.X("bits:Q", scale=scale, title=title, axis=alt.Axis(format="~g", tickCount=TICKS, labelFlush=12)),
        color=colour,
        tooltip=tips(rows),
    )
    return finished((lines + points).properties(height=ROW * len(labels)), description)


def curves(points: pd.DataFrame, x: str, title: str) -> Spec:
    """Losses of all models behind the BEGINNING; columns model, colour, split, bits, x."""
    last = points.groupby(["model", "split"])[x].transform("max")
    shown = points[points[x] >= BEGINNING * last]["bits"]
    chart = (
        alt.Chart(points)
        .mark_line(point=alt.OverlayMarkDef(size=25), clip=True)
        .encode(
            x=alt.X(f"{x}:Q", title=title, axis=alt.Axis(labelExpr="format(datum.value, '~s')")),
            y=alt.Y("bits:Q", scale=alt.Scale(domain=[shown.min(), shown.max()], nice=True), title=BITS),
            color=colours(points, "model"),
            strokeDash=alt.StrokeDash("split:N", sort=["val", "train"], legend=None),  # solid, dashed
            tooltip=tips(points),
        )
    )
    return finished(chart.properties(height=300), f"Losses by {title}.")


def composition(rows: pd.DataFrame, by: str) -> Spec:
    """Shares of the characters of each split, by label; columns label, split, chars, share, colour."""
    labels = rows["label"].unique().tolist()
    bars = (
        alt.Chart(rows)
        .mark_bar()
        .encode(
            y=alt.Y("label:N", sort=labels, title=None),
            x=alt.X("share:Q", axis=alt.Axis(format="%"), title="share of the characters of the split"),
            yOffset=alt.YOffset("split:N", sort=list(SPLITS)),
            color=colours(rows, "split"),
            tooltip=tips(rows),
        )
    )
    return finished(bars.properties(height=ROW * len(labels)), f"Characters of each split by {by}.")


def tries(rows: pd.DataFrame, baseline: pd.DataFrame, description: str) -> Spec:
    """A dot and an interval for each try, by its verdict, and the score of the baseline at the time as a line.

    Args:
        rows: columns number, bits, low, high, verdict, colour, and what is shown under the pointer.
        baseline: columns number, bits.
        description: for screen readers.
    """
    x = alt.X("number:Q", title="try", axis=alt.Axis(tickMinStep=1, format="d"))
    y = alt.Y("bits:Q", scale=alt.Scale(zero=False, nice=True), title=f"{BITS} on val")
    line = alt.Chart(baseline).mark_line(interpolate="step-after", color=COLOURS["counted"]).encode(x=x, y=y)
    base = alt.Chart(rows).encode(x=x, color=colours(rows, "verdict"))
    intervals = base.mark_rule(opacity=0.5, strokeWidth=2).encode(y=alt.Y("low:Q", title=""), y2="high:Q")
    points = base.mark_point(filled=True, size=60, opacity=1).encode(y=y, tooltip=tips(rows))
    return finished((line + intervals + points).properties(height=300), description)


def by_place(rows: pd.DataFrame) -> Spec:
    """Bits by how much of a work was scored before; columns model, colour, before, bits, chars."""
    chart = (
        alt.Chart(rows)
        .mark_line(point=alt.OverlayMarkDef(size=25))
        .encode(
            x=alt.X(
                "before:Q", scale=alt.Scale(type="log", base=2), title="characters of the work scored before, from"
            ),
            y=alt.Y("bits:Q", scale=alt.Scale(zero=False), title=BITS),
            color=colours(rows, "model"),
            tooltip=tips(rows),
        )
    )
    return finished(chart.properties(height=260), "Bits per character by place in the work.")


def reliability(rows: pd.DataFrame) -> Spec:
    """How often the likeliest character follows, by how sure the model is; columns confidence, right, predictions."""
    share = {"scale": alt.Scale(domain=[0, 1]), "axis": alt.Axis(format="%")}
    x = alt.X("confidence:Q", title="how sure the GPT is", **share)
    y = alt.Y("right:Q", title="how often it is right", **share)
    ideal = alt.Chart(pd.DataFrame({"confidence": [0, 1], "right": [0, 1]})).encode(x=x, y=y)
    base = alt.Chart(rows).encode(x=x, y=y)
    chart = alt.layer(
        ideal.mark_line(strokeDash=[4, 4], color=COLOURS["counted"]),
        base.mark_line(color=GPT),
        base.mark_point(filled=True, opacity=1, color=GPT).encode(
            size=alt.Size("predictions:Q", legend=None), tooltip=tips(rows)
        ),
    )
    return finished(chart.properties(height=260), "Share of right predictions by confidence.")


# ---- what charts are made of


def colours(rows: pd.DataFrame, name: str) -> alt.Color:
    """The colours of the values of a column, in the order of the rows, with a legend."""
    first = rows.drop_duplicates(name)
    columns = alt.ExprRef("width < 480 ? 1 : 2")  # pixels
    limit = alt.ExprRef("width < 480 ? width - 30 : width / 2 - 40")
    return alt.Color(
        f"{name}:N",
        scale=alt.Scale(domain=first[name].tolist(), range=first["colour"].tolist()),
        legend=alt.Legend(title=None, orient="top", labelLimit=limit, columns=columns),
    )


def tips(rows: pd.DataFrame) -> list[alt.Tooltip]:
    """All columns but the colour, shown under the pointer."""
    return [
        alt.Tooltip(f"{name}:Q", format=FORMATS[name]) if name in FORMATS else alt.Tooltip(f"{name}:N")
        for name in rows.columns.drop("colour", errors="ignore")
    ]


def visible(text: str) -> str:
    """A text on one line, in which white space can be seen, and code points that nobody can see."""
    return "".join(SHOWN.get(char) or (char if char.isprintable() else f"U+{ord(char):04X}") for char in text)


def level(value: float, label: str, y: alt.Y) -> alt.LayerChart:
    """A dashed horizontal line with its name and value at the right end; the name of y is that of a column."""
    name = str(y.shorthand).partition(":")[0]
    base = alt.Chart(pd.DataFrame({name: [value], "label": [f"{label} {value:.2f}"]})).encode(y=y)
    line = base.mark_rule(strokeDash=[4, 4], color=COLOURS["counted"])
    return line + base.mark_text(align="right", dy=-8, color="currentColor").encode(
        x=alt.value("width"), text="label:N"
    )


def finished(chart: Any, description: str, *, wide: bool = True) -> Spec:
    """A chart as a specification. wide: it is as wide as its place; one of several charts has a width of its own."""
    text = {
        "labelColor": "currentColor",
        "titleColor": "currentColor",
        "titleFontWeight": "normal",
        "labelFontSize": FONT_SIZE,
        "titleFontSize": FONT_SIZE,
    }
    axis = {**text, "gridColor": FAINT, "domainColor": FAINT, "tickColor": FAINT}
    place = {"width": "container", "autosize": {"type": "fit-x", "contains": "padding"}} if wide else {}
    styled = (
        chart.properties(description=description, **place)
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
    """Write each chart as a PNG, black on white; the same chart gives the same bytes on the same machine."""
    for name, spec in charts.items():
        drawn = {**spec, "background": "white"}
        if spec.get("width") == "container":
            drawn |= {"width": WIDTH, "autosize": "pad"}
        with atomic_file(folder / f"{name}.png") as unfinished:
            unfinished.write_bytes(vl_convert.vegalite_to_png(drawn, scale=SCALE))
