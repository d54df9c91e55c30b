"""Looking at attention without changing it, and changing it to see what it was for.

A layer's kernel may be exchanged for another of its kind: one that keeps what it saw, or one that averages. The model's
code and weights stay as they are.
"""

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from bukva.models.attention import Kernel, attention_weights, causal_mask, explain
from bukva.models.gpt import GPT


@dataclass(frozen=True)
class Look:
    """What one layer did: (B, nh, T, hs) queries and keys, and the (B, nh, T, T) weights that came of them."""

    q: Tensor
    k: Tensor
    weights: Tensor


@contextlib.contextmanager
def exchanged(gpt: GPT, kernel_of: Callable[[int], Kernel]) -> Iterator[None]:
    """Every layer attends by kernel_of(its number) within this block."""
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
def looks(gpt: GPT, ids: Tensor) -> list[Look]:
    """(B, T) ids -> what each layer did with them."""
    seen: list[Look] = []

    def watch(q: Tensor, k: Tensor, v: Tensor, *, causal: bool, dropout: float) -> Tensor:
        y, weights = explain(q, k, v, causal=causal, dropout=dropout)
        seen.append(Look(q, k, weights))
        return y

    with exchanged(gpt, lambda _: watch):
        gpt(ids)
    return seen


def averaging(heads: Tensor) -> Kernel:
    """A kernel in which the heads that are True in (nh,) take the plain average of what they may look at.

    That is the notes' first step towards attention: the softmax of scores that are all zero.
    """

    def attend(q: Tensor, k: Tensor, v: Tensor, *, causal: bool, dropout: float) -> Tensor:
        y, _ = explain(q, k, v, causal=causal, dropout=dropout)
        return torch.where(heads[:, None, None], uniform_weights(q, k, causal) @ v, y)

    return attend


def uniform_weights(q: Tensor, k: Tensor, causal: bool) -> Tensor:
    """(T, S), every key that a query may look at with the same weight."""
    T, S = q.shape[-2], k.shape[-2]
    mask = causal_mask(T, S, q.device) if causal else None
    return attention_weights(q.new_zeros(T, S), mask)
