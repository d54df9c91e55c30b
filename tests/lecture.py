"""The lecture's code, slow and obvious: nested loops over batch, heads and positions. The witness of the tests."""

import torch
from torch import Tensor


def average_by_loop(x: Tensor) -> Tensor:
    """(B, T, C) -> (B, T, C): each position the mean of itself and all before it."""
    B, T, C = x.shape
    y = torch.zeros(B, T, C, dtype=x.dtype)
    for b in range(B):
        for t in range(T):
            y[b, t] = x[b, : t + 1].mean(0)
    return y


def attend_by_loop(q: Tensor, k: Tensor, v: Tensor, *, causal: bool) -> Tensor:
    """(B, nh, T, hs), (B, nh, S, hs) twice -> (B, nh, T, hs); the queries are the last T of the S positions."""
    B, nh, T, hs = q.shape
    S = k.shape[2]
    y = torch.zeros_like(q)
    for b in range(B):
        for h in range(nh):
            for t in range(T):
                visible = S - T + t + 1 if causal else S
                affinities = torch.stack([q[b, h, t].dot(k[b, h, s]) / hs**0.5 for s in range(visible)])
                shares = affinities.exp() / affinities.exp().sum()
                for s in range(visible):
                    y[b, h, t] += shares[s] * v[b, h, s]
    return y
