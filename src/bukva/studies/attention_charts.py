"""Draw the charts of the attention study, as PNG files and for the report page."""

from pathlib import Path
from typing import Any

import altair as alt
import numpy as np
import numpy.typing as npt
import pandas as pd
import vl_convert

from bukva.core.files import atomic_file, atomic_folder, write_json
from bukva.core.words import count
from bukva.report.charts import BITS, COLORS, GPT_COLOR, ROW, Spec, colors, to_spec, tooltips
from bukva.report.page import STUDY
from bukva.report.terminal import DIGITS

WEIGHT_DIGITS = 3  # decimal places of an attention weight in a chart
LEAST_WEIGHT = 0.005  # smaller attention weights are not drawn
CELL, PANEL = 17, 11  # pixels; side of the square that shows one attention weight, on the page and in PNGs
MOST_BARS = 24  # maximum number of heads in the chart that `worth` draws
SECOND_ROLE = 0.1  # minimum score of a head's second-best role; the chart leaves out roles with a lower score
# colors of scores without and with the scale, and of models without and with the mask
RAW, SCALED = GPT_COLOR, COLORS["learned"]
UPRIGHT, BARE = alt.Axis(labelAngle=0), alt.Axis(labelAngle=0, ticks=False, domain=False)
WHITESPACE_SYMBOLS = {"\n": "⏎", " ": "␣", "\t": "⇥"}
WIDTH = 700  # pixels before scaling: width of the PNG of a chart that fills its container on a page
SCALE = 1.25  # scale factor of PNGs


def attention_report(numbers: dict[str, Any], folder: Path, model: str) -> None:
    """Write attention.json and a PNG of each chart, black on white, to `folder`, which is replaced atomically.

    `model` is the digest of the studied weights: the report page shows the study only for a GPT with these.
    """
    charts = {chart.__name__: chart(numbers) for chart in (heads, scale, worth, context, leak)}
    for state in numbers["weights"]:
        charts[f"weights_{state}"] = weights_of_heads(numbers, state)
    with atomic_folder(folder) as unfinished:
        write_json(unfinished / STUDY.name, {"digest": model, **numbers, "page": page(numbers)})
        for name, spec in charts.items():
            wide = {"width": WIDTH, "autosize": "pad"} if spec.get("width") == "container" else {}
            with atomic_file(unfinished / f"{name}.png") as file:
                file.write_bytes(vl_convert.vegalite_to_png({**spec, "background": "white", **wide}, scale=SCALE))


def page(numbers: dict[str, Any]) -> dict[str, Any]:
    """Return the contents of the section about attention of the report page."""
    trained = head_table(numbers, "trained")
    roles = trained.pivot(index="layer", columns="head", values="best")
    weights = {}
    for name, of_head in zip(trained["name"], np.concatenate(numbers["weights"]["trained"]), strict=True):
        chart = heat_map(numbers["parts"], {name: of_head}, CELL).properties(height=CELL * len(of_head))
        weights[name] = to_spec(chart, f"Attention weights: {name}.")
    return {
        "intro": f"The first chart shows the attention weights of a head on «{numbers['sentence']}». Each row shows "
        "how one position distributes its attention. The weights of a row sum to 1. The role of a head is the kind of "
        "character to which the head attends much more than the plain average does. Roles were measured over "
        f"{count(numbers['windows']['n'], 'window')} of val.",
        "header": ["layer", *(f"head {head}" for head in roles)],
        "rows": roles.reset_index().to_numpy().tolist(),
        "weights": weights,
        "worth": worth(numbers),
        "context": context(numbers),
    }


def head_table(numbers: dict[str, Any], state: str) -> pd.DataFrame:
    """Return the statistics of the heads in a state, one row per head, with its `best` role as text and its `name`."""
    rows = pd.DataFrame(head for head in numbers["heads"] if head["state"] == state)
    rows["best"] = rows["role"] + rows["score"].map(" {:.2f}".format)
    rows["name"] = [f"layer {head.layer}, head {head.head}: {head.best}" for head in rows.itertuples()]
    return rows


