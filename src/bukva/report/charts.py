"""Build the charts as Vega-Lite specifications.

Texts and lines have the text color of the page (currentColor). Column `colour` of a chart's data is the color of each
row; tooltips show all other columns.
"""

import json
from collections.abc import Iterable, Sequence
from typing import Any

import altair as alt
import numpy as np
import pandas as pd

from bukva.compare.statistics.settings import MATTERS
from bukva.text.ids import bits

Spec = dict[str, Any]
# By default, Altair refuses data of more than 5,000 rows. The attention weights of eight heads per layer have more.
alt.data_transformers.disable_max_rows()

# Colors by kind of model or baseline (scoring.rows.Kind). All are legible on white and on black.
COLORS = {"counted": "#8c8c8c", "compressor": "#a8843f", "learned": "#3f8fd2", "together": "#e0566f"}
GPT_COLOR = COLORS["together"]
SPLITS = {"train": "#8c8c8c", "val": "#3f8fd2", "test": "#e0566f"}
# Colors by key in scores.json. A model or baseline without an entry here has the color of its kind in COLORS.
MODELS = {"gpt": GPT_COLOR, "bigram": "#3fa35f"}
SERIES = ("#e0566f", "#3f8fd2", "#3fa35f", "#e08a2e", "#9a70c8", "#8c8c8c", "#a8843f", "#2f9e9e")
GOOD, BAD = "#2f9e62", "#d64a63"  # verdicts with a direction
FAR = 3  # the axis of differences ends at this multiple of the median interval; a triangle marks what is beyond
MARKS = ("circle", "triangle-right", "triangle-left")  # of a point on the axis, beyond its end, before its start
FAINT = "#80808040"
LEVELS = (1, 2, 4, 6, 8, 11)  # smallest bits of a character with the CSS class .b1, ..., .b6 of page.css
ROW = 24  # height of a row of a chart in pixels
BITS = "bits per character"
AXES = {"step": "updates", "chars": "characters seen"}  # column of a loss curve -> title of the x axis
TICKS = alt.ExprRef("width < 300 ? 4 : 8")  # number of ticks; a chart narrower than 300 pixels has fewer
BEGINNING = 0.3  # fraction of a training whose losses are not shown, because they are much higher than later losses
FONT_SIZE = 13  # pixels; the text of a page has 16
# number formats of tooltips by column
FORMATS = {"bits": ".3f", "low": ".3f", "high": ".3f", "chars": ",", "share": ".1%", "weight": ".2f"}
FORMATS |= {"difference": "+.3f", "value": "+.3f", "least": ".3f", "most": ".3f"}


