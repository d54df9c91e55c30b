"""What learned attention is worth, and what context is worth, in bits per character."""

from typing import Any

import numpy as np
import torch
import torch.nn.functional as F

from bukva.base.ids import Ids
from bukva.base.units import bits
from bukva.evaluation.scores import score
from bukva.interpret.lens import averaging, exchanged
from bukva.models.gpt import GPT
from bukva.scoring.window_rule import BATCH_CHARS, stride_of
from bukva.tokenizers.base import Tokenizer


def worth_of_heads(gpt: GPT, runs: list[Ids], tokenizer: Tokenizer) -> dict[str, Any]:
    """What is lost when heads take the plain average of the past instead of attending.

    Returns:
        bits_per_char with everything learned; all_uniform, what is lost when every head averages; heads_uniform,
        (n_layer, nh), for each alone.
    """
    layers, heads, T = gpt.config.n_layer, gpt.config.n_head, gpt.block_size
    device = gpt.wte.weight.device

    def bits_with(averaged: torch.Tensor) -> float:
        with exchanged(gpt, lambda layer: averaging(averaged[layer])):
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


@torch.inference_mode()
def worth_of_lengths(gpt: GPT, ids: Ids, n_chars: int) -> list[dict[str, float]]:
    """Bits per character with exactly 1, 2, 4 ... block_size characters of context.

    Args:
        gpt: the model.
        ids: (N,) ids.
        n_chars: how many characters are asked for, the same for every length, spread evenly over ids.

    Returns:
        For each length: chars, bits_per_char, and the standard error of its difference to the whole block.
    """
    T, device = gpt.block_size, gpt.wte.weight.device
    asked = np.unique(np.linspace(T, len(ids) - 1, min(n_chars, len(ids) - T)).astype(np.int64))
    window = torch.from_numpy(ids[asked[:, None] + np.arange(-T, 1)].astype(np.int64)).to(device)  # (n, T + 1)
    lengths = [*(2**i for i in range(T.bit_length()) if 2**i < T), T]
    batch_chars = BATCH_CHARS[window.device.type]
    nats = {
        n: torch.cat([_last_nats(gpt, part[:, -n - 1 :]) for part in window.split(max(1, batch_chars // n))])
        for n in lengths
    }
    return [
        {
            "chars": n,
            "bits_per_char": bits(float(nats[n].mean())),
            "standard_error": bits(float((nats[n] - nats[T]).std() * len(asked) ** -0.5)),
        }
        for n in lengths
    ]


def _last_nats(gpt: GPT, window: torch.Tensor) -> torch.Tensor:
    """(B, n + 1) ids -> (B,) nats of the last, given the n before it."""
    return F.cross_entropy(gpt(window[:, :-1])[:, -1], window[:, -1], reduction="none").double()
