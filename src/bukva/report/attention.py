"""What attention does in a trained GPT: the charts of its study, as PNGs and as a section of the report page."""

from pathlib import Path
from typing import Any

import altair as alt
import numpy as np
import numpy.typing as npt
import pandas as pd

from bukva.core.files import atomic_folder, read_json, write_json
from bukva.report.charts import BITS, COLOURS, GPT, ROW, Spec, colours, finished, level, save, tips, visible

NUMBERS = "attention.json"
PLACES = 3  # decimal places of the weights that are drawn
LEAST_WEIGHT = 0.005  # that is drawn
CELL, PANEL = 17, 11  # pixels of a weight where one head is drawn, and where all are
MOST_BARS = 24
SECOND_ROLE = 0.1  # least score of a second role that is named
RAW, SCALED = GPT, COLOURS["learned"]
UPRIGHT, BARE = alt.Axis(labelAngle=0), alt.Axis(labelAngle=0, ticks=False, domain=False)
MISSING = (
    "The attention of this GPT has not been studied. `bukva attention` studies that of the last run, in half a minute; "
    "for another experiment, `dvc exp apply` it before."
)


def attention_report(numbers: dict[str, Any], folder: Path, model: str) -> None:
    """Write the folder in one step: attention.json, and a PNG of each chart.

    model: the digest of the weights that were studied; with it the report page knows whether they are still the last.
    """
    charts = {chart.__name__: chart(numbers) for chart in (heads, scale, worth, context, leak, forecast)}
    for state in numbers["weights"]:
        charts[f"weights_{state}"] = weights_of_heads(numbers, state)
    with atomic_folder(folder) as unfinished:
        write_json(unfinished / NUMBERS, {"digest": model, **numbers})
        save(charts, unfinished)


def section(folder: Path, model: str) -> dict[str, Any]:
    """What the heads of a GPT do, with charts; or a sentence that says how to make them.

    Args:
        folder: of the study.
        model: the digest of the GPT's weights.
    """
    path = folder / NUMBERS
    numbers = read_json(path) if path.exists() else {}
    if numbers.get("digest") != model:
        return {"missing": MISSING}
    trained = _heads(numbers, "trained")
    roles = trained.pivot(index="layer", columns="head", values="best")
    return {
        "missing": "",
        "intro": f"Each head on «{numbers['sentence']}», and over {numbers['windows']['n']} windows of val. A row is "
        "what one place attends to; it sums to 1.",
        "header": ["layer", *(f"head {head}" for head in roles)],
        "rows": roles.reset_index().to_numpy().tolist(),
        "weights": {
            name: weights_of_head(numbers, name, weights)
            for name, weights in zip(trained["name"], np.concatenate(numbers["weights"]["trained"]), strict=True)
        },
        "worth": worth(numbers),
        "context": context(numbers),
    }


def _heads(numbers: dict[str, Any], state: str) -> pd.DataFrame:
    """The heads of one state, a row each, with their best role and its score as text, and a name."""
    found = pd.DataFrame(head for head in numbers["heads"] if head["state"] == state)
    found["best"] = found["role"] + found["score"].map(" {:.2f}".format)
    found["name"] = [f"layer {head.layer}, head {head.head}: {head.best}" for head in found.itertuples()]
    return found


# ---- the weights of heads on a sentence


def weights_of_head(numbers: dict[str, Any], name: str, weights: npt.NDArray[np.floating]) -> Spec:
    """(T, T) weights of one head: rows are queries, columns are keys."""
    chart = _heat_map(numbers["parts"], {name: weights}, CELL)
    return finished(chart.properties(height=CELL * len(weights)), f"Attention weights: {name}.")


