"""Draw the charts of the attention study. `bukva attention` writes them as PNG files next to attention.json."""

from pathlib import Path
from typing import Any

import altair as alt
import numpy as np
import pandas as pd

from bukva.core.files import atomic_folder, write_json
from bukva.report.charts import BITS, COLORS, GPT_COLOR, Spec, colors, reference_line, save, to_spec
from bukva.report.page.attention_section import NUMBERS, context, head_table, heat_map, worth

PANEL = 11  # side in pixels of the square that shows one attention weight
SECOND_ROLE = 0.1  # minimum score of a head's second-best role; the chart leaves out roles with a lower score
# colors of scores without and with the scale, and of models without and with the mask
RAW, SCALED = GPT_COLOR, COLORS["learned"]
UPRIGHT, BARE = alt.Axis(labelAngle=0), alt.Axis(labelAngle=0, ticks=False, domain=False)


def attention_report(numbers: dict[str, Any], folder: Path, model: str) -> None:
    """Write attention.json and a PNG of each chart to `folder`, which is replaced atomically.

    `numbers` is the result of attention_study.study, and `model` the digest of the studied weights. The report page
    shows the study only for a GPT with these weights.
    """
    charts = {chart.__name__: chart(numbers) for chart in (heads, scale, worth, context, leak)}
    for state in numbers["weights"]:
        charts[f"weights_{state}"] = weights_of_heads(numbers, state)
    with atomic_folder(folder) as unfinished:
        write_json(unfinished / NUMBERS, {"digest": model, **numbers})
        save(charts, unfinished)


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


def heads(numbers: dict[str, Any]) -> Spec:
    """Draw three tables, with a row per layer and a column per head: entropy, mean distance and best roles."""
    table = head_table(numbers, "trained")
    table["roles"] = table["roles"].map(_two_roles)
    n_layer, n_head = table[["layer", "head"]].max()
    farthest, distance = table["distance"].max(), f"mean distance, {numbers['unit']}s"
    tables = (
        ("entropy", alt.Text("entropy:Q", format=".2f"), 1.0, 45, "entropy, 1 = plain average"),
        ("distance", alt.Text("distance:Q", format=".2f"), farthest, 45, distance),
        ("score", alt.Text("roles:N"), 1.0, 165, "best role, and the second best role below it"),
    )
    x, y = alt.X("head:O", axis=BARE), alt.Y("layer:O", axis=BARE)
    panels = [
        _cells(table, x, y, value, text, top).properties(
            width=int(width * n_head), height=int(42 * n_layer), title=title
        )
        for value, text, top, width, title in tables
    ]
    return to_spec(alt.hconcat(*panels), "What each head does.", wide=False)


def _two_roles(scores: dict[str, float]) -> str:
    """Format the best role of a head with its score, and the second best if its score is high enough."""
    (best, most), (second, score), *_ = sorted(scores.items(), key=lambda item: -item[1])
    return f"{best} {most:.2f}" + (f"\n({second} {score:.2f})" if score >= SECOND_ROLE else "")


def _cells(rows: pd.DataFrame, x: alt.X, y: alt.Y, value: str, text: alt.Text, top: float) -> alt.LayerChart:
    """Draw a table whose cells contain text and have colors."""
    base = alt.Chart(rows).encode(x=x, y=y)
    color = alt.Color(f"{value}:Q", scale=alt.Scale(scheme="blues", domain=[0, top]), legend=None)
    ink = alt.condition(f"datum['{value}'] > {0.6 * top}", alt.value("white"), alt.value("#262626"))
    labels = base.mark_text(lineBreak="\n", fontSize=11).encode(text=text, color=ink)
    return (base.mark_rect().encode(color=color) + labels).resolve_scale(color="independent")


def leak(numbers: dict[str, Any]) -> Spec:
    """Draw the losses of a small GPT that was trained with the causal mask and without it."""
    leaked = numbers["leak"]
    models = {"masked": SCALED, "unmasked": RAW}
    inside = pd.DataFrame({"step": leaked["steps"], **{name: leaked[name]["in_sight"] for name in models}})
    losses = inside.melt("step", var_name="model", value_name="bits")
    losses["colour"] = losses["model"].map(models)
    after = pd.DataFrame({"model": name, "bits": leaked[name]["out_of_sight"]} for name in models)
    color, text = colors(losses, "model"), alt.Text("bits:Q", format=".2f")
    y = alt.Y("bits:Q", title=f"{BITS}, on val")
    lines = alt.Chart(losses).encode(x=alt.X("step:Q", title="updates"), y=y, color=color)
    ends = lines.transform_filter(f"datum.step == {leaked['steps'][-1]}").mark_text(dx=-4, dy=-10, align="right")
    bars = alt.Chart(after).encode(x=alt.X("model:N", title=None, axis=UPRIGHT), y=y, color=color)
    size = f"{leaked['n_layer']} blocks, windows of {leaked['block_size']} {numbers['unit']}s"
    left = (lines.mark_line() + ends.encode(text=text)).properties(
        width=440, height=260, title=f"targets inside the window ({size})"
    )
    right = (bars.mark_bar() + bars.mark_text(dy=-8).encode(text=text)).properties(
        width=180, height=260, title="the target after the window"
    )
    return to_spec(alt.hconcat(left, right), "Losses with and without the mask.", wide=False)


def scale(numbers: dict[str, Any]) -> Spec:
    """Draw what changes when attention scores are divided by the square root of the head size.

    The charts show the variance of the scores, and the largest weight and the entropy after the softmax.
    """
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
