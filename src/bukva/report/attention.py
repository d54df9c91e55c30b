"""What attention does in a trained GPT: the charts of its study, as PNGs and as a section of the report page."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from bukva.core.files import atomic_folder, read_json, sha256, write_json
from bukva.project.stages import trained_models
from bukva.report.charts import BITS, COLOURS, GPT, MODELS, ROW, Spec, finished, level, save, visible
from bukva.report.page.experiment import Experiment

if TYPE_CHECKING:
    import altair as alt

    from bukva.interpret.study import Study  # it needs torch, and the page does not

Weights = npt.NDArray[np.floating]  # (n_layer, nh, T, T)

NUMBERS = "attention.json"
PLACES = 3  # decimal places of the weights in it
LEAST_WEIGHT = 0.005  # that is drawn
CELL, PANEL = 17, 11  # pixels of a weight where one head is drawn, and where all are
MOST_BARS = 24
SECOND_ROLE = 0.1  # least score of a second role that is named
RAW, SCALED = MODELS["gpt"], COLOURS["learned"]


def attention_report(study: "Study", folder: Path, model: str) -> None:
    """Write the folder in one step: attention.json, and a PNG of each chart.

    model: the digest of the weights that were studied; with it the report page knows whether they are still the last.
    """
    numbers = study.numbers
    trained = study.weights["trained"].astype(np.float64).round(PLACES).tolist()
    with atomic_folder(folder) as unfinished:
        write_json(unfinished / NUMBERS, {"model": model, **numbers, "weights": trained})
        save(pictures(numbers, study.weights), unfinished)


def pictures(numbers: dict[str, Any], weights: dict[str, Any]) -> dict[str, Spec]:
    """The charts of a study by name. weights: state -> (n_layer, nh, T, T)."""
    heat_maps = {f"weights_{state}": weights_of_heads(numbers, state, values) for state, values in weights.items()}
    return heat_maps | {
        "heads": heads(numbers),
        "scale": scale(numbers),
        "worth": worth(numbers),
        "context": context(numbers),
        "leak": leak(numbers),
        "forecast": forecast(numbers),
    }


def section(experiment: Experiment, folder: Path) -> tuple[dict[str, Any], dict[str, dict[str, Spec]]]:
    """What the heads of the GPT do, and the charts; or a sentence that says how to make them.

    folder: of the study.
    """
    path, weights = folder / NUMBERS, experiment.folder / trained_models()["gpt"].folder / "best.safetensors"
    numbers = read_json(path) if path.exists() else {}
    if numbers.get("model") != sha256(weights):
        return {"missing": _how(experiment)}, {}
    n_layer, n_head = np.shape(numbers["heads"]["trained"]["entropy"])
    page = {
        "missing": "",
        "intro": f"Each head on «{numbers['sentence']}», and over {numbers['windows']['n']} windows of val. A row is "
        "what one place attends to; it sums to 1.",
        "choices": [
            ("layer", "Layer", [(layer, layer + 1) for layer in range(n_layer)]),
            ("head", "Head", [(head, head + 1) for head in range(n_head)]),
        ],
        "header": ["layer", *(f"head {head + 1}" for head in range(n_head))],
        "rows": [[layer + 1, *(_role(numbers, layer, head) for head in range(n_head))] for layer in range(n_layer)],
    }
    maps = {
        f"{layer} {head}": weights_of_head(numbers, layer, head, np.array(numbers["weights"][layer][head]))
        for layer, head in np.ndindex(n_layer, n_head)
    }
    return page, {"weights": maps, "worth": {"": worth(numbers)}, "context": {"": context(numbers)}}


def _how(experiment: Experiment) -> str:
    """The sentence in place of a study."""
    revision = experiment.result.revision
    before = "" if revision.is_workspace or revision.name == "HEAD" else f"`dvc exp apply {revision.name}`, then "
    return (
        f"The attention of this GPT has not been studied. {before}`bukva attention` studies it, in half a minute; then "
        "look again (`bukva ui`), or run `bukva report` again."
    )


def _role(numbers: dict[str, Any], layer: int, head: int, state: str = "trained") -> str:
    role = numbers["heads"][state]["role"][layer][head]
    return f"{role['name']} {role['score']:.2f}"


def _name(numbers: dict[str, Any], layer: int, head: int, state: str = "trained") -> str:
    return f"layer {layer + 1}, head {head + 1}: {_role(numbers, layer, head, state)}"


# ---- the weights of heads on a sentence


def weights_of_head(numbers: dict[str, Any], layer: int, head: int, weights: Weights) -> Spec:
    """(T, T) weights of one head: rows are queries, columns are keys."""
    name = _name(numbers, layer, head)
    chart = _heat_map(numbers["parts"], {name: weights}, CELL).properties(height=CELL * len(numbers["parts"]))
    return finished(chart, f"Attention weights: {name}.")


def weights_of_heads(numbers: dict[str, Any], state: str, weights: Weights) -> Spec:
    """(n_layer, nh, T, T) weights of every head, each in a panel with its best role above."""
    import altair as alt

    n_layer, n_head, T, _ = weights.shape
    by_name = {_name(numbers, layer, head, state): weights[layer, head] for layer, head in np.ndindex(n_layer, n_head)}
    panels = (
        _heat_map(numbers["parts"], by_name, PANEL)
        .properties(width=PANEL * T, height=PANEL * T)
        .facet(alt.Facet("name:N", sort=list(by_name), title=None), columns=n_head)
        .properties(title=f"{state}: rows are queries, columns are keys; each row sums to 1; a role and its score")
    )
    return finished(panels, f"Attention weights of all heads, {state}.", wide=False)


def _heat_map(parts: list[str], by_name: dict[str, Weights], cell: int) -> "alt.Chart":
    """One rectangle for each weight of some size, in cells of so many pixels; column name tells heads apart."""
    import altair as alt

    named = [f"{i:03}{visible(part)}" for i, part in enumerate(parts)]  # a part may stand in the sentence twice
    rows = [
        {"name": name, "query": named[t], "key": named[s], "weight": float(weight)}
        for name, weights in by_name.items()
        for (t, s), weight in np.ndenumerate(weights)
        if weight >= LEAST_WEIGHT
    ]
    axis = alt.Axis(
        labelExpr="slice(datum.label, 3)",
        labelAngle=0,
        ticks=False,
        labelOverlap=False,
        labelFontSize=min(13, cell - 1),
    )
    return (
        alt.Chart(pd.DataFrame(rows))
        .mark_rect()
        .encode(
            x=alt.X("key:O", scale=alt.Scale(domain=named), axis=axis, title="key"),
            y=alt.Y("query:O", scale=alt.Scale(domain=named), axis=axis, title="query"),
            opacity=alt.Opacity("weight:Q", scale=alt.Scale(domain=[0, 1], range=[0, 1]), legend=None),
            color=alt.value(GPT),
            tooltip=[
                alt.Tooltip("from:N", title="query"),
                alt.Tooltip("to:N", title="key"),
                alt.Tooltip("weight:Q", format=".2f"),
            ],
        )
        .transform_calculate(**{"from": "slice(datum.query, 3)", "to": "slice(datum.key, 3)"})
    )


# ---- the heads over val


def heads(numbers: dict[str, Any]) -> Spec:
    """Layer by head: entropy relative to the plain average, mean distance, and what each head does."""
    import altair as alt

    found = numbers["heads"]["trained"]
    rows = [
        {
            "layer": layer + 1,
            "head": head + 1,
            "entropy": found["entropy"][layer][head],
            "distance": found["distance"][layer][head],
            "score": found["role"][layer][head]["score"],
            "roles": _roles(found, layer, head),
        }
        for layer, head in np.ndindex(np.shape(found["entropy"]))
    ]
    table = pd.DataFrame(rows)
    n_layer, n_head = np.shape(found["entropy"])
    for name in ("entropy", "distance"):
        table[f"{name} text"] = table[name].map("{:.2f}".format)
    panels = (
        ("entropy", "entropy text", 1.0, 45, "entropy, 1 = the plain average"),
        ("distance", "distance text", max(table["distance"]), 45, f"mean distance, {numbers['unit']}s"),
        ("score", "roles", 1.0, 165, "best fitting role, and the second best below it"),
    )
    drawn = [
        _table(table, "head", "layer", value, text, top, "blues", size=11).properties(
            width=width * n_head, height=38 * n_layer, title=title
        )
        for value, text, top, width, title in panels
    ]
    return finished(alt.hconcat(*drawn), "What each head does.", wide=False)


def _roles(found: dict[str, Any], layer: int, head: int) -> str:
    """The role of a head and its score; the second best role below it, if its score is not small."""
    role = found["role"][layer][head]
    others = {name: grid[layer][head] for name, grid in found["roles"].items() if name != role["name"]}
    second = max(others, key=others.__getitem__)
    below = f"\n({second} {others[second]:.2f})" if others[second] >= SECOND_ROLE else ""
    return f"{role['name']} {role['score']:.2f}{below}"


def _table(
    rows: pd.DataFrame, x: str, y: str, value: str, text: str, top: float, scheme: str, size: int
) -> "alt.LayerChart":
    """Cells that are darker the greater their value, up to top, with a text in each."""
    import altair as alt

    place = {"labelAngle": 0, "ticks": False, "domain": False}
    base = alt.Chart(rows).encode(x=alt.X(f"{x}:O", axis=alt.Axis(**place)), y=alt.Y(f"{y}:O", axis=alt.Axis(**place)))
    colour = alt.Color(f"{value}:Q", scale=alt.Scale(scheme=scheme, domain=[0, top]), legend=None)
    ink = alt.condition(f"datum['{value}'] > {0.6 * top}", alt.value("white"), alt.value("#262626"))
    cells = base.mark_rect().encode(color=colour)
    words = base.mark_text(lineBreak="\n", fontSize=size, dy=-5 if rows[text].str.contains("\n").any() else 0).encode(
        text=f"{text}:N", color=ink
    )
    return (cells + words).resolve_scale(color="independent")


def worth(numbers: dict[str, Any]) -> Spec:
    """Bits per character lost when a head takes the plain average instead of attending, the most first."""
    import altair as alt

    found = numbers["worth"]
    lost = np.array(found["heads_uniform"])
    alone = pd.DataFrame(
        {"label": _name(numbers, layer, head), "value": lost[layer, head], "colour": GPT}
        for layer, head in np.ndindex(*lost.shape)
    )
    whole = pd.DataFrame([{"label": "all heads", "value": found["all_uniform"], "colour": COLOURS["counted"]}])
    table = pd.concat([whole, alone.sort_values("value", ascending=False)[:MOST_BARS]])
    base = alt.Chart(table).encode(
        x=alt.X("value:Q", title=f"{BITS} lost on val; with all heads the score is {found['bits_per_char']:.3f}"),
        y=alt.Y("label:N", sort=table["label"].tolist(), title=None, axis=alt.Axis(labelLimit=0)),
        tooltip=["label:N", alt.Tooltip("value:Q", format="+.3f")],
    )
    bars = base.mark_bar().encode(color=alt.Color("colour:N", scale=None, legend=None))
    written = base.mark_text(align="left", dx=4, color="currentColor").encode(text=alt.Text("value:Q", format="+.3f"))
    return finished((bars + written).properties(height=ROW * len(table)), "What is lost without each head.")


# ---- context, the mask and the scale


def context(numbers: dict[str, Any]) -> Spec:
    """Scores by length of context, with the standard error of the difference to the whole block."""
    import altair as alt

    found, unit = numbers["context"], numbers["unit"]
    rows = [(row["chars"], row["bits_per_char"], row["standard_error"]) for row in found["lengths"]]
    table = pd.DataFrame(rows, columns=["length", "bits", "error"])
    table["low"], table["high"] = table["bits"] - table["error"], table["bits"] + table["error"]
    lengths = alt.Axis(values=table["length"].tolist())
    x = alt.X("length:Q", scale=alt.Scale(type="log", base=2), axis=lengths, title=f"{unit}s of context")
    y = alt.Y("bits:Q", scale=alt.Scale(zero=False), title=f"{BITS}, on val")
    base = alt.Chart(table).encode(x=x)
    chart = alt.layer(
        level(found["bigram_exact"], "exact bigram", y),
        base.mark_rule(color=GPT).encode(y=alt.Y("low:Q", title=""), y2="high:Q"),
        base.mark_line(point=alt.OverlayMarkDef(size=40, color=GPT), color=GPT).encode(
            y=y,
            tooltip=["length:Q", alt.Tooltip("bits:Q", format=".3f"), alt.Tooltip("error:Q", format=".3f")],
        ),
        base.mark_text(align="left", dx=6, dy=-8, color="currentColor").encode(
            y=y, text=alt.Text("bits:Q", format=".2f")
        ),
    )
    return finished(chart.properties(height=260), f"Score by {unit}s of context.")


def leak(numbers: dict[str, Any]) -> Spec:
    """Losses with the mask and without it: on targets in the window, and on the one after it."""
    import altair as alt

    found = numbers["leak"]
    colour = alt.Color(
        "model:N",
        scale=alt.Scale(domain=["masked", "unmasked"], range=[SCALED, RAW]),
        legend=alt.Legend(title=None, orient="top"),
    )
    losses = pd.DataFrame(
        {"model": name, "step": step, "bits": value}
        for name in ("masked", "unmasked")
        for step, value in zip(found["steps"], found[name]["in_sight"], strict=True)
    )
    inside = (
        f"targets inside the window ({found['n_layer']} blocks, windows of {found['block_size']} {numbers['unit']}s)"
    )
    lines = alt.Chart(losses).mark_line(strokeWidth=2).encode(
        x=alt.X("step:Q", title="updates"), y=alt.Y("bits:Q", title=f"{BITS}, on val"), color=colour
    )  # fmt: skip
    ends = lines.mark_text(dx=-4, dy=-10, align="right").transform_filter(f"datum.step == {found['steps'][-1]}")
    after = pd.DataFrame({"model": name, "bits": found[name]["out_of_sight"]} for name in ("masked", "unmasked"))
    base = alt.Chart(after).encode(
        x=alt.X("model:N", title=None, axis=alt.Axis(labelAngle=0)), y=alt.Y("bits:Q", title=None), color=colour
    )
    bars = base.mark_bar() + base.mark_text(dy=-8).encode(text=alt.Text("bits:Q", format=".2f"))
    panels = alt.hconcat(
        (lines + ends.encode(text=alt.Text("bits:Q", format=".2f"))).properties(width=440, height=260, title=inside),
        bars.properties(width=180, height=260, title="the target after the window"),
    )
    return finished(panels, "Losses with the mask and without it.", wide=False)


def scale(numbers: dict[str, Any]) -> Spec:
    """What dividing by the square root of the head size does to scores and to their softmax."""
    import altair as alt

    names = {"raw": "q·k", "scaled": "q·k / √hs"}
    colour = alt.Color(
        "scores:N",
        scale=alt.Scale(domain=list(names.values()), range=[RAW, SCALED]),
        legend=alt.Legend(title=None, orient="top"),
    )
    variances = pd.DataFrame(
        {"scores": names[name], "state": state, "layer": str(layer + 1), "variance": value}
        for name, key in (("raw", "raw_variance"), ("scaled", "variance"))
        for state in ("untrained", "trained")
        for (layer, _), value in np.ndenumerate(np.array(numbers["heads"][state][key]))
    )
    states = ["untrained", "trained"]
    of_heads = (
        alt.Chart(variances)
        .mark_point(size=40, opacity=1)
        .encode(
            x=alt.X("layer:O", title="layer; each mark is a head", axis=alt.Axis(labelAngle=0)),
            xOffset=alt.XOffset("state:N", sort=states),
            y=alt.Y("variance:Q", scale=alt.Scale(type="log"), title=None),
            color=colour,
            shape=alt.Shape(
                "state:N", sort=states, scale=alt.Scale(domain=states, range=["cross", "circle"]),
                legend=alt.Legend(title=None, orient="top"),
            ),
        )
        .properties(width=300, height=240, title="variance of the scores of this model")
    )  # fmt: skip
    random = pd.DataFrame(
        {"scores": names[name], "size": row["head_size"], **row[name]} for row in numbers["scale"] for name in names
    )
    sizes = alt.X("size:O", title="head size", axis=alt.Axis(labelAngle=0))
    panels = []
    for key, title in (("peak", "largest of 64 weights"), ("entropy", "entropy of 64 weights, nats")):
        y = alt.Y(f"{key}:Q", title=None, scale=alt.Scale(zero=True))
        lines = alt.Chart(random).mark_line(point=True).encode(x=sizes, y=y, color=colour)
        chart = lines + level(float(np.log(64)), "plain average", y) if key == "entropy" else lines
        panels.append(chart.properties(width=220, height=240, title=f"random queries and keys: {title}"))
    return finished(alt.hconcat(of_heads, *panels), "Scores with the scale and without it.", wide=False)


# ---- from logits to text


def forecast(numbers: dict[str, Any]) -> Spec:
    """Along a text that the model wrote: the five likeliest characters at each place, and the entropy."""
    import altair as alt

    found, unit = numbers["forecast"], numbers["unit"]
    chars = found["chars"]
    top = [
        {"at": at, "place": f"{place}.", "text": visible(text), "share": share, "drawn": text == char["char"]}
        for at, char in enumerate(chars)
        for place, (text, share) in enumerate(char["top"], start=1)
    ]
    entropies = [
        {"at": at, "temperature": temperature, "bits": value, "text": f"{value:.1f}"}
        for at, char in enumerate(chars)
        for temperature, value in zip(found["temperatures"], char["entropy"], strict=True)
    ]
    written = [visible(char["char"]) for char in chars]
    column = 14 + 10 * max(len(row["text"]) for row in top)
    likeliest = _table(pd.DataFrame(top), "at", "place", "share", "text", 1.0, "blues", size=14)
    frame = likeliest.layer[0].mark_rect(filled=False, stroke=RAW, strokeWidth=2).encode(color=alt.value(RAW))
    above = (likeliest + frame.transform_filter("datum.drawn")).properties(
        width=column * len(chars),
        height=170,
        title=f"after «{' '.join(found['prompt'].split())}»: the likeliest next {unit}s; framed: the one drawn (below)",
    )
    most = max(row["bits"] for row in entropies)
    below = _table(pd.DataFrame(entropies), "at", "temperature", "bits", "text", most, "oranges", size=10)
    below = below.properties(width=column * len(chars), height=130)
    for layer in below.layer:
        layer.encoding.x.axis = alt.Axis(
            labelExpr=f"{written}[datum.value]", labelAngle=0, ticks=False, domain=False, labelFontSize=14
        )
        layer.encoding.x.title = f"the {unit} drawn; above it: entropy of its distribution in bits, by temperature"
    for layer in above.layer:
        layer.encoding.x.axis, layer.encoding.y.title = None, None
    return finished(alt.vconcat(above, below), f"The likeliest next {unit}s along a text.", wide=False)
