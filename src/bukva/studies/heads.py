"""Record or replace the attention of the heads of a GPT, and measure what each head attends to.

Roles are the kinds of characters to which a head may attend, such as the previous character or the start of a word.
They are adapted from Clark et al. 2019, "What Does BERT Look At?", and from Olsson et al. 2022 on heads that copy.
Statistics are means over positions and windows. The first position is left out, because it sees only itself. In the
"plain average", all visible characters have the same weight.
"""

import contextlib
from collections.abc import Callable, Hashable, Iterable, Iterator
from typing import Any, NamedTuple

import pandas as pd
import torch
from torch import Tensor

from bukva.models.attention import Kernel, attention_weights, causal_mask, explain
from bukva.models.gpt import GPT
from bukva.text.tokenizers.base import Tokenizer

MOST_BACK = 4  # greatest distance of the roles "previous character", "2 back", ..., "4 back"
DIFFUSE = "diffuse"  # the role of a head that attends to many characters; its score is `breadth`
BATCH_WEIGHTS = 2**24  # maximum number of attention weights per layer and batch, to limit memory


# ---- recording and averaging kernels


class LayerAttention(NamedTuple):
    """Queries, keys and attention weights of one layer, for B windows of T positions."""

    q: Tensor  # (B, nh, T, hs)
    k: Tensor  # (B, nh, T, hs)
    weights: Tensor  # (B, nh, T, T), queries in rows and keys in columns


@contextlib.contextmanager
def replaced_kernels(gpt: GPT, kernel_of: Callable[[int], Kernel]) -> Iterator[None]:
    """Use kernel_of(i) as the attention kernel of each layer i, counted from 0, until the `with` block ends."""
    layers = [block.attention for block in gpt.blocks]
    before = [layer.attend for layer in layers]
    try:
        for number, layer in enumerate(layers):
            layer.attend = kernel_of(number)
        yield
    finally:
        for layer, kernel in zip(layers, before, strict=True):
            layer.attend = kernel


@torch.inference_mode()
def record_attention(gpt: GPT, ids: Tensor) -> list[LayerAttention]:
    """Run a GPT on windows of ids (B, T), and return the attention of each layer."""
    layers: list[LayerAttention] = []

    def record(q: Tensor, k: Tensor, v: Tensor, *, causal: bool, dropout: float) -> Tensor:
        y, weights = explain(q, k, v, causal=causal, dropout=dropout)
        layers.append(LayerAttention(q, k, weights))
        return y

    with replaced_kernels(gpt, lambda _: record):
        gpt(ids)
    return layers


def averaging_kernel(heads: Tensor) -> Kernel:
    """Return a kernel in which the heads that are True in `heads` (nh,) average all visible positions.

    The average is the softmax of scores that are all zero. The lecture notes introduce attention with this average.
    """

    def attend(q: Tensor, k: Tensor, v: Tensor, *, causal: bool, dropout: float) -> Tensor:
        T, S = q.shape[-2], k.shape[-2]
        uniform = attention_weights(q.new_zeros(T, S), causal_mask(T, S, q.device) if causal else None)
        y, _ = explain(q, k, v, causal=causal, dropout=dropout)
        return torch.where(heads[:, None, None], uniform @ v, y)

    return attend


# ---- statistics and roles


