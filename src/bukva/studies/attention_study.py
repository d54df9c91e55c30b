"""Study the attention of a GPT before and after training. `bukva attention` writes the results to attention.json."""

import contextlib
import dataclasses
import functools
from collections.abc import Callable, Hashable, Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd
import torch
from torch import Tensor

from bukva.backends.device import Machine
from bukva.backends.group import Group
from bukva.core.schema import TrainGPT
from bukva.models.attention import Kernel, attention_weights, causal_mask, explain
from bukva.models.base import LanguageModel
from bukva.models.gpt import GPT, GPTConfig
from bukva.models.ngrams.counts import exact_bigram
from bukva.scoring.scores import score
from bukva.scoring.window_rule import evenly_spaced, nats_of_passages, spread_windows, stride_of
from bukva.text.held_out import Passage
from bukva.text.ids import Ids, bits
from bukva.text.prompts import check_known, composed
from bukva.text.tokenizers import Tokenizer, ids_per_char
from bukva.training.run import Task, run_training, start
from bukva.training.windows import Windows

WINDOWS = 64  # number of windows of val for the statistics of the heads
LEAK_STEPS = 120  # number of updates of the models of `leak`
IDS_PER_WINDOW = 32  # ids scored for each window of the study; each needs one forward pass for each context length
SENTENCE = 24  # characters of the default sentence; the chart of a longer sentence is not legible
SEED = 1337


def study(
    states: dict[str, GPT], tokenizer: Tokenizer, splits: dict[str, Ids], sentence: str, machine: Machine
) -> dict[str, Any]:
    """Return the content of attention.json, except the digest of the weights.

    `states` has the GPT before and after training as "untrained" and "trained". The attention weights of `sentence` are
    shown; "" stands for a line of val. BukvaError: the sentence has characters outside the vocabulary.
    """
    gpt, val = states["trained"], splits["val"]
    T = gpt.block_size
    sentence = composed(tokenizer, sentence) or default_sentence(tokenizer, val, min(SENTENCE, T))
    check_known(tokenizer, sentence, "--sentence", "use another sentence")
    ids = tokenizer.encode(sentence)[:T]
    sentence_ids = torch.from_numpy(ids.astype(np.int64))[None].to(machine.device)  # (1, T)
    windows = spread_windows(val, WINDOWS, T).to(machine.device)  # (N, T)
    return {
        "unit": tokenizer.unit,
        "sentence": tokenizer.decode(ids),
        "parts": tokenizer.texts_of(ids),
        "windows": {"n": len(windows), "length": T},
        "weights": {
            state: torch.cat([layer.weights for layer in record_attention(model, sentence_ids)]).tolist()
            for state, model in states.items()
        },  # (n_layer, nh, T, T) each
        "heads": [
            {"state": state, **head}
            for state, model in states.items()
            for head in describe_heads(model, windows, tokenizer)
        ],
        "scale": scale_table(),
        "worth": ablate_heads(gpt, evenly_spaced(val, windows.numel()), tokenizer),
        "context": {
            "lengths": score_by_context(gpt, val, tokenizer, WINDOWS * IDS_PER_WINDOW),
            "bigram_exact": exact_bigram(splits["train"], [val], len(tokenizer)) * ids_per_char(val[1:], tokenizer),
        },
        "leak": leak(gpt.config, splits, tokenizer, LEAK_STEPS, machine),
    }


def default_sentence(tokenizer: Tokenizer, ids: Ids, n_chars: int) -> str:
    """Return the beginning of the first line that has at least `n_chars` characters, or of the text if none has."""
    text = tokenizer.decode(ids[:100_000])
    lines = text.split("\n")[1:]  # the first line may be incomplete
    return next((line for line in lines if len(line) >= n_chars), text)[:n_chars]


# ---- kernels that record attention or replace it by an average


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
    """Return a kernel in which the heads that are True in `heads` (nh,) average all visible positions."""

    def attend(q: Tensor, k: Tensor, v: Tensor, *, causal: bool, dropout: float) -> Tensor:
        T, S = q.shape[-2], k.shape[-2]
        # as in the lecture notes, the average is the softmax of scores that are all zero
        uniform = attention_weights(q.new_zeros(T, S), causal_mask(T, S, q.device) if causal else None)
        y, _ = explain(q, k, v, causal=causal, dropout=dropout)
        return torch.where(heads[:, None, None], uniform @ v, y)

    return attend


def ablate_heads(gpt: GPT, runs: list[Passage], tokenizer: Tokenizer) -> dict[str, Any]:
    """Measure how many bits per character are lost when heads average the past instead of attending.

    Return `bits_per_char` of the unchanged model on the passages `runs`, and the bits that are lost when every head
    averages (`all_uniform`) or when only one head does (`heads_uniform`: one list per layer, one value per head).
    """
    layers, heads, T = gpt.config.n_layer, gpt.config.n_head, gpt.block_size

    def bits_with(averaged: Tensor) -> float:
        with replaced_kernels(gpt, lambda layer: averaging_kernel(averaged[layer])):
            return score(gpt, runs, tokenizer, T, stride_of(T)).bits_per_char

    each = torch.eye(layers * heads, dtype=torch.bool, device=gpt.wte.weight.device).view(-1, layers, heads)
    learned = bits_with(torch.zeros_like(each[0]))
    lost = np.array([bits_with(one) - learned for one in each])
    return {
        "bits_per_char": learned,
        "all_uniform": bits_with(each.any(0)) - learned,
        "heads_uniform": lost.reshape(layers, heads).tolist(),
    }


