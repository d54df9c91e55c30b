"""How much each head contributes: what the score loses when the head averages the past instead of attending."""

from typing import Any

import numpy as np
import torch

from bukva.evaluation.scores import score
from bukva.interpret.hooks import averaging_kernel, replaced_kernels
from bukva.models.gpt import GPT
from bukva.models.window_rule import stride_of
from bukva.text.ids import Ids
from bukva.text.tokenizers.base import Tokenizer


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
