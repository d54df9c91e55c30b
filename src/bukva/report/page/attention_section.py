"""Build the section of the report page about attention, from the numbers that `bukva attention` has written."""

from pathlib import Path
from typing import Any

import altair as alt
import numpy as np
import numpy.typing as npt
import pandas as pd

from bukva.compare.statistics.wording import DIGITS
from bukva.core.files import read_json
from bukva.core.words import count
from bukva.report.charts import BITS, COLORS, GPT_COLOR, ROW, Spec, reference_line, to_spec, tooltips, visible

NUMBERS = "attention.json"
WEIGHT_DIGITS = 3  # decimal places of an attention weight in a chart
LEAST_WEIGHT = 0.005  # smaller attention weights are not drawn
CELL = 17  # pixels; side of the square that shows one attention weight
MOST_BARS = 24  # maximum number of heads in the chart that `worth` draws
MISSING = (
    "The attention of this GPT has not been studied. Run `bukva attention` to study the GPT of the last run (this "
    "takes half a minute). To study another experiment, run `dvc exp apply` first."
)


def section(folder: Path, model: str) -> dict[str, Any]:
    """Return the contents of the page section about attention, from attention.json in `folder`.

    If the file is missing or about another GPT than the one whose weights have the digest `model`, the only content is
    `missing`: a sentence about what to do.
    """
    path = folder / NUMBERS
    numbers = read_json(path) if path.exists() else {}
    if numbers.get("digest") != model:
        return {"missing": MISSING}
    trained = head_table(numbers, "trained")
    roles = trained.pivot(index="layer", columns="head", values="best")
    return {
        "missing": "",
        "intro": f"The first chart shows the attention weights of a head on «{numbers['sentence']}». Each row shows "
        "how one position distributes its attention. The weights of a row sum to 1. The role of a head is the kind of "
        "character to which the head attends much more than the plain average does. Roles were measured over "
        f"{count(numbers['windows']['n'], 'window')} of val.",
        "header": ["layer", *(f"head {head}" for head in roles)],
        "rows": roles.reset_index().to_numpy().tolist(),
        "weights": {
            name: _weights_of_head(numbers, name, weights)
            for name, weights in zip(trained["name"], np.concatenate(numbers["weights"]["trained"]), strict=True)
        },
        "worth": worth(numbers),
        "context": context(numbers),
    }


def head_table(numbers: dict[str, Any], state: str) -> pd.DataFrame:
    """Return the statistics of the heads in a state of the GPT, "untrained" or "trained", one row per head.

    Column `best` is added for the best role with its score, and column `name` for the name of the head with this text.
    """
    rows = pd.DataFrame(head for head in numbers["heads"] if head["state"] == state)
    rows["best"] = rows["role"] + rows["score"].map(" {:.2f}".format)
    rows["name"] = [f"layer {head.layer}, head {head.head}: {head.best}" for head in rows.itertuples()]
    return rows


def _weights_of_head(numbers: dict[str, Any], name: str, weights: npt.NDArray[np.floating]) -> Spec:
    """Draw the attention weights (T, T) of one head."""
    chart = heat_map(numbers["parts"], {name: weights}, CELL)
    return to_spec(chart.properties(height=CELL * len(weights)), f"Attention weights: {name}.")


def heat_map(parts: list[str], weights: dict[str, npt.NDArray[np.floating]], cell: int) -> alt.Chart:
    """Draw attention weights as rectangles. A larger weight is drawn as a more opaque rectangle.

    Args:
        parts: the T characters or tokens of the sentence.
        weights: (T, T) weights of each head, by name of the head. The names become column `head` of the chart's data.
        cell: the width of a rectangle in pixels, from which the font size is computed. The caller sets the size of the
            chart.
    """
    labels = [f"{i:03}{visible(part)}" for i, part in enumerate(parts)]  # numbered, because parts repeat
    rows = pd.DataFrame(
        {"head": name, "query": labels[t], "key": labels[s], "weight": round(float(weight), WEIGHT_DIGITS)}
        for name, of_head in weights.items()
        for (t, s), weight in np.ndenumerate(of_head)
        if weight >= LEAST_WEIGHT
    )
    axis = alt.Axis(
        labelExpr="slice(datum.label, 3)",
        labelAngle=0,
        ticks=False,
        labelOverlap=False,
        labelFontSize=min(13, cell - 1),
    )
    return (
        alt.Chart(rows)
        .mark_rect(color=GPT_COLOR)
        .encode(
            x=alt.X("key:O", scale=alt.Scale(domain=labels), axis=axis),
            y=alt.Y("query:O", scale=alt.Scale(domain=labels), axis=axis),
            opacity=alt.Opacity("weight:Q", scale=alt.Scale(domain=[0, 1], range=[0, 1]), legend=None),
            tooltip=tooltips(rows),
        )
    )


def worth(numbers: dict[str, Any]) -> Spec:
    """Draw the bits that are lost if all heads, or one of the MOST_BARS best, average instead of attending."""
    lost = numbers["worth"]
    names = head_table(numbers, "trained")["name"]
    each = pd.DataFrame({"label": names, "value": np.ravel(lost["heads_uniform"]), "colour": GPT_COLOR})
    whole = pd.DataFrame([{"label": "all heads", "value": lost["all_uniform"], "colour": COLORS["counted"]}])
    table = pd.concat([whole, each.sort_values("value", ascending=False)[:MOST_BARS]])
    table["value"] = table["value"].round(DIGITS) + 0.0  # Vega would write -0.000
    base = alt.Chart(table).encode(
        x=alt.X("value:Q", title=f"{BITS} lost on val; the score with all heads is {lost['bits_per_char']:.3f}"),
        y=alt.Y("label:N", sort=table["label"].tolist(), title=None, axis=alt.Axis(labelLimit=0)),
    )
    bars = base.mark_bar().encode(color=alt.Color("colour:N", scale=None, legend=None))
    values = base.mark_text(align="left", dx=4, color="currentColor").encode(text=alt.Text("value:Q", format="+.3f"))
    return to_spec((bars + values).properties(height=ROW * len(table)), "Bits per character lost without each head.")


def context(numbers: dict[str, Any]) -> Spec:
    """Draw the score of the GPT by the length of its context.

    An error bar is the standard error of the difference between a score and the score with the full context.
    """
    scores, unit = numbers["context"], numbers["unit"]
    table = pd.DataFrame(scores["lengths"]).rename(columns={"chars": "length", "bits_per_char": "bits"})
    error = table.pop("standard_error")
    table["low"], table["high"] = table["bits"] - error, table["bits"] + error
    lengths = alt.Axis(values=table["length"].tolist())
    y = alt.Y("bits:Q", scale=alt.Scale(zero=False), title=f"{BITS}, on val")
    base = alt.Chart(table).encode(
        x=alt.X("length:Q", scale=alt.Scale(type="log", base=2), axis=lengths, title=f"{unit}s of context"), y=y
    )
    chart = alt.layer(
        reference_line(scores["bigram_exact"], "exact bigram", y),
        base.mark_rule(color=GPT_COLOR).encode(y=alt.Y("low:Q", title=""), y2="high:Q"),
        base.mark_line(point=alt.OverlayMarkDef(size=40, color=GPT_COLOR), color=GPT_COLOR).encode(
            tooltip=tooltips(table)
        ),
        base.mark_text(align="left", dx=6, dy=-8, color="currentColor").encode(text=alt.Text("bits:Q", format=".2f")),
    )
    return to_spec(chart.properties(height=260), f"Score by {unit}s of context.")
