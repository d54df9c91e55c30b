"""All charts, as Vega-Lite specifications: a browser draws them on the pages, and vl-convert writes them as PNGs.

Texts and lines have the colour of the page (currentColor), so that a chart fits a light and a dark page. A model has
one colour on all charts: column colour of their rows. Every chart has a description for screen readers.
"""

import itertools
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bukva.core.files import atomic_file

if TYPE_CHECKING:
    import altair as alt
    import pandas as pd

Spec = dict[str, Any]
Choice = tuple[str, str, list[tuple[str, str]]]  # name of a group of radio buttons, its legend, values with labels

# legible on white and on black
COLOURS = {
    "counted": "#8c8c8c",
    "compressor": "#a8843f",
    "learned": "#3f8fd2",
    "together": "#e0566f",
}
GPT = COLOURS["together"]
SPLITS = {"train": "#8c8c8c", "val": "#3f8fd2", "test": "#e0566f"}
MODELS = {"gpt": GPT, "bigram": "#3fa35f"}  # others have the colour of their kind
DASHES = ([1, 0], [6, 3], [2, 2], [8, 3, 2, 3])  # of lines of one colour
SERIES = ("#e0566f", "#3f8fd2", "#3fa35f", "#e08a2e", "#9a70c8", "#8c8c8c", "#a8843f", "#2f9e9e")
FAINT = "#80808040"
LEVELS = (1, 2, 4, 6, 8, 11)  # bits from which a character has the next colour, b1 to b6 in page.css
ROW = 24  # pixels
BITS = "bits per character"
BEGINNING = 0.3  # of a training: its losses are far above all others
SCALES = {"zoomed": "zoomed", "all": "all", "log": "logarithmic"}
FONT_SIZE = 13  # pixels, beside a text of 16
WIDTH, SCALE = 700, 1.25  # of a PNG: pixels of a chart that a page makes as wide as its place, and how much they grow
SHOWN = {"\n": "⏎", " ": "␣", "\t": "⇥"}  # white space, as charts show it
# ticks: 500, 2,000, 26k, 1.2M
PLAIN = (
    "datum.value >= 1e6 ? format(datum.value / 1e6, '~r') + 'M' : "
    "datum.value >= 1e4 ? format(datum.value / 1e3, ',~r') + 'k' : format(datum.value, ',~r')"
)


def scores(rows: "pd.DataFrame", split: str) -> Spec:
    """Models and baselines on one axis; columns label, colour, bits, low and high, which may be missing."""
    import altair as alt

    base = alt.Chart(rows).encode(
        y=alt.Y("label:N", sort=rows.sort_values("bits")["label"].tolist(), title=None),
        color=alt.Color("colour:N", scale=None, legend=None),
        tooltip=["label:N", alt.Tooltip("bits:Q", format=".3f"), *_formatted("low", "high")],
    )
    x = alt.X("bits:Q", scale=alt.Scale(zero=False, nice=False, padding=12), title=f"{BITS} on {split}")
    interval = base.transform_filter("isValid(datum.low)").mark_rule(strokeWidth=3, opacity=0.5)
    numbers = base.mark_text(align="left", dx=8).transform_calculate(end="max(datum.high, datum.bits)")
    chart = alt.layer(
        interval.encode(x=alt.X("low:Q", title=""), x2="high:Q"),
        base.mark_point(filled=True, size=70, opacity=1).encode(x=x),
        numbers.encode(x=alt.X("end:Q", title=""), text=alt.Text("bits:Q", format=".3f")),
    )
    return finished(chart.properties(height=ROW * len(rows)), f"Scores of {len(rows)} models and baselines on {split}.")


def curves(points: "pd.DataFrame", x: str, label: str, scale: str) -> Spec:
    """Losses of all models; columns model, colour, split, bits, x; scale: a key of SCALES, of the losses."""
    import altair as alt

    y = {
        "zoomed": alt.Scale(domain=_end_of(points, x), nice=False),
        "all": alt.Scale(zero=False),
        "log": alt.Scale(type="log", zero=False, nice=False),
    }
    chart = (
        alt.Chart(points)
        .mark_line(point=alt.OverlayMarkDef(size=25), clip=True)
        .encode(
            x=alt.X(f"{x}:Q", title=label, axis=alt.Axis(labelExpr=PLAIN)),
            y=alt.Y("bits:Q", scale=y[scale], title=BITS),
            color=_series(points, "model"),
            strokeDash=alt.StrokeDash("split:N", sort=["val", "train"], legend=None),  # solid, dashed
            tooltip=["model:N", "split:N", alt.Tooltip(f"{x}:Q", format=",.0f"), alt.Tooltip("bits:Q", format=".3f")],
        )
    )
    return finished(chart.properties(height=300), f"Losses by {label}.")