def describe_heads(gpt: GPT, windows: Tensor, tokenizer: Tokenizer) -> list[dict[Hashable, Any]]:
    """Compute statistics of each head over windows of ids (N, T).

    Returns:
        One dictionary per head, with its `layer` and `head` (from 1), its relative `entropy`, the mean `distance` to
        the attended characters, the `raw_variance` and `variance` of its attention scores before and after scaling, the
        scores of all `roles` by name, and the `role` with the highest `score`.
    """
    batches = windows.split(max(1, BATCH_WEIGHTS // (gpt.config.n_head * windows.shape[1] ** 2)))
    weighted = [len(batch) / len(windows) * _describe(gpt, batch, tokenizer) for batch in batches]
    mean = pd.concat(weighted).groupby(["layer", "head"]).sum()
    statistics = mean[["entropy", "distance", "raw_variance", "variance"]]
    roles = mean.drop(columns=statistics.columns)
    rows = statistics.assign(role=roles.idxmax(axis=1), score=roles.max(axis=1)).reset_index().to_dict("records")
    return [{**row, "roles": scores} for row, scores in zip(rows, roles.to_dict("records"), strict=True)]


def _describe(gpt: GPT, ids: Tensor, tokenizer: Tokenizer) -> pd.DataFrame:
    targets, tables = role_targets(ids, tokenizer), {}
    for number, layer in enumerate(record_attention(gpt, ids), start=1):
        statistics = {
            "entropy": relative_entropy(layer.weights),
            "distance": mean_distance(layer.weights),
            **variances(layer),
            **{role: role_score(layer.weights, target) for role, target in targets.items()},
            DIFFUSE: breadth(layer.weights),
        }
        columns = {name: values.double().cpu().numpy() for name, values in statistics.items()}
        tables[number] = pd.DataFrame(columns, index=range(1, gpt.config.n_head + 1))
    return pd.concat(tables, names=["layer", "head"])


def relative_entropy(weights: Tensor) -> Tensor:
    """Mean entropy (nh,) of weights (B, nh, T, T), as a fraction of the largest possible entropy of each row."""
    return (entropy(weights)[..., 1:] / _visible(weights).log()).mean((0, 2))


def breadth(weights: Tensor) -> Tensor:
    """Effective fraction (nh,) of the visible characters to which weights (B, nh, T, T) attend: exp(entropy) / n."""
    return (entropy(weights)[..., 1:].exp() / _visible(weights)).mean((0, 2))


def entropy(distributions: Tensor) -> Tensor:
    """Entropy in nats of the distributions along the last axis."""
    return torch.special.entr(distributions).sum(-1)


def _visible(weights: Tensor) -> Tensor:
    return torch.arange(2, weights.shape[-1] + 1, device=weights.device)  # (T - 1,), without the first row


def mean_distance(weights: Tensor) -> Tensor:
    """Mean distance (nh,) to the characters to which weights (B, nh, T, T) attend."""
    t = torch.arange(weights.shape[-1], device=weights.device)
    back = (t[:, None] - t).clamp(min=0)  # (T, T)
    return (weights * back).sum(-1)[..., 1:].mean((0, 2))


def variances(layer: LayerAttention) -> dict[str, Tensor]:
    """Variances (nh,) of the scores of visible keys, before and after the division by the root of the head size."""
    raw = layer.q @ layer.k.mT  # (B, nh, T, T)
    T, hs = layer.q.shape[-2:]
    per_head = raw.transpose(0, 1)[..., causal_mask(T, T, raw.device)].flatten(1).double()  # (nh, B T (T + 1) / 2)
    return {"raw_variance": per_head.var(dim=1), "variance": (per_head * hs**-0.5).var(dim=1)}


def role_score(weights: Tensor, target: Tensor) -> Tensor:
    """Measure how much more weight each head puts on the keys of a role than the plain average does.

    Args:
        weights: (B, nh, T, T) attention weights.
        target: (B, T, T), True where key s has the role for query t. Rows in which no visible key or every visible key
            has the role are left out.

    Returns:
        (nh,) scores: 1 if all weight is on keys with the role, 0 for the plain average.
    """
    visible = torch.arange(1, target.shape[-1] + 1, device=target.device)  # (T,)
    plain = (target.float() / visible[:, None]).sum(-1)  # (B, T)
    counts = (plain > 0) & (plain < 1)
    if not counts.any():
        return weights.new_zeros(weights.shape[1])
    on_target = (weights * target[:, None]).sum(-1).transpose(0, 1)[:, counts].mean(1)  # (nh,)
    by_chance = plain[counts].mean()
    return (on_target - by_chance) / (1 - by_chance)


def role_targets(ids: Tensor, tokenizer: Tokenizer) -> dict[str, Tensor]:
    """For each role, return a tensor (B, T, T) that is True where key s of windows (B, T) has the role for query t."""
    B, T = ids.shape
    t = torch.arange(T, device=ids.device)
    query, key = t[:, None], t[None, :]
    earlier = key < query  # (T, T), excludes the query itself
    parts = [tokenizer.texts_of(window) for window in ids.cpu().numpy()]  # B lists of T texts
    starting = torch.tensor([word_starts(texts) for texts in parts], device=ids.device)  # (B, T)
    starts = torch.where(starting, t, -1).cummax(dim=1).values  # (B, T), start of the last word
    newline = torch.tensor([[text.endswith("\n") for text in texts] for texts in parts], device=ids.device)  # (B, T)
    return {
        f"previous {tokenizer.unit}": (key == query - 1).expand(B, T, T),
        **{f"{n} back": (key == query - n).expand(B, T, T) for n in range(2, MOST_BACK + 1)},
        "itself": (key == query).expand(B, T, T) & (query > 0),
        "first position": (key == 0).expand(B, T, T) & earlier,
        f"same {tokenizer.unit}": (ids[:, :, None] == ids[:, None, :]) & earlier,
        "word start": (key == starts[:, :, None]) & earlier,
        "newline": newline[:, None, :] & earlier,
    }


def word_starts(parts: Iterable[str]) -> list[bool]:
    """Return whether each part of a text begins a word. Parts are characters or tokens (see Tokenizer.texts_of)."""
    starts, within = [], False
    for part in parts:
        before = within
        # an empty part is a byte that continues a character
        within = any(map(str.isalpha, part)) or (before and not part)
        starts.append(within and (part[:1].isspace() or not before))
    return starts
