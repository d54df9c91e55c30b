"""Study the attention of a GPT before and after training. `bukva attention` writes the results to attention.json."""

import dataclasses
import functools
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from bukva.backends.device import Machine
from bukva.backends.group import Group
from bukva.core.schema import TrainGPT
from bukva.evaluation.scores import score
from bukva.models.attention import attention_weights
from bukva.models.base import LanguageModel
from bukva.models.gpt import GPT, GPTConfig
from bukva.models.ngrams.counts import exact_bigram
from bukva.models.window_rule import evenly_spaced, ids_per_batch, spread_windows, stride_of
from bukva.studies.heads import averaging_kernel, describe_heads, entropy, record_attention, replaced_kernels
from bukva.text.held_out import Passage
from bukva.text.ids import Ids, bits
from bukva.text.prompts import check_known, composed
from bukva.text.tokenizers.base import Tokenizer, ids_per_char
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
    """Study the attention of a GPT before and after training.

    Args:
        states: the GPT before and after training, under the keys "untrained" and "trained".
        tokenizer: the tokenizer of the GPT.
        splits: ids of the splits "train" and "val". Statistics are computed on "val".
        sentence: the text whose attention weights are shown; "" for a line of "val".
        machine: the device on which `leak` trains its models.

    Returns:
        The content of attention.json, except the digest of the weights.

    Raises:
        BukvaError: the sentence has characters outside the vocabulary.
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


# ---- ablation: heads average the past instead of attending


def ablate_heads(gpt: GPT, runs: list[Passage], tokenizer: Tokenizer) -> dict[str, Any]:
    """Measure how many bits per character are lost when heads average the past instead of attending.

    Returns:
        `bits_per_char` of the unchanged model on the passages `runs`, and the bits that are lost when every head
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


# ---- context length


@torch.inference_mode()
def score_by_context(gpt: GPT, ids: Ids, tokenizer: Tokenizer, n_ids: int) -> list[dict[str, float]]:
    """Score a GPT with exactly 1, 2, 4, ..., block_size ids of context.

    The same `n_ids` ids, spread evenly over the text, are scored for every context length.

    Returns:
        For each context length, its number of ids (`chars`), the score (`bits_per_char`), and the `standard_error` of
        the difference between this score and the score with block_size ids.
    """
    T, device = gpt.block_size, gpt.wte.weight.device
    scored = np.unique(np.linspace(T, len(ids) - 1, min(n_ids, len(ids) - T)).astype(np.int64))
    per_char = ids_per_char(ids[scored], tokenizer)
    windows = torch.from_numpy(ids[scored[:, None] + np.arange(-T, 1)].astype(np.int64)).to(device)  # (n, T + 1)
    lengths = [*(2**i for i in range(T.bit_length()) if 2**i < T), T]
    batch_ids = ids_per_batch(gpt)
    nats = {
        n: torch.cat([_nats(gpt, batch[:, -n - 1 :])[:, -1] for batch in windows.split(max(1, batch_ids // n))])
        for n in lengths
    }
    return [
        {
            "chars": n,
            "bits_per_char": bits(float(nats[n].mean())) * per_char,
            "standard_error": bits(float((nats[n] - nats[T]).std() * len(scored) ** -0.5)) * per_char,
        }
        for n in lengths
    ]


@torch.inference_mode()
def _nats(model: LanguageModel, windows: Tensor) -> Tensor:
    """Losses (N, T) in nats of windows (N, T + 1). The first id of a window is only context."""
    logits = model(windows[:, :-1])  # (N, T, V)
    nats = F.cross_entropy(logits.flatten(0, 1), windows[:, 1:].flatten(), reduction="none")
    return nats.double().view(len(windows), -1)


# ---- the causal mask: without the mask, a model copies its targets from its inputs

N_LAYER, BLOCK_SIZE, BATCH_SIZE = 2, 32, 32  # small enough to be fast, and large enough to show the leak
N_SCORED = 128  # windows of val to score
POINTS = 20  # number of times that val is scored during a training


def leak(
    config: GPTConfig, splits: dict[str, Ids], tokenizer: Tokenizer, n_steps: int, machine: Machine
) -> dict[str, Any]:
    """Train a small GPT twice: with the causal mask and without it. Initial weights and batches are the same.

    Without the mask, position t sees character t + 1, which is its target. So the loss falls to nearly zero, even on
    held-out text. To generate text, a model must predict the character after the window, and the unmasked model does
    this worse than the masked one.

    Args:
        config: the configuration of the studied GPT. The small GPT has fewer layers, shorter windows and no n-grams.
        splits: ids of the splits "train" and "val".
        tokenizer: the tokenizer of the ids.
        n_steps: the number of updates of each training.
        machine: the device of the trainings.

    Returns:
        The shape of the small GPT (`n_layer`, `block_size`), the numbers of the updates after which val was scored
        (`steps`), and the losses of the models `masked` and `unmasked` in bits per character: `in_sight`, one for each
        of `steps`, for targets inside the windows, and `out_of_sight`, after the last update, for the targets right
        after the windows.
    """
    T = min(BLOCK_SIZE, config.block_size)
    small = dataclasses.replace(config, n_layer=min(N_LAYER, config.n_layer), block_size=T, dropout=0.0, ngrams="none")
    recipe = TrainGPT(
        optimizer="adamw", n_steps=n_steps, batch_size=BATCH_SIZE, micro_batches=1, processes=1, learning_rate=0.004,
        warmup_steps=min(20, n_steps), decay_to=1.0, weight_decay=0.1, beta2=0.99, grad_clip=1.0,
        eval_every=max(1, n_steps // POINTS), patience=0, order="epoch", seed=SEED,
    )  # fmt: skip
    windows = Windows(splits["train"], T, recipe.batch_size, recipe.order, recipe.seed)
    scored = spread_windows(splits["val"], N_SCORED, T + 1)  # (N, T + 1)
    per_char = ids_per_char(scored[:, 1:].flatten().numpy(), tokenizer)
    scored = scored.to(machine.device)

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

    hs is the head size. All components of the queries and keys have variance 1.

    Returns:
        For each head size and kind of scores: the `variance` of the scores, and the largest weight (`peak`) and the
        `entropy` in nats of the weights of a query, averaged over queries. The maximum entropy is ln 64.
    """
    rows = []
    for hs in HEAD_SIZES:
        rng = torch.Generator().manual_seed(SEED)
        q, k = torch.randn(DRAWS, 1, hs, generator=rng), torch.randn(DRAWS, KEYS, hs, generator=rng)
        raw = (q @ k.mT)[:, 0]  # (DRAWS, KEYS)
        for name, scores in ((RAW, raw), (SCALED, raw * hs**-0.5)):
            weights = attention_weights(scores)
            row = {"variance": scores.var(), "peak": weights.amax(-1).mean(), "entropy": entropy(weights).mean()}
            rows.append({"head_size": hs, "scores": name, **{of: float(value) for of, value in row.items()}})
    return rows
