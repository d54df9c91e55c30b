"""Record the attention of a GPT, or replace it, and record its experts, without changing the model's code or weights.

The kernel of a layer is replaced for the length of a `with` block: by one that records its weights, or by one that
averages.
"""

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from bukva.models.attention import Kernel, attention_weights, causal_mask, explain
from bukva.models.gpt import GPT
from bukva.models.ngram_memory import LEAST, ProductOfExperts, Recall


@dataclass(frozen=True)
class LayerAttention:
    """What one layer computed: (B, nh, T, hs) queries and keys, and the (B, nh, T, T) weights they give."""

    q: Tensor
    k: Tensor
    weights: Tensor


@dataclass(frozen=True)
class Mixed:
    """What a GPT with n-grams computed from (B, T) ids.

    logits: (B, T, V), of the whole.
    powers: (B, T, R + 1), of the orders and, last, the network.
    counted: (B, T, R, V), log-probabilities under each order.
    seen: (B, T, K), log(1 + n) of how often train has the context of each length from 0.
    """

    logits: Tensor
    powers: Tensor
    counted: Tensor
    seen: Tensor


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


@torch.inference_mode()
def record_experts(gpt: GPT, ids: Tensor) -> Mixed:
    """(B, T) ids -> what the n-grams and the network predicted, and their powers."""
    recorded: list[tuple[Tensor, Recall]] = []

    def record(_: ProductOfExperts, inputs: tuple[Tensor, Tensor, Recall], __: Tensor) -> None:
        hidden, recall = inputs[0], inputs[2]
        recorded.append((gpt.experts.powers(hidden, recall), recall))

    hook = gpt.experts.register_forward_hook(record)
    try:
        logits = gpt(ids)
    finally:
        hook.remove()
    [(powers, recall)] = recorded
    seen = recall.features[..., : recall.features.shape[-1] // 2]
    return Mixed(logits, powers, recall.probabilities.clamp_min(LEAST).log(), seen)


def averaging_kernel(heads: Tensor) -> Kernel:
    """A kernel in which the heads that are True in (nh,) take the plain average of what the mask lets through.

    That is the first step towards attention in the lecture notes: the softmax of scores that are all zero.
    """

    def attend(q: Tensor, k: Tensor, v: Tensor, *, causal: bool, dropout: float) -> Tensor:
        y, _ = explain(q, k, v, causal=causal, dropout=dropout)
        return torch.where(heads[:, None, None], uniform_weights(q, k, causal) @ v, y)

    return attend


def uniform_weights(q: Tensor, k: Tensor, causal: bool) -> Tensor:
    """(T, S), the same weight on every key that the mask lets through."""
    T, S = q.shape[-2], k.shape[-2]
    mask = causal_mask(T, S, q.device) if causal else None
    return attention_weights(q.new_zeros(T, S), mask)
