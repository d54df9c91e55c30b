"""The whole study of one model: the content of reports/attention/attention.json, and the weights to draw."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F
from torch import Tensor

from bukva.config.schema import Evaluate
from bukva.evaluation.scores import score
from bukva.generation.sampling import generate
from bukva.interpret.heads import Heads, describe_heads
from bukva.interpret.hooks import averaging_kernel, record_attention, replaced_kernels
from bukva.interpret.leak import leak
from bukva.models.attention import attention_weights
from bukva.models.device import Machine
from bukva.models.gpt import GPT
from bukva.models.ngrams.counts import exact_bigram
from bukva.models.window_rule import evenly_spaced, ids_per_batch, spread_windows, stride_of
from bukva.text.ids import Ids, bits
from bukva.text.tokenizers.base import Tokenizer, ids_per_char

IDS_PER_WINDOW = 32  # scored for the context curve, where each costs a window of its own
PASSAGE = 24  # characters of a passage that are all legible in a figure


@dataclass(frozen=True)
class Study:
    """The numbers, and for each state the weights of every layer on the sentence, (n_layer, nh, T, T)."""

    numbers: dict[str, Any]
    weights: dict[str, npt.NDArray[np.float32]]


def study(
    states: dict[str, GPT], tokenizer: Tokenizer, splits: dict[str, Ids], params: Evaluate, machine: Machine
) -> Study:
    """Study the attention of a GPT before and after training.

    Args:
        states: "untrained" and "trained".
        tokenizer: of both.
        splits: train and val; statistics are computed on val.
        params: the sentence, the number of windows, the number of updates without the mask.
        machine: trains the model without the mask.
    """
    gpt, val = states["trained"], splits["val"]
    T = gpt.block_size
    sentence = params.attention_sentence or passage(tokenizer, val, min(PASSAGE, T))
    ids = tokenizer.encode(sentence)[:T]  # a passage may have more ids than characters
    drawn = torch.from_numpy(ids.astype(np.int64))[None].to(machine.device)  # (1, T)
    windows = spread_windows(val, params.attention_windows, T).to(machine.device)  # (N, T)
    runs = evenly_spaced(val, windows.numel())
    return Study(
        numbers={
            "unit": tokenizer.unit,
            "sentence": sentence,
            "parts": tokenizer.parts(ids),
            "windows": {"n": len(windows), "length": T},
            "heads": {state: _as_json(describe_heads(model, windows, tokenizer)) for state, model in states.items()},
            "scale": scale_table(),
            "worth": ablate_heads(gpt, runs, tokenizer),
            "context": {
                "lengths": score_by_context(gpt, val, tokenizer, params.attention_windows * IDS_PER_WINDOW),
                "bigram_exact": exact_bigram(splits["train"], [val], len(tokenizer)) * ids_per_char(val[1:], tokenizer),
            },
            "leak": leak(gpt.config, splits, tokenizer, params.leak_steps, machine),
            "forecast": forecast(gpt, tokenizer, sentence),
        },
        weights={state: weights_on(model, drawn) for state, model in states.items()},
    )


def weights_on(gpt: GPT, ids: Tensor) -> npt.NDArray[np.float32]:
    """(1, T) ids -> (n_layer, nh, T, T) weights of every head."""
    return torch.cat([layer.weights for layer in record_attention(gpt, ids)]).cpu().numpy()


def passage(tokenizer: Tokenizer, ids: Ids, n_chars: int) -> str:
    """The first n_chars of the first line that is long enough; the beginning of the text if none is."""
    text = tokenizer.decode(ids[:100_000])
    lines = text.split("\n")[1:]  # the first may be the end of a line
    return next((line for line in lines if len(line) >= n_chars), text)[:n_chars]


def _as_json(heads: Heads) -> dict[str, Any]:
    layers, n_head = heads.entropy.shape
    role = [[heads.role(layer, head) for head in range(n_head)] for layer in range(layers)]
    return {
        "role": [[{"name": name, "score": score} for name, score in row] for row in role],
        "entropy": heads.entropy.tolist(),
        "breadth": heads.breadth.tolist(),
        "distance": heads.distance.tolist(),
        "raw_variance": heads.raw_variance.tolist(),
        "variance": heads.variance.tolist(),
        "roles": {name: grid.tolist() for name, grid in heads.roles.items()},
    }


# ---- what the score loses when a head averages the past instead of attending


def ablate_heads(gpt: GPT, runs: list[Ids], tokenizer: Tokenizer) -> dict[str, Any]:
    """Bits per character lost when heads take the plain average of the past.

    Returns:
        bits_per_char of the model as it is; all_uniform, the loss when every head averages; heads_uniform,
        (n_layer, nh), the loss for each head alone.
    """
    layers, heads, T = gpt.config.n_layer, gpt.config.n_head, gpt.block_size
    device = gpt.wte.weight.device

    def bits_with(averaged: torch.Tensor) -> float:
        with replaced_kernels(gpt, lambda layer: averaging_kernel(averaged[layer])):
            return score(gpt, runs, tokenizer, T, stride_of(T)).bits_per_char

    none = torch.zeros(layers, heads, dtype=torch.bool, device=device)
    learned = score(gpt, runs, tokenizer, T, stride_of(T)).bits_per_char
    alone = np.zeros((layers, heads))
    for layer, head in np.ndindex(layers, heads):
        one = none.clone()
        one[layer, head] = True
        alone[layer, head] = bits_with(one) - learned
    return {
        "bits_per_char": learned,
        "all_uniform": bits_with(~none) - learned,
        "heads_uniform": alone.tolist(),
    }


# ---- how much context contributes


@torch.inference_mode()
def score_by_context(gpt: GPT, ids: Ids, tokenizer: Tokenizer, n_ids: int) -> list[dict[str, float]]:
    """Bits per character with exactly 1, 2, 4 ... block_size ids of context.

    Args:
        gpt: the model.
        ids: (N,) ids.
        tokenizer: of the ids.
        n_ids: how many ids are scored, the same ids for every length, spread evenly over all.

    Returns:
        For each length: chars (the length, in ids), bits_per_char, and the standard error of its difference to the
        score with the whole block.
    """
    T, device = gpt.block_size, gpt.wte.weight.device
    scored = np.unique(np.linspace(T, len(ids) - 1, min(n_ids, len(ids) - T)).astype(np.int64))
    ids_per_char = len(scored) / float(tokenizer.chars_of(ids[scored]).sum())
    windows = torch.from_numpy(ids[scored[:, None] + np.arange(-T, 1)].astype(np.int64)).to(device)  # (n, T + 1)
    lengths = [*(2**i for i in range(T.bit_length()) if 2**i < T), T]
    batch_ids = ids_per_batch(gpt)
    nats = {
        n: torch.cat([_last_nats(gpt, batch[:, -n - 1 :]) for batch in windows.split(max(1, batch_ids // n))])
        for n in lengths
    }
    return [
        {
            "chars": n,
            "bits_per_char": bits(float(nats[n].mean())) * ids_per_char,
            "standard_error": bits(float((nats[n] - nats[T]).std() * len(scored) ** -0.5)) * ids_per_char,
        }
        for n in lengths
    ]


def _last_nats(gpt: GPT, window: Tensor) -> Tensor:
    """(B, n + 1) ids -> (B,) nats of the last, given the n before it."""
    return F.cross_entropy(gpt(window[:, :-1])[:, -1], window[:, -1], reduction="none").double()


# ---- from logits to text


TEMPERATURES = (0.25, 0.5, 1.0, 1.5)
TOP = 5
N_IDS = 32
SEED = 1337


@torch.inference_mode()
def forecast(gpt: GPT, tokenizer: Tokenizer, prompt: str) -> dict[str, Any]:
    """Continue a prompt as far as the block allows, and record the distribution before each character.

    Returns:
        unit, prompt, temperatures, and for each id written: char (its piece), top (the five likeliest and their
        probability), and entropy in bits at each temperature.
    """
    n_ids = min(N_IDS, gpt.block_size - 1)
    read = tokenizer.encode(prompt)[: gpt.block_size - n_ids]
    ids = torch.from_numpy(read.astype(np.int64))[None].to(gpt.wte.weight.device)  # (1, T)
    rng = torch.Generator().manual_seed(SEED)
    written = generate(gpt, ids, n_ids, temperature=0.8, top_k=0, top_p=1.0, rng=rng)
    text = torch.cat([ids, written], dim=1)
    logits = gpt(text[:, :-1])[0, len(read) - 1 :].float()  # (n_ids, V): position t predicts character t + 1
    probabilities, likeliest = logits.softmax(-1).topk(min(TOP, logits.shape[-1]))
    entropies = torch.stack([_entropy(logits / temperature) for temperature in TEMPERATURES], dim=1)
    pieces = tokenizer.pieces
    return {
        "unit": tokenizer.unit,
        "prompt": tokenizer.decode(read),
        "temperatures": list(TEMPERATURES),
        "chars": [
            {
                "char": pieces[int(written[0, i])],
                "top": [[pieces[int(j)], float(p)] for j, p in zip(likeliest[i], probabilities[i], strict=True)],
                "entropy": [bits(float(nats)) for nats in entropies[i]],
            }
            for i in range(n_ids)
        ],
    }


def _entropy(logits: torch.Tensor) -> torch.Tensor:
    """(..., V) logits -> (...) nats."""
    return torch.special.entr(logits.softmax(-1)).sum(-1)


# ---- why scores are divided by the square root of the head size


HEAD_SIZES = (4, 8, 16, 32, 64, 128, 256)
KEYS, DRAWS = 64, 2000  # keys of each query, and how many queries are drawn


def scale_table() -> list[dict[str, Any]]:
    """For random queries and keys of variance 1: variance of their products, largest weight, entropy; raw and scaled.

    Returns:
        One row for each head size; entropies in nats, at most ln 64.
    """
    rows = []
    for hs in HEAD_SIZES:
        rng = torch.Generator().manual_seed(SEED)
        q, k = torch.randn(DRAWS, 1, hs, generator=rng), torch.randn(DRAWS, KEYS, hs, generator=rng)
        raw = (q @ k.mT)[:, 0]  # (DRAWS, KEYS)
        row: dict[str, Any] = {"head_size": hs}
        for name, scores in (("raw", raw), ("scaled", raw * hs**-0.5)):
            weights = attention_weights(scores)
            row[name] = {
                "variance": float(scores.var()),
                "peak": float(weights.amax(-1).mean()),
                "entropy": float(torch.special.entr(weights).sum(-1).mean()),
            }
        rows.append(row)
    return rows
