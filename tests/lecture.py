"""The code of the lecture notes, slow and obvious: nested loops over batch, heads and positions. Tests compare with it.

Letters as in bukva.models.attention.
"""

import cmath
from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor


def attend_by_loop(q: Tensor, k: Tensor, v: Tensor, *, causal: bool) -> Tensor:
    """(B, nh, T, hs), (B, nh, S, hs) twice -> (B, nh, T, hs); the queries are the last T of the S positions."""
    B, nh, T, hs = q.shape
    S = k.shape[2]
    y = torch.zeros_like(q)
    for b in range(B):
        for h in range(nh):
            for t in range(T):
                visible = S - T + t + 1 if causal else S
                scores = torch.stack([q[b, h, t].dot(k[b, h, s]) / hs**0.5 for s in range(visible)])
                shares = scores.exp() / scores.exp().sum()
                for s in range(visible):
                    y[b, h, t] += shares[s] * v[b, h, s]
    return y


class Head(NamedTuple):
    """Query, key and value of one position in one head, each (C,) -> (hs,)."""

    query: Callable[[Tensor], Tensor]
    key: Callable[[Tensor], Tensor]
    value: Callable[[Tensor], Tensor]


def head_by_loop(x: Tensor, memory: Tensor, head: Head, *, causal: bool) -> Tensor:
    """(B, T, C) of the queries, (B, S, C) of keys and values (x itself, or another text) -> (B, T, hs)."""
    outputs = []
    for one, read in zip(x, memory, strict=True):
        q = torch.stack([head.query(position) for position in one])
        k = torch.stack([head.key(position) for position in read])
        v = torch.stack([head.value(position) for position in read])
        outputs.append(attend_by_loop(q[None, None], k[None, None], v[None, None], causal=causal)[0, 0])
    return torch.stack(outputs)


def heads_by_loop(
    x: Tensor, memory: Tensor, heads: Sequence[Head], proj: Callable[[Tensor], Tensor], *, causal: bool
) -> Tensor:
    """(B, T, C), (B, S, C) -> (B, T, C): the heads one by one, their outputs side by side, mixed by the projection."""
    return proj(torch.cat([head_by_loop(x, memory, head, causal=causal) for head in heads], dim=-1))


# ---- rotary positions, which are not in the lecture notes ("attention has no notion of space")


def rotate_by_complex_numbers(x: Tensor, positions: Sequence[int]) -> Tensor:
    """(..., T, hs): channels i and i + hs / 2 are one complex number, rotated by 10000^(-2i / hs) at each position."""
    half = x.shape[-1] // 2
    z = torch.complex(x[..., :half], x[..., half:]).to(torch.complex128)
    for t, position in enumerate(positions):
        for i in range(half):
            z[..., t, i] *= cmath.rect(1, position * 10_000 ** (-i / half))
    return torch.cat([z.real, z.imag], dim=-1).to(x.dtype)
