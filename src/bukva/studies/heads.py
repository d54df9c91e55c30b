"""The heads of a GPT: recorded or replaced, and what each attends to: how broadly, how far back, which characters.

The model's code and weights stay as they are: the kernel of a layer is replaced for the length of a `with` block, by
one that records its weights or by one that averages. A "character" is here what an id stands for; the names of the
roles say byte or token where it is one.

Statistics are averaged over positions and windows. Row 0 of a window, which sees only itself, is left out. The roles
are those that others have found in trained transformers (Clark et al. 2019, "What Does BERT Look At?"; Olsson et al.
2022 on heads that copy), for characters.
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

MOST_BACK = 4  # of the roles that count back
DIFFUSE = "diffuse"
BATCH_WEIGHTS = 2**24  # attention weights of one layer and batch, to bound the memory
BETWEEN, AFTER = 0, -1  # positions in a word of what is not a letter


# ---- kernels that record and that average


class LayerAttention(NamedTuple):
    """What one layer computed: (B, nh, T, hs) queries and keys, and the (B, nh, T, T) weights they give."""

    q: Tensor
    k: Tensor
    weights: Tensor


@contextlib.contextmanager
def replaced_kernels(gpt: GPT, kernel_of: Callable[[int], Kernel]) -> Iterator[None]:
    """Layer i attends by kernel_of(i) within this block."""
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
    """(B, T) ids -> the attention of each layer."""
    layers: list[LayerAttention] = []

    def record(q: Tensor, k: Tensor, v: Tensor, *, causal: bool, dropout: float) -> Tensor:
        y, weights = explain(q, k, v, causal=causal, dropout=dropout)
        layers.append(LayerAttention(q, k, weights))
        return y

    with replaced_kernels(gpt, lambda _: record):
        gpt(ids)
    return layers


def averaging_kernel(heads: Tensor) -> Kernel:
    """A kernel in which the heads that are True in (nh,) take the plain average of what the mask lets through.

    That is the first step towards attention in the lecture notes: the softmax of scores that are all zero.
    """

    def attend(q: Tensor, k: Tensor, v: Tensor, *, causal: bool, dropout: float) -> Tensor:
        T, S = q.shape[-2], k.shape[-2]
        uniform = attention_weights(q.new_zeros(T, S), causal_mask(T, S, q.device) if causal else None)
        y, _ = explain(q, k, v, causal=causal, dropout=dropout)
        return torch.where(heads[:, None, None], uniform @ v, y)

    return attend


# ---- statistics and roles


def describe_heads(gpt: GPT, windows: Tensor, tokenizer: Tokenizer) -> list[dict[Hashable, Any]]:
    """Statistics of each head over (N, T) windows of ids, a row for each.

    Returns:
        layer, head: numbers from 1.
        entropy: of its weights, relative to that of the plain average; 0 is one character, 1 is the plain average.
        distance: mean number of characters back.
        raw_variance, variance: of its scores before and after the scale, over the visible pairs.
        roles: role -> how much more weight it gets than from the plain average: 0 as much, 1 all weight. That of
            diffuse is the effective share of the visible characters that the head attends to (e to the entropy).
        role, score: the role that fits best.
    """
    batches = windows.split(max(1, BATCH_WEIGHTS // (gpt.config.n_head * windows.shape[1] ** 2)))
    shares = [len(batch) / len(windows) * _describe(gpt, batch, tokenizer) for batch in batches]
    mean = pd.concat(shares).groupby(["layer", "head"]).sum()
    statistics = mean[["entropy", "distance", "raw_variance", "variance"]]
    roles = mean.drop(columns=statistics.columns)
    rows = statistics.assign(role=roles.idxmax(axis=1), score=roles.max(axis=1)).reset_index().to_dict("records")
    return [{**row, "roles": scores} for row, scores in zip(rows, roles.to_dict("records"), strict=True)]


def _describe(gpt: GPT, ids: Tensor, tokenizer: Tokenizer) -> pd.DataFrame:
    targets, found = role_targets(ids, tokenizer), {}
    for number, layer in enumerate(record_attention(gpt, ids), start=1):
        statistics = {
            "entropy": relative_entropy(layer.weights),
            "distance": mean_distance(layer.weights),
            **variances(layer),
            **{role: role_score(layer.weights, target) for role, target in targets.items()},
            DIFFUSE: breadth(layer.weights),
        }
        columns = {name: of_heads.double().cpu().numpy() for name, of_heads in statistics.items()}
        found[number] = pd.DataFrame(columns, index=range(1, gpt.config.n_head + 1))
    return pd.concat(found, names=["layer", "head"])


def relative_entropy(weights: Tensor) -> Tensor:
    """(B, nh, T, T) weights -> (nh,), mean of the entropy of row t over ln(t + 1), its greatest value."""
    return (entropy(weights)[..., 1:] / _visible(weights).log()).mean((0, 2))


def breadth(weights: Tensor) -> Tensor:
    """(B, nh, T, T) weights -> (nh,), mean of e to the entropy of row t over the t + 1 visible characters."""
    return (entropy(weights)[..., 1:].exp() / _visible(weights)).mean((0, 2))


def entropy(shares: Tensor) -> Tensor:
    """(..., S), rows sum to 1 -> (...) nats."""
    return torch.special.entr(shares).sum(-1)


def _visible(weights: Tensor) -> Tensor:
    """(T - 1,), how many characters are visible in each row but the first."""
    return torch.arange(2, weights.shape[-1] + 1, device=weights.device)


def mean_distance(weights: Tensor) -> Tensor:
    """(B, nh, T, T) weights -> (nh,), mean number of characters back."""
    t = torch.arange(weights.shape[-1], device=weights.device)
    back = (t[:, None] - t).clamp(min=0)  # (T, T)
    return (weights * back).sum(-1)[..., 1:].mean((0, 2))


def variances(layer: LayerAttention) -> dict[str, Tensor]:
    """(nh,) variances of the scores before and after the scale, over the pairs that the mask lets through."""
    raw = layer.q @ layer.k.mT  # (B, nh, T, T)
    T, hs = layer.q.shape[-2:]
    per_head = raw.transpose(0, 1)[..., causal_mask(T, T, raw.device)].flatten(1).double()  # (nh, B T (T + 1) / 2)
    return {"raw_variance": per_head.var(dim=1), "variance": (per_head * hs**-0.5).var(dim=1)}


def role_score(weights: Tensor, target: Tensor) -> Tensor:
    """The weight on the target beyond that of the plain average, as a share of the most that is possible.

    Args:
        weights: (B, nh, T, T).
        target: (B, T, T), True where key s plays the role for query t; rows without a target do not count.

    Returns:
        (nh,), 1 when all weight is on the target, 0 for the plain average, negative for less.
    """
    visible = torch.arange(1, target.shape[-1] + 1, device=target.device)  # (T,)
    plain = (target.float() / visible[:, None]).sum(-1)  # (B, T)
    counts = (plain > 0) & (plain < 1)
    if not counts.any():
        return weights.new_zeros(weights.shape[1])
    on_target = (weights * target[:, None]).sum(-1).transpose(0, 1)[:, counts].mean(1)  # (nh,)
    by_chance = plain[counts].mean()
    return (on_target - by_chance) / (1 - by_chance)


def roles_back(unit: str) -> dict[str, int]:
    """The roles that count back, and how far."""
    return {f"previous {unit}": 1, **{f"{n} back": n for n in range(2, MOST_BACK + 1)}}


def role_targets(ids: Tensor, tokenizer: Tokenizer) -> dict[str, Tensor]:
    """(B, T) ids -> role -> (B, T, T), True where key s plays that role for query t; row 0 is left out."""
    B, T = ids.shape
    t = torch.arange(T, device=ids.device)
    query, key = t[:, None], t[None, :]
    earlier = key < query  # (T, T), without the query itself
    parts = [tokenizer.parts(window) for window in ids.cpu().numpy()]  # B lists of T texts
    positions = torch.tensor([positions_in_words(texts) for texts in parts], device=ids.device)  # (B, T)
    starts = torch.where(positions == 1, t, -1).cummax(dim=1).values  # (B, T), where the last word starts
    newline = torch.tensor([[text.endswith("\n") for text in texts] for texts in parts], device=ids.device)  # (B, T)
    return {
        **{role: (key == query - n).expand(B, T, T) for role, n in roles_back(tokenizer.unit).items()},
        "itself": (key == query).expand(B, T, T) & (query > 0),
        "first position": (key == 0).expand(B, T, T) & earlier,
        f"same {tokenizer.unit}": (ids[:, :, None] == ids[:, None, :]) & earlier,
        "word start": (key == starts[:, :, None]) & earlier,
        "newline": newline[:, None, :] & earlier,
    }


def positions_in_words(parts: Iterable[str]) -> list[int]:
    """For each part of a text: 1 where a word begins, 2 for the next part of it and so on; AFTER right after a word.

    BETWEEN otherwise. Parts are characters, or what a tokenizer makes of them (Tokenizer.parts): one that begins with a
    space begins a word, and an empty one, a later byte of a character, belongs to the part before it.
    """
    positions, within = [], 0
    for part in parts:
        before = within
        is_within = any(map(str.isalpha, part)) or (before > 0 and not part)
        within = is_within * (1 if part[:1].isspace() else before + 1)
        positions.append(within or (AFTER if before else BETWEEN))
    return positions
