"""Draw attention weights, for the page of the last run and for notebooks/attention.ipynb."""

from pathlib import Path

import altair as alt
import numpy as np
import numpy.typing as npt
import pandas as pd
import torch
from torch import Tensor

from bukva.models.attention import explain
from bukva.models.folder import load_model
from bukva.models.gpt import GPT
from bukva.report.charts import GPT_COLOR, Spec, to_spec, tooltips

LENGTH = 24  # maximum number of positions; the chart of a longer text is not legible
CELL = 17  # pixels; side of the square that shows one attention weight
WEIGHT_DIGITS = 3  # decimal places of an attention weight
LEAST_WEIGHT = 0.005  # smaller attention weights are not drawn
WHITESPACE_SYMBOLS = {"\n": "⏎", " ": "␣", "\t": "⇥"}


def maps(folder: Path, ngrams: Path, text: str) -> dict[str, Spec]:
    """Return charts of the attention weights of a saved GPT on the beginning of a text, by name of the head.

    `folder` and `ngrams` are explained at `load_model`.
    """
    gpt, tokenizer = load_model(folder, ngrams=ngrams)
    ids = tokenizer.encode(text[:LENGTH])[: min(LENGTH, gpt.block_size)]
    parts, charts = tokenizer.texts_of(ids), {}
    for layer, weights in enumerate(weights_of(gpt, torch.from_numpy(ids.astype(np.int64))), start=1):
        for head, of_head in enumerate(weights.numpy(), start=1):
            name = f"layer {layer}, head {head}"
            chart = heat_map(parts, {name: of_head}, CELL).properties(height=CELL * len(ids))
            charts[name] = to_spec(chart, f"Attention weights: {name}.")
    return charts


@torch.inference_mode()
def weights_of(gpt: GPT, ids: Tensor) -> list[Tensor]:
    """Return the attention weights of each layer of a GPT, (nh, T, T), on (T,) ids. The GPT is changed."""
    layers: list[Tensor] = []

    def attend(q: Tensor, k: Tensor, v: Tensor, *, causal: bool, dropout: float) -> Tensor:
        y, weights = explain(q, k, v, causal=causal, dropout=dropout)
        layers.append(weights[0])
        return y

    for block in gpt.blocks:
        block.attention.attend = attend
    gpt(ids[None])
    return layers


def heat_map(parts: list[str], weights: dict[str, npt.NDArray[np.floating]], cell: int) -> alt.Chart:
    """Draw the attention weights (T, T) of heads, by name of the head, as more or less opaque rectangles.

    `parts` are the T characters or tokens of the text, and `cell` is the width of a rectangle in pixels.
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