# ---- statistics and roles of heads
# Roles are the kinds of characters to which a head may attend, such as the previous character or the start of a word.
# They are adapted from Clark et al. 2019, "What Does BERT Look At?", and from Olsson et al. 2022 on heads that copy.
# Statistics are means over positions and windows. The first position is left out, because it sees only itself. In the
# "plain average", all visible characters have the same weight.

MOST_BACK = 4  # greatest distance of the roles "previous character", "2 back", ..., "4 back"
DIFFUSE = "diffuse"  # the role of a head that attends to many characters
BATCH_WEIGHTS = 2**24  # maximum number of attention weights per layer and batch, to limit memory


def describe_heads(gpt: GPT, windows: Tensor, tokenizer: Tokenizer) -> list[dict[Hashable, Any]]:
    """Compute statistics of each head over windows of ids (N, T), one dictionary per head.

    Each has `layer` and `head` (from 1), the statistics of `head_statistics` (DIFFUSE is a role), the scores of all
    `roles`, and the `role` with the highest `score`.
    """
    n_head, T = gpt.config.n_head, windows.shape[1]
    tables = []
    for batch in windows.split(max(1, BATCH_WEIGHTS // (n_head * T**2))):
        targets, share = role_targets(batch, tokenizer), len(batch) / len(windows)
        for number, layer in enumerate(record_attention(gpt, batch), start=1):
            values = {role: role_score(layer.weights, target) for role, target in targets.items()}
            values |= head_statistics(layer)
            columns = {name: share * of_heads.double().cpu().numpy() for name, of_heads in values.items()}
            heads = pd.MultiIndex.from_product([[number], range(1, n_head + 1)], names=["layer", "head"])
            tables.append(pd.DataFrame(columns, index=heads))
    mean = pd.concat(tables).groupby(["layer", "head"]).sum()
    statistics = mean[["entropy", "distance", "raw_variance", "variance"]]
    roles = mean.drop(columns=statistics.columns)
    rows = statistics.assign(role=roles.idxmax(axis=1), score=roles.max(axis=1)).reset_index().to_dict("records")
    return [{**row, "roles": scores} for row, scores in zip(rows, roles.to_dict("records"), strict=True)]


def head_statistics(layer: LayerAttention) -> dict[str, Tensor]:
    """Return statistics (nh,) of the attention of each head of a layer.

    `entropy` is a fraction of the largest possible entropy, `distance` is the mean distance to the attended characters,
    and DIFFUSE is the effective fraction of the visible characters to which the head attends: exp(entropy) / n. The
    variances are of the scores before and after the division by the root of the head size.
    """
    T, hs = layer.q.shape[-2:]
    t = torch.arange(T, device=layer.q.device)
    back = (t[:, None] - t).clamp(min=0)  # (T, T)
    visible = t[1:] + 1  # (T - 1,), without the first position
    entropies = entropy(layer.weights)[..., 1:]  # (B, nh, T - 1)
    scores = (layer.q @ layer.k.mT).transpose(0, 1)  # (nh, B, T, T)
    scores = scores[..., causal_mask(T, T, scores.device)].flatten(1).double()  # (nh, B T (T + 1) / 2)
    return {
        "entropy": (entropies / visible.log()).mean((0, 2)),
        "distance": (layer.weights * back).sum(-1)[..., 1:].mean((0, 2)),
        "raw_variance": scores.var(dim=1),
        "variance": (scores * hs**-0.5).var(dim=1),
        DIFFUSE: (entropies.exp() / visible).mean((0, 2)),
    }


def entropy(distributions: Tensor) -> Tensor:
    """Entropy in nats of the distributions along the last axis."""
    return torch.special.entr(distributions).sum(-1)


def role_score(weights: Tensor, target: Tensor) -> Tensor:
    """Measure how much more weight each head puts on the keys of a role than the plain average does.

    `target` (B, T, T) is True where key s has the role for query t. Rows without a choice are left out. Return (nh,)
    scores of the `weights` (B, nh, T, T): 1 if all weight is on keys with the role, 0 for the plain average.
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
    """Return whether each part of a text, a character or token, begins a word."""
    starts, within = [], False
    for part in parts:
        before = within
        # an empty part is a byte that continues a character
        within = any(map(str.isalpha, part)) or (before and not part)
        starts.append(within and (part[:1].isspace() or not before))
    return starts


# ---- context length


def score_by_context(gpt: GPT, ids: Ids, tokenizer: Tokenizer, n_ids: int) -> list[dict[str, float]]:
    """Score a GPT with exactly 1, 2, 4, ..., block_size ids of context, on the same `n_ids` ids of the text.

    Return for each length its number of ids (`chars`), the score (`bits_per_char`), and the `standard_error` of the
    difference from the score with block_size ids.
    """
    T = gpt.block_size
    scored = np.unique(np.linspace(T, len(ids) - 1, min(n_ids, len(ids) - T)).astype(np.int64))
    per_char = ids_per_char(ids[scored], tokenizer)
    windows = ids[scored[:, None] + np.arange(-T, 1)]  # (n, T + 1)
    lengths = [*(2**i for i in range(T.bit_length()) if 2**i < T), T]
    nats = {n: _nats(gpt, windows[:, -n - 1 :])[:, -1] for n in lengths}
    return [
        {
            "chars": n,
            "bits_per_char": bits(float(nats[n].mean())) * per_char,
            "standard_error": bits(float((nats[n] - nats[T]).std(ddof=1) * len(scored) ** -0.5)) * per_char,
        }
        for n in lengths
    ]


def _nats(model: LanguageModel, windows: Ids) -> npt.NDArray[np.float64]:
    """Losses (N, T) in nats of windows (N, T + 1). The first id of a window is only context."""
    passages, T = [Passage(0, window, 1) for window in windows], windows.shape[1] - 1
    nats = nats_of_passages(model, passages, T, T, ngrams_see_before_window=False)
    return nats.astype(np.float64).reshape(-1, T)


# ---- the causal mask: without the mask, a model copies its targets from its inputs

N_LAYER, BLOCK_SIZE, BATCH_SIZE = 2, 32, 32  # small enough to be fast, and large enough to show the leak
N_SCORED = 128  # windows of val to score
POINTS = 20  # number of times that val is scored during a training


def leak(
    config: GPTConfig, splits: dict[str, Ids], tokenizer: Tokenizer, n_steps: int, machine: Machine
) -> dict[str, Any]:
    """Train a small GPT with the causal mask and without it, from the same initial weights on the same batches.

    Return the losses of the models `masked` and `unmasked` in bits per character: `in_sight` for targets inside the
    windows, at each of `steps`, and `out_of_sight` for the targets right after the windows, after the last update.
    """
    T = min(BLOCK_SIZE, config.block_size)
    small = dataclasses.replace(config, n_layer=min(N_LAYER, config.n_layer), block_size=T, dropout=0.0, ngrams="none")
    recipe = TrainGPT(
        optimizer="adamw", n_steps=n_steps, batch_size=BATCH_SIZE, micro_batches=1, processes=1, learning_rate=0.004,
        warmup_steps=min(20, n_steps), decay_to=1.0, weight_decay=0.1, beta2=0.99, grad_clip=1.0,
        eval_every=max(1, n_steps // POINTS), patience=0, order="epoch", seed=SEED,
    )  # fmt: skip
    windows = Windows(splits["train"], T, recipe.batch_size, recipe.order, recipe.seed)
    scored = spread_windows(splits["val"], N_SCORED, T + 1).numpy()  # (N, T + 1)
    per_char = ids_per_char(scored[:, 1:].ravel(), tokenizer)

    def score_in_sight(model: LanguageModel, _: Group) -> float:
        return float(_nats(model, scored)[:, :-1].mean()) * per_char

    plain = dataclasses.replace(machine, is_plain=True)  # faster code exists only for models with the mask
    result: dict[str, Any] = {"n_layer": small.n_layer, "block_size": T}
    for name, causal in (("masked", True), ("unmasked", False)):
        task = Task(functools.partial(GPT, small, causal=causal), windows, score_in_sight, recipe, plain)
        state = start(task)
        run_training(task, state)
        result["steps"] = [point.step for point in state.curve]
        result[name] = {
            "in_sight": [bits(point.val_nats_per_char or 0.0) for point in state.curve],
            "out_of_sight": bits(float(_nats(state.model, scored)[:, -1].mean()) * per_char),
        }
    return result


# ---- the scale: attention scores are divided by the square root of the head size hs

RAW, SCALED = "q·k", "q·k / √hs"
HEAD_SIZES = (4, 8, 16, 32, 64, 128, 256)
KEYS, DRAWS = 64, 2000  # number of keys per query, number of queries


def scale_table() -> list[dict[str, Any]]:
    """Compute attention weights of random queries and keys, with and without dividing the scores by √hs.

    Their components have variance 1. Return for each head size and kind of scores the largest weight (`peak`) and the
    `entropy` in nats (at most ln 64) of the weights of a query, averaged over queries.
    """
    rows = []
    for hs in HEAD_SIZES:
        rng = torch.Generator().manual_seed(SEED)
        q, k = torch.randn(DRAWS, 1, hs, generator=rng), torch.randn(DRAWS, KEYS, hs, generator=rng)
        raw = (q @ k.mT)[:, 0]  # (DRAWS, KEYS)
        for name, scores in ((RAW, raw), (SCALED, raw * hs**-0.5)):
            weights = attention_weights(scores)
            peak, spread = weights.amax(-1).mean(), entropy(weights).mean()
            rows.append({"head_size": hs, "scores": name, "peak": float(peak), "entropy": float(spread)})
    return rows
