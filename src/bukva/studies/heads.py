"""Record or replace the attention of the heads of a GPT, and measure what each head attends to.

Inside a `with` block, the attention kernels (the functions that compute attention) are replaced by kernels that record
their weights, or that average the past. The model's code and weights do not change.

A role is a kind of character to which a head may attend, such as the previous character or the start of the word. The
roles are adapted to characters from Clark et al. 2019, "What Does BERT Look At?", and from Olsson et al. 2022 on heads
that copy. A "character" is the text of one id. With the tokenizers `byte` and `bpe`, the names of roles contain "byte"
or "token" instead of "character".

Statistics are means over positions and windows. They exclude the first position of each window, because it sees only
itself. In the "plain average", all visible characters have the same weight.
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
DIFFUSE = "diffuse"  # the role of a head that attends to many characters (see `breadth`)
BATCH_WEIGHTS = 2**24  # maximum number of attention weights per layer and batch, to limit memory


# ---- recording and averaging kernels


class LayerAttention(NamedTuple):
    """Queries, keys and attention weights of one layer, for B windows of T positions.

    q, k: (B, nh, T, hs), with nh heads of size hs.
    weights: (B, nh, T, T), with queries in rows and keys in columns.
    """

    q: Tensor
    k: Tensor
    weights: Tensor


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
    """Run a GPT on B windows of T ids, and return the attention of each layer. `ids` has the shape (B, T)."""
    layers: list[LayerAttention] = []

    def record(q: Tensor, k: Tensor, v: Tensor, *, causal: bool, dropout: float) -> Tensor:
        y, weights = explain(q, k, v, causal=causal, dropout=dropout)
        layers.append(LayerAttention(q, k, weights))
        return y

    with replaced_kernels(gpt, lambda _: record):
        gpt(ids)
    return layers


def averaging_kernel(heads: Tensor) -> Kernel:
    """Return a kernel in which some heads average all visible positions, and the others attend as usual.

    The average is the softmax of scores that are all zero. The lecture notes introduce attention with this average.

    Args:
        heads: (nh,), True for the heads that average.
    """

    def attend(q: Tensor, k: Tensor, v: Tensor, *, causal: bool, dropout: float) -> Tensor:
        T, S = q.shape[-2], k.shape[-2]
        uniform = attention_weights(q.new_zeros(T, S), causal_mask(T, S, q.device) if causal else None)
        y, _ = explain(q, k, v, causal=causal, dropout=dropout)
        return torch.where(heads[:, None, None], uniform @ v, y)

    return attend


# ---- statistics and roles


def describe_heads(gpt: GPT, windows: Tensor, tokenizer: Tokenizer) -> list[dict[Hashable, Any]]:
    """Compute statistics of each head over N windows of T ids. `windows` has the shape (N, T).

    Returns:
        One dictionary per head:
        layer, head: the numbers of the layer and of the head, from 1.
        entropy: relative entropy of the weights, from 0 (all weight on one character) to 1 (plain average).
        distance: mean distance to the attended characters.
        raw_variance, variance: variance of the attention scores before and after scaling (see `variances`).
        roles: the score of each role (see `role_score`), by name of the role. The score of "diffuse" is the effective
            fraction of the visible characters that the head attends to (see `breadth`).
        role, score: the role with the highest score, and this score.
    """
    batches = windows.split(max(1, BATCH_WEIGHTS // (gpt.config.n_head * windows.shape[1] ** 2)))
    weighted = [len(batch) / len(windows) * _describe(gpt, batch, tokenizer) for batch in batches]
    mean = pd.concat(weighted).groupby(["layer", "head"]).sum()
    statistics = mean[["entropy", "distance", "raw_variance", "variance"]]
    roles = mean.drop(columns=statistics.columns)
    rows = statistics.assign(role=roles.idxmax(axis=1), score=roles.max(axis=1)).reset_index().to_dict("records")
    return [{**row, "roles": scores} for row, scores in zip(rows, roles.to_dict("records"), strict=True)]


def _describe(gpt: GPT, ids: Tensor, tokenizer: Tokenizer) -> pd.DataFrame:
    """Return a table of the statistics in `describe_heads` for B windows of T ids, with one row per layer and head."""
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
    """Return the (nh,) relative entropies of nh heads. `weights` are (B, nh, T, T) attention weights.

    The entropy of each row t of weights is divided by its maximum, ln(t + 1). The result is the mean over rows t > 0.
    """
    return (entropy(weights)[..., 1:] / _visible(weights).log()).mean((0, 2))


def breadth(weights: Tensor) -> Tensor:
    """Return the (nh,) breadths of nh heads. `weights` are (B, nh, T, T) attention weights.

    The breadth is the effective fraction of the visible characters that a head attends to. It is the mean of
    exp(entropy) / (t + 1) over rows t > 0, where t + 1 is the number of visible characters.
    """
    return (entropy(weights)[..., 1:].exp() / _visible(weights)).mean((0, 2))


def entropy(distributions: Tensor) -> Tensor:
    """Return the entropy in nats of each distribution. The last axis of `distributions` contains the probabilities."""
    return torch.special.entr(distributions).sum(-1)


def _visible(weights: Tensor) -> Tensor:
    """Return the (T - 1,) numbers of characters that are visible in each row of weights, except the first row."""
    return torch.arange(2, weights.shape[-1] + 1, device=weights.device)


def mean_distance(weights: Tensor) -> Tensor:
    """Return the (nh,) mean distances from a position to the characters that each head attends to.

    The distances are weighted by the (B, nh, T, T) attention weights. Row 0 of each window is left out.
    """
    t = torch.arange(weights.shape[-1], device=weights.device)
    back = (t[:, None] - t).clamp(min=0)  # (T, T)
    return (weights * back).sum(-1)[..., 1:].mean((0, 2))


def variances(layer: LayerAttention) -> dict[str, Tensor]:
    """Return the (nh,) variances of the attention scores of the nh heads in a layer.

    `raw_variance` is the variance before the scores are divided by the square root of the head size, and `variance` is
    the variance after it. Scores of keys that the query cannot see are excluded.
    """
    raw = layer.q @ layer.k.mT  # (B, nh, T, T)
    T, hs = layer.q.shape[-2:]
    per_head = raw.transpose(0, 1)[..., causal_mask(T, T, raw.device)].flatten(1).double()  # (nh, B T (T + 1) / 2)
    return {"raw_variance": per_head.var(dim=1), "variance": (per_head * hs**-0.5).var(dim=1)}


def role_score(weights: Tensor, target: Tensor) -> Tensor:
    """Measure how much more weight each head puts on the characters of a role than the plain average does.

    A role is a kind of character, such as newlines. The plain average gives all visible characters the same weight.

    Args:
        weights: (B, nh, T, T) attention weights.
        target: (B, T, T), True where key s has the role for query t. A row is excluded if no visible key has the role,
            or if every visible key has the role.

    Returns:
        (nh,) scores. A score is 1 if all weight is on keys with the role, 0 for the plain average, and negative for
        less weight than the plain average. All scores are 0 if all rows are excluded.
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
    """Find the keys that have each role in B windows of T ids. `ids` has the shape (B, T).

    A role is a kind of character, such as the previous character or newlines.

    Returns:
        A (B, T, T) tensor for each role, by name of the role. It is True where key s has the role for query t. No key
        has a role for query 0.
    """
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
    """Return whether each part of a text begins a word. Parts are characters or tokens (see Tokenizer.texts_of).

    A part with a letter and a leading space begins a word. An empty part is a byte that continues a character.
    """
    starts, within = [], False
    for part in parts:
        before = within
        within = any(map(str.isalpha, part)) or (before and not part)
        starts.append(within and (part[:1].isspace() or not before))
    return starts
