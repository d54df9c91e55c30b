"""The charts of the report page about attention, as Vega-Lite specifications (charts.py)."""

from typing import TYPE_CHECKING

import numpy as np

from bukva.report.page.charts import BITS, COLOURS, GPT, ROW, Spec, finished

if TYPE_CHECKING:
    import numpy.typing as npt
    import pandas as pd

LEAST_WEIGHT = 0.005  # that is drawn


def weights_of_head(parts: list[str], weights: "npt.NDArray[np.float64]", title: str) -> Spec:
    """The weights of one head on the T parts of a sentence, (T, T): rows are queries, columns are keys."""
    import altair as alt
    import pandas as pd

    named = [f"{i:03}{part}" for i, part in enumerate(parts)]  # a part may stand in the sentence twice
    rows = [
        {"query": named[t], "key": named[s], "weight": weight}
        for (t, s), weight in np.ndenumerate(weights)
        if weight >= LEAST_WEIGHT
    ]
    axis = alt.Axis(labelExpr="slice(datum.label, 3)", labelAngle=0, ticks=False, labelOverlap=False, title=None)
    chart = (
        alt.Chart(pd.DataFrame(rows))
        .mark_rect()
        .encode(
            x=alt.X("key:O", scale=alt.Scale(domain=named), axis=axis.copy(), title="key"),
            y=alt.Y("query:O", scale=alt.Scale(domain=named), axis=axis, title="query"),
            opacity=alt.Opacity("weight:Q", scale=alt.Scale(domain=[0, 1], range=[0, 1]), legend=None),
            color=alt.value(GPT),
            tooltip=[
                alt.Tooltip("from:N", title="query"),
                alt.Tooltip("to:N", title="key"),
                alt.Tooltip("weight:Q", format=".2f"),
            ],
        )
    )
    chart = chart.transform_calculate(**{"from": "slice(datum.query, 3)", "to": "slice(datum.key, 3)"})
    return finished(chart.properties(height=17 * len(parts)), f"Attention weights: {title}.")


def bars(rows: "pd.DataFrame", label: str) -> Spec:
    """One bar for each row; columns label and value, in bits."""
    import altair as alt

    chart = (
        alt.Chart(rows)
        .mark_bar(color=GPT)
        .encode(
            x=alt.X("value:Q", title=label),
            y=alt.Y("label:N", sort=rows["label"].tolist(), title=None),
            tooltip=["label:N", alt.Tooltip("value:Q", format="+.3f")],
        )
    )
    return finished(chart.properties(height=ROW * len(rows)), f"{label}, of {len(rows)} heads.")


def context(rows: "pd.DataFrame", unit: str, bigram: float) -> Spec:
    """Scores by length of context; columns length, bits and error. `bigram` is drawn as a line."""
    import altair as alt
    import pandas as pd

    x = alt.X("length:Q", scale=alt.Scale(type="log", base=2), title=f"{unit}s of context")
    y = alt.Y("bits:Q", scale=alt.Scale(zero=False), title=BITS)
    tooltip = ["length:Q", alt.Tooltip("bits:Q", format=".3f"), alt.Tooltip("error:Q", format=".3f")]
    points = alt.Chart(rows).mark_line(point=alt.OverlayMarkDef(size=40, color=GPT), color=GPT)
    level = alt.Chart(pd.DataFrame({"bits": [bigram], "label": ["exact bigram"]}))
    chart = alt.layer(
        level.mark_rule(strokeDash=[4, 4], color=COLOURS["counted"]).encode(y=y),
        level.mark_text(align="right", dy=-7, color="currentColor").encode(y=y, x=alt.value("width"), text="label:N"),
        points.encode(x=x, y=y, tooltip=tooltip),
    )
    return finished(chart.properties(height=260), f"Score by {unit}s of context.")