def weights_of_heads(numbers: dict[str, Any], state: str) -> Spec:
    """The weights of every head, each in a panel with its best role above."""
    n_head, T, _ = np.shape(numbers["weights"][state][0])
    by_name = dict(zip(_heads(numbers, state)["name"], np.concatenate(numbers["weights"][state]), strict=True))
    panels = (
        _heat_map(numbers["parts"], by_name, PANEL)
        .properties(width=PANEL * T, height=PANEL * T)
        .facet(alt.Facet("head:N", sort=list(by_name), title=None), columns=n_head)
        .properties(title=f"{state}: rows are queries, columns are keys; each row sums to 1; a role and its score")
    )
    return finished(panels, f"Attention weights of all heads, {state}.", wide=False)


def _heat_map(parts: list[str], by_name: dict[str, npt.NDArray[np.floating]], cell: int) -> alt.Chart:
    """One rectangle for each weight of some size, in cells of so many pixels; column head tells heads apart."""
    named = [f"{i:03}{visible(part)}" for i, part in enumerate(parts)]  # a part may stand in the sentence twice
    rows = pd.DataFrame(
        {"head": name, "query": named[t], "key": named[s], "weight": round(float(weight), PLACES)}
        for name, weights in by_name.items()
        for (t, s), weight in np.ndenumerate(weights)
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
        .mark_rect(color=GPT)
        .encode(
            x=alt.X("key:O", scale=alt.Scale(domain=named), axis=axis),
            y=alt.Y("query:O", scale=alt.Scale(domain=named), axis=axis),
            opacity=alt.Opacity("weight:Q", scale=alt.Scale(domain=[0, 1], range=[0, 1]), legend=None),
            tooltip=tips(rows),
        )
    )


# ---- the heads over val


def heads(numbers: dict[str, Any]) -> Spec:
    """Layer by head: entropy relative to the plain average, mean distance, and what each head does."""
    found = _heads(numbers, "trained")
    found["roles"] = found["roles"].map(_two_roles)
    n_layer, n_head = found[["layer", "head"]].max()
    panels = (
        ("entropy", alt.Text("entropy:Q", format=".2f"), 1.0, 45, "entropy, 1 = the plain average"),
        (
            "distance",
            alt.Text("distance:Q", format=".2f"),
            found["distance"].max(),
            45,
            f"mean distance, {numbers['unit']}s",
        ),
        ("score", alt.Text("roles:N"), 1.0, 165, "best fitting role, and the second best below it"),
    )
    x, y = alt.X("head:O", axis=BARE), alt.Y("layer:O", axis=BARE)
    drawn = [
        _table(found, x, y, value, text, top, "blues", size=11).properties(
            width=int(width * n_head), height=int(42 * n_layer), title=title
        )
        for value, text, top, width, title in panels
    ]
    return finished(alt.hconcat(*drawn), "What each head does.", wide=False)


def _two_roles(scores: dict[str, float]) -> str:
    """The best role of a head and its score; the second best below it, if its score is not small."""
    (best, most), (second, score), *_ = sorted(scores.items(), key=lambda item: -item[1])
    return f"{best} {most:.2f}" + (f"\n({second} {score:.2f})" if score >= SECOND_ROLE else "")


def _table(
    rows: pd.DataFrame, x: alt.X, y: alt.Y, value: str, text: alt.Text, top: float, scheme: str, size: int
) -> alt.LayerChart:
    """Cells that are darker the greater their value, up to top, with a text in each."""
    base = alt.Chart(rows).encode(x=x, y=y)
    colour = alt.Color(f"{value}:Q", scale=alt.Scale(scheme=scheme, domain=[0, top]), legend=None)
    ink = alt.condition(f"datum['{value}'] > {0.6 * top}", alt.value("white"), alt.value("#262626"))
    words = base.mark_text(lineBreak="\n", fontSize=size).encode(text=text, color=ink)
    return (base.mark_rect().encode(color=colour) + words).resolve_scale(color="independent")