def _end_of(points: "pd.DataFrame", x: str) -> list[float]:
    """The losses from the lowest to the highest that a curve has behind the first BEGINNING of it."""
    last = points.groupby(["model", "split"])[x].transform("max")
    shown = points[points[x] >= BEGINNING * last]["bits"]
    pad = 0.05 * (shown.max() - shown.min()) or 0.05
    return [float(shown.min() - pad), float(shown.max() + pad)]


def curve_choices(points: "pd.DataFrame", axes: dict[str, str]) -> tuple[list[Choice], dict[str, Spec]]:
    """The curves against each of the axes, column -> label, in each scale: the choices, and choice -> spec."""
    specs = {
        f"{x} {scale}": curves(points.dropna(subset=x), x, label, scale)
        for (x, label), scale in itertools.product(axes.items(), SCALES)
    }
    return [("x", "Against", list(axes.items())), ("scale", "Losses", list(SCALES.items()))], specs


def groups(rows: "pd.DataFrame", by: str, *, sort: bool) -> Spec:
    """Bits per character of groups; columns label, chars, model, colour, bits. Sorted by the first model if asked."""
    import altair as alt

    labels = list(dict.fromkeys(rows["label"]))
    if sort:
        first = rows[rows["model"] == rows["model"].iloc[0]].sort_values("bits")
        labels = first["label"].tolist()
    base = alt.Chart(rows).encode(y=alt.Y("label:N", sort=labels, title=None))
    x = alt.X("bits:Q", scale=alt.Scale(zero=False, padding=8), title=BITS)
    lines = base.mark_rule(color=FAINT).encode(x=alt.X("min(bits):Q", title=""), x2="max(bits):Q")
    points = base.mark_point(filled=True, size=70, opacity=1).encode(
        x=x,
        color=_series(rows, "model"),
        tooltip=["label:N", "model:N", alt.Tooltip("bits:Q", format=".3f"), alt.Tooltip("chars:Q", format=",")],
    )
    return finished((lines + points).properties(height=ROW * len(labels)), f"Bits per character by {by}.")


def composition(rows: "pd.DataFrame", by: str) -> Spec:
    """Shares of the characters of each split, by label; columns label, split, chars, share, colour."""
    import altair as alt

    labels = rows.groupby("label")["chars"].sum().sort_values(ascending=False).index.tolist()
    base = alt.Chart(rows).encode(y=alt.Y("label:N", sort=labels, title=None))
    bars = base.mark_bar().encode(
        x=alt.X("share:Q", axis=alt.Axis(format="%"), title="share of the characters of the split"),
        yOffset=alt.YOffset("split:N", sort=list(SPLITS)),
        color=_series(rows, "split"),
        tooltip=["label:N", "split:N", alt.Tooltip("share:Q", format=".1%"), alt.Tooltip("chars:Q", format=",")],
    )
    return finished(bars.properties(height=ROW * len(labels)), f"Characters of each split by {by}.")


def symbols(rows: "pd.DataFrame") -> Spec:
    """How often the most frequent symbols occur; columns symbol, chars."""
    import altair as alt

    chart = (
        alt.Chart(rows)
        .mark_point(filled=True, size=40, color=COLOURS["learned"])
        .encode(
            x=alt.X("symbol:N", sort=None, title=None, axis=alt.Axis(labelAngle=0, labelOverlap=False)),
            y=alt.Y("chars:Q", scale=alt.Scale(type="log"), title="characters"),
            tooltip=["symbol:N", alt.Tooltip("chars:Q", format=",")],
        )
    )
    return finished(chart.properties(height=220), f"Counts of the {len(rows)} most frequent symbols.")


def reliability(rows: "pd.DataFrame") -> Spec:
    """How often the likeliest character follows, by how sure the model is; columns confidence, right, predictions."""
    import altair as alt
    import pandas as pd

    share = alt.Axis(format="%")
    x = alt.X("confidence:Q", scale=alt.Scale(domain=[0, 1]), axis=share, title="how sure the GPT is")
    y = alt.Y("right:Q", scale=alt.Scale(domain=[0, 1]), axis=share, title="how often it is right")
    ideal = alt.Chart(pd.DataFrame({"confidence": [0, 1], "right": [0, 1]}))
    base = alt.Chart(rows).encode(x=x, y=y)
    chart = alt.layer(
        ideal.mark_line(strokeDash=[4, 4], color=COLOURS["counted"]).encode(x=x, y=y),
        base.mark_line(color=GPT),
        base.mark_point(filled=True, opacity=1, color=GPT).encode(
            size=alt.Size("predictions:Q", legend=None),
            tooltip=[
                alt.Tooltip("confidence:Q", format=".1%"),
                alt.Tooltip("right:Q", format=".1%"),
                alt.Tooltip("predictions:Q", format=","),
            ],
        ),
    )
    return finished(chart.properties(height=260), "Share of right predictions by confidence.")