def weights_of_heads(numbers: dict[str, Any], state: str) -> Spec:
    """Draw the attention weights of each head on the sentence, in one panel per head."""
    n_head, T, _ = np.shape(numbers["weights"][state][0])
    weights = dict(zip(head_table(numbers, state)["name"], np.concatenate(numbers["weights"][state]), strict=True))
    panels = (
        heat_map(numbers["parts"], weights, PANEL)
        .properties(width=PANEL * T, height=PANEL * T)
        .facet(alt.Facet("head:N", sort=list(weights), title=None), columns=n_head)
        .properties(
            title=f"{state}: rows are queries, columns are keys; each row sums to 1; titles: best role and its score"
        )
    )
    return to_spec(panels, f"Attention weights of all heads, {state}.", wide=False)


def heat_map(parts: list[str], weights: dict[str, npt.NDArray[np.floating]], cell: int) -> alt.Chart:
    """Draw the attention weights (T, T) of heads, by name of the head, as more or less opaque rectangles.

    `parts` are the T characters or tokens of the sentence, and `cell` is the width of a rectangle in pixels.
    """
    labels = [f"{i:03}{visible(part)}" for i, part in enumerate(parts)]  # numbered, because parts repeat
    rows = pd.DataFrame(
        {"head": name, "query": labels[t], "key": labels[s], "weight": round(float(weight), WEIGHT_DIGITS)}
        for name, of_head in weights.items()
        for (t, s), weight in np.ndenumerate(of_head)
        if weight >= LEAST_WEIGHT
    )
    size = min(13, cell - 1)
    axis = alt.Axis(
        labelExpr="slice(datum.label, 3)", labelAngle=0, ticks=False, labelOverlap=False, labelFontSize=size
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


def visible(text: str) -> str:
    """Replace newlines, spaces and tabs by visible symbols, and other unprintable characters by codes like U+200B."""
    return "".join(
        WHITESPACE_SYMBOLS.get(char) or (char if char.isprintable() else f"U+{ord(char):04X}") for char in text
    )


def heads(numbers: dict[str, Any]) -> Spec:
    """Draw three tables, with a row per layer and a column per head: entropy, mean distance and best roles."""
    table = head_table(numbers, "trained")
    table["roles"] = table["roles"].map(_two_roles)
    n_layer, n_head = table[["layer", "head"]].max()
    base = alt.Chart(table).encode(x=alt.X("head:O", axis=BARE), y=alt.Y("layer:O", axis=BARE))
    panels = []
    for value, text, top, width, title in (
        ("entropy", alt.Text("entropy:Q", format=".2f"), 1.0, 45, "entropy, 1 = plain average"),
        ("distance", alt.Text("distance:Q", format=".2f"), table["distance"].max(), 45,
         f"mean distance, {numbers['unit']}s"),
        ("score", alt.Text("roles:N"), 1.0, 165, "best role, and the second best role below it"),
    ):  # fmt: skip
        color = alt.Color(f"{value}:Q", scale=alt.Scale(scheme="blues", domain=[0, top]), legend=None)
        ink = alt.condition(f"datum['{value}'] > {0.6 * top}", alt.value("white"), alt.value("#262626"))
        labels = base.mark_text(lineBreak="\n", fontSize=11).encode(text=text, color=ink)
        panel = (base.mark_rect().encode(color=color) + labels).resolve_scale(color="independent")
        panels.append(panel.properties(width=int(width * n_head), height=int(42 * n_layer), title=title))
    return to_spec(alt.hconcat(*panels), "What each head does.", wide=False)


def _two_roles(scores: dict[str, float]) -> str:
    """Format the best role of a head with its score, and the second best if its score is high enough."""
    (best, most), (second, score), *_ = sorted(scores.items(), key=lambda item: -item[1])
    return f"{best} {most:.2f}" + (f"\n({second} {score:.2f})" if score >= SECOND_ROLE else "")


def leak(numbers: dict[str, Any]) -> Spec:
    """Draw the losses of a small GPT that was trained with the causal mask and without it."""
    leaked, models = numbers["leak"], {"masked": SCALED, "unmasked": RAW}
    inside = pd.DataFrame({"step": leaked["steps"], **{name: leaked[name]["in_sight"] for name in models}})
    losses = inside.melt("step", var_name="model", value_name="bits")
    losses["colour"] = losses["model"].map(models)
    size = f"{leaked['n_layer']} blocks, windows of {leaked['block_size']} {numbers['unit']}s"
    base = alt.Chart(losses, width=440, height=260, title=f"targets inside the window ({size})").encode(
        x=alt.X("step:Q", title="updates"), y=alt.Y("bits:Q", title=f"{BITS}, on val"), color=colors(losses, "model")
    )
    ends = base.transform_filter(f"datum.step == {leaked['steps'][-1]}").mark_text(dx=-4, dy=-10, align="right")
    lines = base.mark_line() + ends.encode(text=alt.Text("bits:Q", format=".2f"))
    return to_spec(lines, "Losses with and without the mask.", wide=False)


def scale(numbers: dict[str, Any]) -> Spec:
    """Draw what changes when attention scores are divided by the square root of the head size."""
    random = pd.DataFrame(numbers["scale"])
    raw, scaled = random["scores"].unique()
    of_model = pd.DataFrame(numbers["heads"]).rename(columns={"raw_variance": raw, "variance": scaled})
    variances = of_model.melt(["state", "layer"], [raw, scaled], "scores", "variance")
    variances["colour"] = variances["scores"].map({raw: RAW, scaled: SCALED})
    color, top = colors(variances, "scores"), alt.Legend(title=None, orient="top")
    states = ["untrained", "trained"]
    shapes = alt.Scale(domain=states, range=["cross", "circle"])
    of_heads = (
        alt.Chart(variances)
        .mark_point(size=40, opacity=1)
        .encode(
            x=alt.X("layer:O", title="layer; each mark is a head", axis=UPRIGHT),
            xOffset=alt.XOffset("state:N", sort=states),
            y=alt.Y("variance:Q", scale=alt.Scale(type="log"), title=None),
            color=color,
            shape=alt.Shape("state:N", sort=states, scale=shapes, legend=top),
        )
        .properties(width=300, height=240, title="variance of the scores of this model")
    )
    size = alt.X("head_size:O", title="head size", axis=UPRIGHT)
    lines = alt.Chart(random).mark_line(point=True).encode(x=size, color=color)
    peak, entropy = alt.Y("peak:Q", title=None), alt.Y("entropy:Q", title=None)
    sharp = lines.encode(y=peak).properties(title="random queries and keys: largest of 64 weights")
    even = (lines.encode(y=entropy) + reference_line(float(np.log(64)), "plain average", entropy)).properties(
        title="random queries and keys: entropy of 64 weights, nats"
    )
    panels = [panel.properties(width=220, height=240) for panel in (sharp, even)]
    return to_spec(alt.hconcat(of_heads, *panels), "Scores with and without the scale.", wide=False)


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

    Error bars are standard errors of the difference from the score with the full context.
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
    points = base.mark_line(point=alt.OverlayMarkDef(size=40, color=GPT_COLOR), color=GPT_COLOR)
    values = base.mark_text(align="left", dx=6, dy=-8, color="currentColor")
    chart = alt.layer(
        reference_line(scores["bigram_exact"], "exact bigram", y),
        base.mark_rule(color=GPT_COLOR).encode(y=alt.Y("low:Q", title=""), y2="high:Q"),
        points.encode(tooltip=tooltips(table)),
        values.encode(text=alt.Text("bits:Q", format=".2f")),
    )
    return to_spec(chart.properties(height=260), f"Score by {unit}s of context.")


def reference_line(value: float, label: str, y: alt.Y) -> alt.LayerChart:
    """Draw a dashed horizontal line at `value` of the axis `y`, with `label` above its right end."""
    name = str(y.shorthand).partition(":")[0]
    base = alt.Chart(pd.DataFrame({name: [value], "label": [f"{label} {value:.2f}"]})).encode(y=y)
    line = base.mark_rule(strokeDash=[4, 4], color=COLORS["counted"])
    return line + base.mark_text(align="right", dy=-8, color="currentColor").encode(
        x=alt.value("width"), text="label:N"
    )