def worth(numbers: dict[str, Any]) -> Spec:
    """Bits per character lost when a head takes the plain average instead of attending, the most first."""
    found = numbers["worth"]
    names = _heads(numbers, "trained")["name"]
    alone = pd.DataFrame({"label": names, "value": np.ravel(found["heads_uniform"]), "colour": GPT})
    whole = pd.DataFrame([{"label": "all heads", "value": found["all_uniform"], "colour": COLOURS["counted"]}])
    table = pd.concat([whole, alone.sort_values("value", ascending=False)[:MOST_BARS]])
    base = alt.Chart(table).encode(
        x=alt.X("value:Q", title=f"{BITS} lost on val; with all heads the score is {found['bits_per_char']:.3f}"),
        y=alt.Y("label:N", sort=table["label"].tolist(), title=None, axis=alt.Axis(labelLimit=0)),
    )
    bars = base.mark_bar().encode(color=alt.Color("colour:N", scale=None, legend=None))
    written = base.mark_text(align="left", dx=4, color="currentColor").encode(text=alt.Text("value:Q", format="+.3f"))
    return finished((bars + written).properties(height=ROW * len(table)), "What is lost without each head.")


# ---- context, the mask and the scale


def context(numbers: dict[str, Any]) -> Spec:
    """Scores by length of context, with the standard error of the difference to the whole block."""
    found, unit = numbers["context"], numbers["unit"]
    table = pd.DataFrame(found["lengths"]).rename(columns={"chars": "length", "bits_per_char": "bits"})
    error = table.pop("standard_error")
    table["low"], table["high"] = table["bits"] - error, table["bits"] + error
    lengths = alt.Axis(values=table["length"].tolist())
    y = alt.Y("bits:Q", scale=alt.Scale(zero=False), title=f"{BITS}, on val")
    base = alt.Chart(table).encode(
        x=alt.X("length:Q", scale=alt.Scale(type="log", base=2), axis=lengths, title=f"{unit}s of context"), y=y
    )
    chart = alt.layer(
        level(found["bigram_exact"], "exact bigram", y),
        base.mark_rule(color=GPT).encode(y=alt.Y("low:Q", title=""), y2="high:Q"),
        base.mark_line(point=alt.OverlayMarkDef(size=40, color=GPT), color=GPT).encode(tooltip=tips(table)),
        base.mark_text(align="left", dx=6, dy=-8, color="currentColor").encode(text=alt.Text("bits:Q", format=".2f")),
    )
    return finished(chart.properties(height=260), f"Score by {unit}s of context.")


def leak(numbers: dict[str, Any]) -> Spec:
    """Losses with the mask and without it: on targets in the window, and on the one after it."""
    found = numbers["leak"]
    models = {"masked": SCALED, "unmasked": RAW}
    inside = pd.DataFrame({"step": found["steps"], **{name: found[name]["in_sight"] for name in models}})
    losses = inside.melt("step", var_name="model", value_name="bits")
    losses["colour"] = losses["model"].map(models)
    after = pd.DataFrame({"model": name, "bits": found[name]["out_of_sight"]} for name in models)
    colour, text = colours(losses, "model"), alt.Text("bits:Q", format=".2f")
    y = alt.Y("bits:Q", title=f"{BITS}, on val")
    lines = alt.Chart(losses).encode(x=alt.X("step:Q", title="updates"), y=y, color=colour)
    ends = lines.transform_filter(f"datum.step == {found['steps'][-1]}").mark_text(dx=-4, dy=-10, align="right")
    bars = alt.Chart(after).encode(x=alt.X("model:N", title=None, axis=UPRIGHT), y=y, color=colour)
    title = (
        f"targets inside the window ({found['n_layer']} blocks, windows of {found['block_size']} {numbers['unit']}s)"
    )
    panels = alt.hconcat(
        (lines.mark_line() + ends.encode(text=text)).properties(width=440, height=260, title=title),
        (bars.mark_bar() + bars.mark_text(dy=-8).encode(text=text)).properties(
            width=180, height=260, title="the target after the window"
        ),
    )
    return finished(panels, "Losses with the mask and without it.", wide=False)