def differences(rows: pd.DataFrame, trainings: pd.DataFrame) -> Spec:
    """Draw the difference of each setting from the baseline, and its trainings as small dots.

    The columns of `rows` are `setting`, `verdict`, `difference`, `low` and `high` (its interval; NaN if unknown),
    `least` and `most` (its corrected interval), and `colour`. Those of `trainings` are `row`, `seed` and `difference`.
    """
    bounds, labels = rows[["difference", "least", "most"]], rows[["setting", "verdict"]].to_numpy().tolist()
    far = max(FAR * bounds.abs().max(axis=1).median(), 10 * MATTERS)
    reached = [-MATTERS, MATTERS, *bounds.stack(), *trainings["difference"]]
    domain = max(-far, min(reached)), min(far, max(reached))
    shown = rows["difference"].clip(*domain)
    beyond = np.sign(rows["difference"] - shown).astype(int)
    drawn = rows.assign(row=rows.index, shown=shown, mark=[MARKS[side] for side in beyond])
    two_lines = alt.Axis(
        labelExpr=f"{json.dumps(labels)}[datum.value]", labelLineHeight=FONT_SIZE + 3, labelOffset=-FONT_SIZE / 2
    )
    x_axis = alt.Axis(labelExpr="datum.value ? format(datum.value, '+~g') : '0'", tickCount=TICKS, labelSeparation=2)
    title = [BITS, "against the baseline", "(left is better)"]
    x = alt.X("difference:Q", scale=alt.Scale(domain=domain, nice=False, padding=24), axis=x_axis, title=title)
    y = alt.Y("row:O", title=None, axis=two_lines)
    zone = alt.Chart(pd.DataFrame([{"difference": -MATTERS, "high": MATTERS, "zero": 0}]))
    base = alt.Chart(drawn).encode(y=y, color=alt.Color("colour:N", scale=None, legend=None))
    points, dots = base.encode(x="shown:Q"), alt.Chart(trainings).encode(x=x, y=y)
    chart = alt.layer(
        zone.mark_rect(color=COLORS["counted"], opacity=0.2).encode(x=x, x2="high:Q"),
        zone.mark_rule(color="currentColor").encode(x="zero:Q"),
        base.transform_filter("!isValid(datum.low)").mark_rule(strokeDash=[4, 6], opacity=0.7, aria=False),
        base.mark_rule(strokeWidth=1.5, clip=True).encode(x="least:Q", x2="most:Q"),
        base.mark_rule(strokeWidth=4, clip=True).encode(x="low:Q", x2="high:Q"),
        points.mark_point(filled=True, size=90, opacity=1).encode(
            shape=alt.Shape("mark:N", scale=None), tooltip=tooltips(rows)
        ),
        points.transform_filter("datum.difference")
        .mark_text(dy=-12)
        .encode(text=alt.Text("difference:Q", format=FORMATS["difference"]), color=alt.value("currentColor")),
        dots.mark_point(filled=True, size=14, yOffset=10, opacity=0.7, color="currentColor", clip=True).encode(
            tooltip=tooltips(trainings[["seed", "difference"]])
        ),
    )
    return to_spec(chart.properties(height=2 * ROW * len(rows)), "Differences from the baseline with 95 % intervals.")


def scores(rows: pd.DataFrame) -> Spec:
    """Draw the scores of models on val, one line per label, in the order of the rows.

    The columns are `label`, `colour`, `bits`, and `low` and `high`, the interval that a gray bar spans.
    """
    labels = rows["label"].tolist()
    base = alt.Chart(rows).encode(y=alt.Y("label:N", sort=labels, title=None))
    lines = base.mark_rule(color=COLORS["counted"], opacity=0.5, strokeWidth=3).encode(
        x=alt.X("low:Q", title=""), x2="high:Q"
    )
    scale, axis = alt.Scale(zero=False, nice=False, padding=12), alt.Axis(format="~g", tickCount=TICKS, labelFlush=12)
    points = base.mark_point(filled=True, size=70, opacity=1).encode(
        x=alt.X("bits:Q", scale=scale, title=f"{BITS} on val", axis=axis),
        color=alt.Color("colour:N", scale=None, legend=None),
        tooltip=tooltips(rows),
    )
    return to_spec((lines + points).properties(height=ROW * len(labels)), f"Scores of {len(rows)} models on val.")


def curves(models: Iterable[tuple[str, str, pd.DataFrame]], splits: Sequence[str]) -> dict[str, Spec]:
    """Draw the loss curves of models once for each x axis, whose title is the key. Val is solid, and train is dashed.

    A model is given by its label, its color and its curve (see `read_curve`).
    """
    all_curves = pd.concat(curve.assign(model=label, colour=color) for label, color, curve in models)
    names = {"chars_seen": "chars"} | {f"{split}_nats_per_char": split for split in splits}
    points = all_curves.rename(columns=names).melt(["model", "colour", *AXES], splits, "split", "bits").dropna()
    points["bits"] = points["bits"].map(bits)
    axis = alt.Axis(labelExpr="format(datum.value, '~s')", tickCount=TICKS)
    lines = alt.Chart(points, height=300).mark_line(point=alt.OverlayMarkDef(size=25), clip=True)
    specs = {}
    for x, title in AXES.items():
        last = points.groupby(["model", "split"])[x].transform("max")
        shown = points[points[x] >= BEGINNING * last]["bits"]
        chart = lines.encode(
            x=alt.X(f"{x}:Q", title=title, axis=axis),
            y=alt.Y("bits:Q", scale=alt.Scale(domain=[shown.min(), shown.max()], nice=True), title=BITS),
            color=colors(points, "model"),
            strokeDash=alt.StrokeDash("split:N", sort=["val", "train"], legend=None),  # solid, dashed
            tooltip=tooltips(points),
        )
        specs[title] = to_spec(chart, f"Losses by {title}.")
    return specs