def seen(rows: "pd.DataFrame") -> Spec:
    """Share of n-grams that train has, by n; columns text, colour, n, share. Lines of one colour differ in dashes."""
    import altair as alt

    colours = rows.drop_duplicates("text").set_index("text")["colour"]
    dashes = [DASHES[i % len(DASHES)] for i in colours.groupby(colours).cumcount()]
    chart = (
        alt.Chart(rows)
        .mark_line(point=alt.OverlayMarkDef(size=40))
        .encode(
            x=alt.X("n:O", title="characters in a row", axis=alt.Axis(labelAngle=0)),
            y=alt.Y("share:Q", title="stand in train", axis=alt.Axis(format="%")),
            color=_series(rows, "text", symbolType="stroke", symbolSize=400),
            strokeDash=alt.StrokeDash("text:N", scale=alt.Scale(domain=colours.index.tolist(), range=dashes)),
            tooltip=["text:N", "n:O", alt.Tooltip("share:Q", format=".2%")],
        )
    )
    return finished(chart.properties(height=260), "Share of n-grams of each text that stand in train, by their length.")


def seeds(rows: "pd.DataFrame", split: str) -> Spec:
    """The trainings of each setting as dots; columns label, colour, seed and bits."""
    import altair as alt

    labels = rows["label"].unique().tolist()
    x = alt.X("bits:Q", scale=alt.Scale(zero=False, padding=12), title=f"{BITS} on {split}")
    base = alt.Chart(rows).encode(y=alt.Y("label:N", sort=labels, title=None))
    chart = alt.layer(
        base.mark_rule(color=FAINT, strokeWidth=3).encode(x=alt.X("min(bits):Q", title=""), x2="max(bits):Q"),
        base.mark_point(filled=True, size=60, opacity=0.9).encode(
            x=x,
            color=alt.Color("colour:N", scale=None, legend=None),
            tooltip=["label:N", "seed:N", alt.Tooltip("bits:Q", format=".3f")],
        ),
    )
    return finished(
        chart.properties(height=ROW * len(labels)), f"Scores of {len(labels)} settings on {split}, by seed."
    )


def coordinates(rows: "pd.DataFrame") -> Spec:
    """Parallel coordinates; columns label, axis, value, place (0 to 1) and bits."""
    import altair as alt

    axes = rows["axis"].unique().tolist()
    x = alt.X(
        "axis:N", sort=axes, title=None, axis=alt.Axis(labelAngle=-20, labelPadding=12, domain=False, ticks=False)
    )
    y = alt.Y("place:Q", axis=None)
    base = alt.Chart(rows)
    chart = alt.layer(
        base.mark_line(strokeWidth=2, opacity=0.8, point=alt.OverlayMarkDef(size=40)).encode(
            x=x,
            y=y,
            detail="label:N",
            color=alt.Color("bits:Q", scale=alt.Scale(range=[COLOURS["learned"], COLOURS["together"]]), legend=None),
            tooltip=["label:N", "axis:N", "value:N", alt.Tooltip("bits:Q", format=".3f")],
        ),
        base.transform_aggregate(groupby=["axis", "value", "place"])
        .mark_text(dy=-9, color="currentColor")
        .encode(x=x, y=y, text="value:N"),
    )
    return finished(
        chart.properties(height=260), f"What {rows['label'].nunique()} settings changed: {', '.join(axes)}."
    )


def _series(rows: "pd.DataFrame", name: str, **legend: Any) -> "alt.Color":
    """The colours of the values of a column, in the order of the rows."""
    import altair as alt

    first = rows.drop_duplicates(name)
    columns = alt.ExprRef("width < 480 ? 1 : 2")  # pixels
    scale = alt.Scale(domain=first[name].tolist(), range=first["colour"].tolist())
    return alt.Color(
        f"{name}:N", scale=scale, legend=alt.Legend(title=None, orient="top", labelLimit=0, columns=columns, **legend)
    )


def _formatted(*names: str) -> "list[alt.Tooltip]":
    import altair as alt

    return [alt.Tooltip(f"{name}:Q", format=".3f") for name in names]


def visible(text: str) -> str:
    """A text on one line, in which white space can be seen, and code points that nobody can see."""
    return "".join(SHOWN.get(char) or (char if char.isprintable() else f"U+{ord(char):04X}") for char in text)


def level(value: float, label: str, y: "alt.Y") -> "alt.LayerChart":
    """A dashed horizontal line with its name and value at the right end; the name of y is that of a column."""
    import altair as alt
    import pandas as pd

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
    import vl_convert

    for name, spec in charts.items():
        drawn = {**spec, "background": "white"}
        if spec.get("width") == "container":
            drawn |= {"width": WIDTH, "autosize": "pad"}
        with atomic_file(folder / f"{name}.png") as unfinished:
            unfinished.write_bytes(vl_convert.vegalite_to_png(drawn, scale=SCALE))