def scale(numbers: dict[str, Any]) -> Spec:
    """What dividing by the square root of the head size does to scores and to their softmax."""
    random = pd.DataFrame(numbers["scale"])
    raw, scaled = random["scores"].unique()
    of_model = pd.DataFrame(numbers["heads"]).rename(columns={"raw_variance": raw, "variance": scaled})
    variances = of_model.melt(["state", "layer"], [raw, scaled], "scores", "variance")
    variances["colour"] = variances["scores"].map({raw: RAW, scaled: SCALED})
    colour, top = colours(variances, "scores"), alt.Legend(title=None, orient="top")
    states = ["untrained", "trained"]
    shapes = alt.Scale(domain=states, range=["cross", "circle"])
    of_heads = (
        alt.Chart(variances)
        .mark_point(size=40, opacity=1)
        .encode(
            x=alt.X("layer:O", title="layer; each mark is a head", axis=UPRIGHT),
            xOffset=alt.XOffset("state:N", sort=states),
            y=alt.Y("variance:Q", scale=alt.Scale(type="log"), title=None),
            color=colour,
            shape=alt.Shape("state:N", sort=states, scale=shapes, legend=top),
        )
        .properties(width=300, height=240, title="variance of the scores of this model")
    )
    size = alt.X("head_size:O", title="head size", axis=UPRIGHT)
    lines = alt.Chart(random).mark_line(point=True).encode(x=size, color=colour)
    peak, entropy = alt.Y("peak:Q", title=None), alt.Y("entropy:Q", title=None)
    sharp = lines.encode(y=peak).properties(title="random queries and keys: largest of 64 weights")
    even = (lines.encode(y=entropy) + level(float(np.log(64)), "plain average", entropy)).properties(
        title="random queries and keys: entropy of 64 weights, nats"
    )
    panels = [panel.properties(width=220, height=240) for panel in (sharp, even)]
    return finished(alt.hconcat(of_heads, *panels), "Scores with the scale and without it.", wide=False)


# ---- from logits to text


def forecast(numbers: dict[str, Any]) -> Spec:
    """Along a text that the model wrote: the five likeliest characters at each place, and the entropy."""
    found, unit = numbers["forecast"], numbers["unit"]
    chars = found["chars"]
    top = pd.DataFrame(
        {"at": at, "place": f"{place}.", "text": visible(text), "share": share, "drawn": text == char["char"]}
        for at, char in enumerate(chars)
        for place, (text, share) in enumerate(char["top"], start=1)
    )
    entropies = pd.DataFrame(
        {"at": at, "temperature": temperature, "bits": value}
        for at, char in enumerate(chars)
        for temperature, value in zip(found["temperatures"], char["entropy"], strict=True)
    )
    width = len(chars) * (14 + 10 * int(top["text"].str.len().max()))
    x, y = alt.X("at:O", axis=None), alt.Y("place:O", axis=BARE, title=None)
    likeliest = _table(top, x, y, "share", alt.Text("text:N"), 1.0, "blues", size=14)
    frame = alt.Chart(top).mark_rect(filled=False, stroke=RAW, strokeWidth=2).encode(x=x, y=y)
    above = (likeliest + frame.transform_filter("datum.drawn")).properties(
        width=width,
        height=170,
        title=f"after «{' '.join(found['prompt'].split())}»: the likeliest next {unit}s; framed: the one drawn (below)",
    )
    written = [visible(char["char"]) for char in chars]
    drawn = alt.Axis(labelExpr=f"{written}[datum.value]", labelAngle=0, ticks=False, domain=False, labelFontSize=14)
    title = f"the {unit} drawn; above it: entropy of its distribution in bits, by temperature"
    x, y = alt.X("at:O", axis=drawn, title=title), alt.Y("temperature:O", axis=BARE)
    below = _table(
        entropies, x, y, "bits", alt.Text("bits:Q", format=".1f"), entropies["bits"].max(), "oranges", size=10
    )
    panels = alt.vconcat(above, below.properties(width=width, height=130))
    return finished(panels, f"The likeliest next {unit}s along a text.", wide=False)
