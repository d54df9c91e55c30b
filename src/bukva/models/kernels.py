"""Functions that a CPU computes in fewer passes over memory than autograd needs for the plain ones.

At these sizes a CPU multiplies matrices faster than it reads and writes the activations between the products, so the
time depends on how often each activation is read and written. Each function equals a plain one, by test; the backward
passes are derived on paper. GPUs have fused kernels of their own.
"""

from typing import Any

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from bukva.core.compiled import compiled

QUERIES = 128  # queries of one tile: of a causal triangle, keys after their last one are not computed
WEIGHTS = 2**19  # attention weights of one tile: of several heads at once, and few enough for the cache


class _ReluSquared(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        positive = x.clamp_min(0)
        ctx.save_for_backward(positive)
        return positive * positive

    @staticmethod
    def backward(ctx: Any, dy: Tensor) -> Tensor:
        (positive,) = ctx.saved_tensors
        return (dy * positive).mul_(2)


def relu_squared(x: Tensor) -> Tensor:
    """max(x, 0)^2, the activation of So et al. 2021, "Primer"."""
    return _ReluSquared.apply(x) if torch.is_grad_enabled() else F.relu(x).square_()


class _UnitMeanSquare(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        factor = _to_unit(x).to(x.dtype)
        y = x * factor
        ctx.save_for_backward(y, factor)
        return y

    @staticmethod
    def backward(ctx: Any, dy: Tensor) -> Tensor:
        y, factor = ctx.saved_tensors
        along = (dy * y).mean(dim=-1, keepdim=True)  # this component only changes the length, which is fixed
        return torch.addcmul(dy, y, along, value=-1).mul_(factor)


def unit_mean_square(x: Tensor) -> Tensor:
    """(..., C) -> the same directions, each with mean square 1: F.rms_norm without a gain.

    Without a gradient in float32 at least.
    """
    return _UnitMeanSquare.apply(x) if torch.is_grad_enabled() else x * _to_unit(x)


def _to_unit(x: Tensor) -> Tensor:
    """(..., C) -> (..., 1), the factors to multiply by; the epsilon keeps zeros zero."""
    norm = torch.linalg.vector_norm(x, dim=-1, keepdim=True, dtype=torch.promote_types(x.dtype, torch.float32))
    return norm.square_().div_(x.shape[-1]).add_(torch.finfo(x.dtype).eps).rsqrt_()


class _TiledAttention(torch.autograd.Function):
    """Tile by tile, so that weights are used while they are in the cache; the backward pass computes them again.

    Sources: Dao et al. 2022, "FlashAttention" (recomputing instead of storing). A tile is all keys of some queries of
    some heads, which needs no running softmax.
    """

    @staticmethod
    def forward(ctx: Any, q: Tensor, k: Tensor, v: Tensor, causal: bool, p: float) -> Tensor:
        ctx.shapes, ctx.causal = (q.shape, k.shape), causal
        q, k, v = (x.flatten(0, -3) for x in (q * q.shape[-1] ** -0.5, k, v))  # (n, T, hs), (n, S, hs) twice
        y, factors = torch.empty_like(q), []
        for heads, queries, keys in _tiles(q, k, causal):
            weights = _tile_weights(q[heads, queries], k[heads, keys], causal)
            if p:
                factors.append(kept(weights.shape, p, weights))
                weights *= factors[-1]
            y[heads, queries] = weights @ v[heads, keys]
        ctx.save_for_backward(q, k, v, *factors)
        return y.view(ctx.shapes[0])

    @staticmethod
    def backward(ctx: Any, dy: Tensor) -> tuple[Tensor | None, ...]:
        q, k, v, *factors = ctx.saved_tensors
        dy = dy.reshape(q.shape)
        dq, dk, dv = (
            torch.empty_like(q),
            torch.zeros_like(k, dtype=torch.float32),
            torch.zeros_like(v, dtype=torch.float32),
        )
        for i, (heads, queries, keys) in enumerate(_tiles(q, k, ctx.causal)):
            weights = _tile_weights(q[heads, queries], k[heads, keys], ctx.causal)
            dweights = dy[heads, queries] @ v[heads, keys].mT
            if factors:
                dv[heads, keys] += (weights * factors[i]).mT @ dy[heads, queries]
                dweights *= factors[i]
            else:
                dv[heads, keys] += weights.mT @ dy[heads, queries]
            dscores = torch._softmax_backward_data(dweights, weights, -1, weights.dtype)
            dq[heads, queries] = dscores @ k[heads, keys]
            dk[heads, keys] += dscores.mT @ q[heads, queries]
        q_shape, k_shape = ctx.shapes
        dq *= q.shape[-1] ** -0.5
        return dq.view(q_shape), dk.to(k.dtype).view(k_shape), dv.to(v.dtype).view(k_shape), None, None


def tiled_attention(q: Tensor, k: Tensor, v: Tensor, *, causal: bool, dropout: float) -> Tensor:
    """(..., T, hs), two of (..., S, hs) -> (..., T, hs), all of one type, which the products are computed in."""
    with torch.autocast(q.device.type, enabled=False):
        return _TiledAttention.apply(q, k, v, causal, dropout)


def _tiles(q: Tensor, k: Tensor, causal: bool) -> list[tuple[slice, slice, slice]]:
    """Which heads, queries and keys of (n, T, hs) and (n, S, hs) are computed together."""
    n, T, S = len(q), q.shape[1], k.shape[1]
    several = max(1, WEIGHTS // (min(T, QUERIES) * S))
    return [
        (
            slice(head, head + several),
            slice(first, min(first + QUERIES, T)),
            slice(S - max(0, T - first - QUERIES) if causal else S),
        )
        for head in range(0, n, several)
        for first in range(0, T, QUERIES)
    ]


def _tile_weights(q: Tensor, k: Tensor, causal: bool) -> Tensor:
    """(n, T, hs) scaled queries, (n, S, hs) keys up to the last query's -> (n, T, S), rows sum to 1."""
    scores = q @ k.mT
    if causal:
        T = q.shape[1]
        scores[..., -T:] += torch.full((T, T), float("-inf"), dtype=q.dtype).triu(1)
    return scores.softmax(dim=-1)


# ---- dropout (Srivastava et al. 2014), with random numbers from a counter
#
# torch draws one number after another, which takes as long as a matrix product does here. On a CPU each is computed
# from its place instead, many at a time: SplitMix64 (Steele, Lea & Flood 2014, "Fast splittable pseudorandom number
# generators") of a seed from torch's generator. It is five times as fast (docs/dev/log.md).

UNSIGNED = {2: torch.uint16, 4: torch.uint32, 8: torch.uint64}  # by bytes
STEP, FIRST, SECOND = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)


class Dropout(nn.Module):
    """`dropout` in training, the identity in evaluation."""

    def __init__(self, p: float) -> None:
        super().__init__()
        self.p = p

    def forward(self, x: Tensor) -> Tensor:
        """(...) -> (...)."""
        return dropout(x, self.p) if self.training else x


def dropout(x: Tensor, p: float) -> Tensor:
    """Zero each element with probability p and scale the others by 1 / (1 - p)."""
    if p == 0.0:
        return x
    return x * kept(x.shape, p, x) if x.device.type == "cpu" else F.dropout(x, p)


def kept(shape: torch.Size, p: float, like: Tensor) -> Tensor:
    """A tensor of 0 with probability p (to 1/65536) and else 1 / (1 - p): from 16 random bits each."""
    factors, seed = like.new_empty(shape), torch.empty((), dtype=torch.int64).random_().item()
    unsigned = UNSIGNED[like.element_size()]
    factor = like.new_tensor(1 / (1 - p)).view(unsigned).numpy()[()]
    _fill(factors.view(-1).view(unsigned).numpy(), np.uint64(seed), np.uint64(round(p * 2**16)), factor)
    return factors


@compiled
def _fill(factors: npt.NDArray[Any], seed: np.uint64, threshold: np.uint64, factor: Any) -> None:
    """Fill (N,) floats, as unsigned integers of the same bits, with 0 below the threshold and else with the factor."""
    N, zero = len(factors), factor ^ factor
    for i in range(N // 4):  # the body has no condition, so that a processor computes several at once
        bits = _mixed(seed, i)
        for k in range(4):
            factors[4 * i + k] = factor if _quarter(bits, k) >= threshold else zero
    bits = _mixed(seed, N // 4)
    for k in range(N % 4):
        factors[N - N % 4 + k] = factor if _quarter(bits, k) >= threshold else zero


@compiled
def _mixed(seed: np.uint64, i: int) -> np.uint64:
    """64 random bits, number i of those of a seed."""
    z = seed + np.uint64(i) * STEP
    z = (z ^ (z >> np.uint64(30))) * FIRST
    z = (z ^ (z >> np.uint64(27))) * SECOND
    return z ^ (z >> np.uint64(31))


@compiled
def _quarter(bits: np.uint64, k: int) -> np.uint64:
    return (bits >> np.uint64(16 * k)) & np.uint64(0xFFFF)