def composition(rows: pd.DataFrame, by: str) -> Spec:
    """Draw the composition of each split as bars. `by` is the kind of label, such as "author".

    The columns are `label`, `split`, `colour`, `chars`, and `share` of the split.
    """
    labels = rows["label"].unique().tolist()
    bars = alt.Chart(rows, height=ROW * len(labels)).mark_bar()
    chart = bars.encode(
        y=alt.Y("label:N", sort=labels, title=None),
        x=alt.X("share:Q", axis=alt.Axis(format="%"), title="share of the characters of the split"),
        yOffset=alt.YOffset("split:N", sort=list(SPLITS)),
        color=colors(rows, "split"),
        tooltip=tooltips(rows),
    )
    return to_spec(chart, f"Characters of each split by {by}.")


def tries(rows: pd.DataFrame, baseline: pd.DataFrame) -> Spec:
    """Draw the scores of the tries of `bukva judge`, and the score of the baseline after each try as a line.

    The columns of `rows` are `number` (of the try), `bits`, `low` and `high` (its interval), `verdict` and `colour`;
    those of `baseline` are `number` and `bits`.
    """
    x = alt.X("number:Q", title="try", axis=alt.Axis(tickMinStep=1, format="d"))
    y = alt.Y("bits:Q", scale=alt.Scale(zero=False, nice=True), title=f"{BITS} on val")
    line = alt.Chart(baseline).mark_line(interpolate="step-after", color=COLORS["counted"]).encode(x=x, y=y)
    base = alt.Chart(rows).encode(x=x, color=colors(rows, "verdict"))
    intervals = base.mark_rule(strokeWidth=1.5).encode(y=alt.Y("low:Q", title=""), y2="high:Q")
    points = base.mark_point(filled=True, size=60, opacity=1).encode(y=y, tooltip=tooltips(rows))
    chart = (line + intervals + points).properties(height=300)
    return to_spec(chart, f"Scores of {len(rows)} tries on val with 95 % intervals, and of the baseline.")


# ---- parts that all charts share


def colors(rows: pd.DataFrame, name: str) -> alt.Color:
    """Give the values of column `name` the colors of column `colour`. The legend has the order of `rows`."""
    first = rows.drop_duplicates(name)
    columns = alt.ExprRef("width < 480 ? 1 : 2")  # columns of the legend, by the width of the chart in pixels
    limit = alt.ExprRef("width < 480 ? width - 30 : width / 2 - 40")
    return alt.Color(
        f"{name}:N",
        scale=alt.Scale(domain=first[name].tolist(), range=first["colour"].tolist()),
        legend=alt.Legend(title=None, orient="top", labelLimit=limit, columns=columns),
    )


def tooltips(rows: pd.DataFrame) -> list[alt.Tooltip]:
    """Return a tooltip with all columns of `rows` except `colour`."""
    return [
        alt.Tooltip(f"{name}:Q", format=FORMATS[name]) if name in FORMATS else alt.Tooltip(f"{name}:N")
        for name in rows.columns.drop("colour", errors="ignore")
    ]


def to_spec(chart: Any, description: str) -> Spec:
    """Style an Altair chart, which fills its container, and convert it to a Vega-Lite specification."""
    text = {
        "labelColor": "currentColor",
        "titleColor": "currentColor",
        "titleFontWeight": "normal",
        "labelFontSize": FONT_SIZE,
        "titleFontSize": FONT_SIZE,
    }
    axis = {**text, "gridColor": FAINT, "domainColor": FAINT, "tickColor": FAINT}
    size = {"width": "container", "autosize": {"type": "fit-x", "contains": "padding"}}
    spec: Spec = (
        chart.properties(description=description, **size)
        .configure(background="transparent", font="sans-serif")
        .configure_axis(**axis, labelFlush=False, labelSeparation=8)
        .configure_legend(**text)
        .configure_text(fontSize=FONT_SIZE)
        .configure_view(stroke=None)
        .to_dict()
    )
    return spec
