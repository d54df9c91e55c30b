"""Fused sublayers for CPUs: torch multiplies matrices, and few compiled passes do everything between the products.

At these sizes a CPU multiplies matrices faster than it reads and writes the tensors between the products, and autograd
spends a pass, a conversion and a call on each operation. Here each sublayer is one function, whose backward pass is
derived on paper; a test compares it with the plain layer. The residual stream is float32. The other tensors have the
type of the products: float32, or bf16, which numba reads as the upper halves of float32.

Letters as in bukva.models.attention, M = B T rows. Sources: Dao et al. 2022, "FlashAttention" (what a pass over memory
costs); Steele, Lea & Flood 2014, "Fast splittable pseudorandom number generators" (SplitMix64, for dropout).
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F
from numba import types
from numba.extending import overload
from torch import Tensor, nn

from bukva.core.compiled import compiled_sums
from bukva.models.attention import EPSILON
from bukva.models.gpt import Block, relu_squared

Array = npt.NDArray[Any]  # float32, or bf16 as uint16
Floats = npt.NDArray[np.float32]
Activation = Callable[[Tensor], Tensor]

f32, i32, u16, u32, u64 = np.float32, np.int32, np.uint16, np.uint32, np.uint64
LOWEST, HIGHEST = i32(-(2**31)), i32(2**31 - 1)
COLUMNS = 32  # of attention weights, which a processor computes in one go


class Norm(NamedTuple):
    """LayerNorm, or RMSNorm, which subtracts no mean."""

    is_centred: bool
    epsilon: float

    @classmethod
    def of(cls, layer: nn.Module) -> "Norm":
        """Read the settings of a layer."""
        return cls(isinstance(layer, nn.LayerNorm), layer.eps or EPSILON)


class Dropping(NamedTuple):
    """Dropout (Srivastava et al. 2014): zero with probability threshold / 65536, else multiply by factor.

    Each random number is computed from the seed and its place, so that the backward pass computes it again.
    """

    seed: np.uint64
    threshold: np.uint64
    factor: np.float32

    @classmethod
    def draw(cls, p: float) -> "Dropping":
        """Dropout with probability p, by a seed from torch's generator."""
        seed = torch.empty((), dtype=torch.int64).random_().item() if p else 0
        return cls(u64(seed), u64(round(p * 2**16)), f32(1 / (1 - p)))


# ---- attention


class AttentionSpec(NamedTuple):
    """How a block attends: (2, T, hs) of `rotary_cos_sin`, QK norm or not, dropout of the weights and of the output."""

    n_head: int
    cos_sin: Floats
    qk_norm: bool
    norm: Norm
    of_weights: Dropping
    of_output: Dropping
    dtype: torch.dtype


def add_attention(block: Block, x: Tensor, cos_sin: Tensor | None) -> Tensor:
    """(B, T, C) -> x + attention(ln_1(x)), (B, T, C)."""
    layer, norm = block.attention, block.ln_1
    if cos_sin is None:  # angles of 0
        cos_sin = torch.tensor([1.0, 0.0]).view(2, 1, 1).expand(2, x.shape[1], layer.head_size)
    p = layer.dropout if layer.training else 0.0
    how = AttentionSpec(
        layer.n_head, cos_sin.numpy(), layer.qk_norm, Norm.of(norm), Dropping.draw(p), Dropping.draw(p), _dtype()
    )
    return _AddAttention.apply(x, norm.weight, _bias(norm), *_weights(layer.qkv), *_weights(layer.proj), how)


class _AddAttention(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        gain: Tensor,
        shift: Tensor | None,
        qkv: Tensor,
        qkv_bias: Tensor | None,
        proj: Tensor,
        proj_bias: Tensor | None,
        how: AttentionSpec,
    ) -> Tensor:
        B, T, C = x.shape
        nh, hs, dtype = how.n_head, C // how.n_head, how.dtype
        x, qkv, proj = x.reshape(B * T, C), qkv.to(dtype), proj.to(dtype)
        h, stats = _normed(x, gain, shift, how.norm, dtype)
        mixed = _linear(h, qkv, qkv_bias).view(B, T, 3, nh, hs)
        placed, factors = h.new_empty(3, B, nh, T, hs), np.empty((2, B, nh, T), f32)
        _norm_and_rotate(_array(mixed), how.cos_sin, how.qk_norm, _array(placed), factors)
        q, k, v = placed.flatten(1, 2)  # (B nh, T, hs) each
        weights = torch.bmm(q, k.mT)  # (B nh, T, T)
        kept = torch.empty_like(weights) if how.of_weights.threshold else weights
        _softmax(_array(weights), _array(kept), *how.of_weights)
        y = torch.empty_like(h)
        _join(_array(torch.bmm(kept, v).view(B, nh, T, hs)), _array(y.view(B, T, nh, hs)))
        ctx.save_for_backward(x, gain, h, qkv, proj, mixed, q, k, v, weights, y)
        ctx.stats, ctx.factors, ctx.how = stats, factors, how
        ctx.biases = shift is not None, qkv_bias is not None, proj_bias is not None
        return _added(x, _linear(y, proj, proj_bias), how.of_output).view(B, T, C)

    @staticmethod
    def backward(ctx: Any, dout: Tensor) -> tuple[Tensor | None, ...]:
        x, gain, h, qkv, proj, mixed, q, k, v, weights, y = ctx.saved_tensors
        how, (has_shift, has_qkv_bias, has_proj_bias) = ctx.how, ctx.biases
        (B, T, C), (_, _, _, nh, hs) = dout.shape, mixed.shape
        dout = dout.reshape(B * T, C)
        dadded = _narrowed(dout, how.of_output, how.dtype)
        dproj, dproj_bias = _linear_back(dadded, y, has_proj_bias)
        dy = torch.empty_like(v)
        _join(_array((dadded @ proj).view(B, T, nh, hs)), _array(dy.view(B, nh, T, hs)))
        dweights = torch.bmm(dy, v.mT)
        kept = torch.empty_like(weights) if how.of_weights.threshold else weights
        _softmax_back(_array(weights), _array(dweights), _array(kept), *how.of_weights)
        dplaced = (torch.bmm(dweights, k), torch.bmm(dweights.mT, q), torch.bmm(kept.mT, dy))
        dmixed = torch.empty_like(mixed)
        arrays = (d.view(B, nh, T, hs) for d in dplaced)
        _norm_and_rotate_back(
            _array(mixed), how.cos_sin, how.qk_norm, ctx.factors, _array(dmixed), *map(_array, arrays)
        )
        dmixed = dmixed.view(B * T, 3 * C)
        dqkv, dqkv_bias = _linear_back(dmixed, h, has_qkv_bias)
        dx, dgain, dshift = _normed_back(dmixed @ qkv, x, gain, ctx.stats, dout, how.norm, has_shift)
        return dx.view(B, T, C), dgain, dshift, dqkv, dqkv_bias, dproj, dproj_bias, None


# ---- the MLP


def add_mlp(block: Block, x: Tensor) -> Tensor:
    """(..., C) -> x + mlp(ln_2(x)), (..., C)."""
    layer, norm = block.mlp, block.ln_2
    dropping = Dropping.draw(layer.dropout.p if layer.training else 0.0)
    how = layer.activate, Norm.of(norm), dropping, _dtype()
    return _AddMLP.apply(x, norm.weight, _bias(norm), *_weights(layer.fc), *_weights(layer.proj), *how)


class _AddMLP(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        gain: Tensor,
        shift: Tensor | None,
        fc: Tensor,
        fc_bias: Tensor | None,
        proj: Tensor,
        proj_bias: Tensor | None,
        activate: Activation,
        norm: Norm,
        dropping: Dropping,
        dtype: torch.dtype,
    ) -> Tensor:
        shape, x, fc, proj = x.shape, x.reshape(-1, x.shape[-1]), fc.to(dtype), proj.to(dtype)
        h, stats = _normed(x, gain, shift, norm, dtype)
        inner = _linear(h, fc, fc_bias)  # (M, 4 C)
        ctx.save_for_backward(x, gain, h, fc, proj, inner)
        ctx.stats, ctx.activate, ctx.norm, ctx.dropping = stats, activate, norm, dropping
        ctx.biases = shift is not None, fc_bias is not None, proj_bias is not None
        return _added(x, _linear(_activated(inner, activate), proj, proj_bias), dropping).view(shape)

    @staticmethod
    def backward(ctx: Any, dout: Tensor) -> tuple[Tensor | None, ...]:
        x, gain, h, fc, proj, inner = ctx.saved_tensors
        has_shift, has_fc_bias, has_proj_bias = ctx.biases
        shape, dout = dout.shape, dout.reshape(x.shape)
        dadded = _narrowed(dout, ctx.dropping, inner.dtype)
        dinner = dadded @ proj
        if ctx.activate is relu_squared:  # computed again, which takes no longer than to keep it
            active = torch.empty_like(inner)
            _relu_squared_back(_array(inner.view(-1)), _array(dinner.view(-1)), _array(active.view(-1)))
        else:
            with torch.enable_grad():
                active = ctx.activate(inner.requires_grad_())
                (dinner,) = torch.autograd.grad(active, inner, dinner)
        dproj, dproj_bias = _linear_back(dadded, active.detach(), has_proj_bias)
        dfc, dfc_bias = _linear_back(dinner, h, has_fc_bias)
        dx, dgain, dshift = _normed_back(dinner @ fc, x, gain, ctx.stats, dout, ctx.norm, has_shift)
        return dx.view(shape), dgain, dshift, dfc, dfc_bias, dproj, dproj_bias, None, None, None, None


# ---- parts of both sublayers


def _dtype() -> torch.dtype:
    return torch.get_autocast_dtype("cpu") if torch.is_autocast_enabled("cpu") else torch.float32


def _activated(x: Tensor, activate: Activation) -> Tensor:
    if activate is not relu_squared:
        return activate(x)
    y = torch.empty_like(x)
    _relu_squared(_array(x.view(-1)), _array(y.view(-1)))
    return y


def _bias(layer: nn.Module) -> Tensor | None:
    return getattr(layer, "bias", None)


def _weights(layer: nn.Linear) -> tuple[Tensor, Tensor | None]:
    return layer.weight, layer.bias


def _array(x: Tensor) -> Array:
    x = x.detach() if x.requires_grad else x
    return x.view(torch.uint16).numpy() if x.dtype == torch.bfloat16 else x.numpy()


def _linear(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    return F.linear(x, weight, None if bias is None else bias.to(x.dtype))


def _linear_back(dy: Tensor, x: Tensor, has_bias: bool) -> tuple[Tensor, Tensor | None]:
    """The gradients of weight and bias, float32."""
    return (dy.T @ x).float(), dy.float().sum(0) if has_bias else None


def _normed(x: Tensor, gain: Tensor, shift: Tensor | None, norm: Norm, dtype: torch.dtype) -> tuple[Tensor, Floats]:
    """(M, C) -> its norm, (M, C) of dtype, and (M, 2), the mean and the factor of each row."""
    h, stats = torch.empty_like(x, dtype=dtype), np.empty((len(x), 2), f32)
    _normalise(
        _array(x), _array(gain), _array(torch.zeros_like(gain) if shift is None else shift), *norm, _array(h), stats
    )
    return h, stats


def _normed_back(
    dh: Tensor, x: Tensor, gain: Tensor, stats: Floats, dout: Tensor, norm: Norm, has_shift: bool
) -> tuple[Tensor, Tensor, Tensor | None]:
    """(M, C) gradients of the norm and of x + sublayer -> those of x, (M, C), gain and shift, (C,)."""
    dx, dgain, dshift = torch.empty_like(x), torch.zeros_like(gain), torch.zeros_like(gain)
    arrays = (dh, x, gain, dout, dx, dgain, dshift)
    _normalise_back(norm.is_centred, stats, *map(_array, arrays))
    return dx, dgain, dshift if has_shift else None


def _added(x: Tensor, y: Tensor, dropping: Dropping) -> Tensor:
    """(M, C) of the residual stream + (M, C) of a sublayer, after dropout."""
    out = torch.empty_like(x)
    _add(_array(x), _array(y), *dropping, _array(out))
    return out


def _narrowed(dout: Tensor, dropping: Dropping, dtype: torch.dtype) -> Tensor:
    """(M, C) gradient of the residual stream -> (M, C) gradient of a sublayer's output before dropout, of dtype."""
    dy = torch.empty_like(dout, dtype=dtype)
    _narrow(_array(dout), *dropping, _array(dy))
    return dy


# ---- passes


def _wide(element: Any) -> np.float32:
    """An element of an array, in float32."""
    raise NotImplementedError("compiled code calls what is below")


@overload(_wide, inline="always")
def _wide_of(element: Any) -> Any:
    def same(element: Any) -> np.float32:
        return element

    def of_bf16(element: Any) -> np.float32:
        return u32(u32(element) << u32(16)).view(f32)

    return same if isinstance(element, types.Float) else of_bf16


def _like(element: Any, x: np.float32) -> Any:
    """A float32 as an element of the same array would be: rounded to the nearest bf16, ties to even."""
    raise NotImplementedError("compiled code calls what is below")


@overload(_like, inline="always")
def _like_of(element: Any, x: np.float32) -> Any:  # noqa: ARG001 (only its type counts)
    def same(element: Any, x: np.float32) -> np.float32:  # noqa: ARG001
        return f32(x)

    def to_bf16(element: Any, x: np.float32) -> np.uint16:  # noqa: ARG001
        bits = f32(x).view(u32)
        return u16(u32(bits + u32(0x7FFF) + ((bits >> u32(16)) & u32(1))) >> u32(16))

    return same if isinstance(element, types.Float) else to_bf16


@compiled_sums
def _order(x: np.float32) -> np.int32:
    """A float32 as an integer of the same order: the greatest of many integers is found at once, that of floats not."""
    bits = f32(x).view(i32)
    return i32(bits ^ i32(i32(bits >> i32(31)) & i32(0x7FFFFFFF)))


@compiled_sums
def _of_order(order: np.int32) -> np.float32:
    """The float32 of this order."""
    return i32(order ^ i32(i32(order >> i32(31)) & i32(0x7FFFFFFF))).view(f32)


@compiled_sums
def _exp(x: np.float32) -> np.float32:
    """e^x for x <= 0: 2^n by its bits, n being the nearest integer, times 2^r by its series."""
    y = max(x * f32(1.4426950408889634), f32(-126.0))
    n = np.floor(y + f32(0.5))
    r = y - n
    p = f32(1.5403530e-4) + r * f32(1.5252733e-5)
    p = f32(9.6181291e-3) + r * (f32(1.3333558e-3) + r * p)
    p = f32(0.24022651) + r * (f32(5.5504109e-2) + r * p)
    p = f32(1.0) + r * (f32(0.69314718) + r * p)
    return p * i32((i32(n) + i32(127)) << i32(23)).view(f32)


@compiled_sums
def _keeps(seed: np.uint64, i: int, threshold: np.uint64) -> bool:
    """Whether dropout keeps element i: four share the 64 random bits of SplitMix64."""
    z = seed + u64(i >> 2) * u64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> u64(30))) * u64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> u64(27))) * u64(0x94D049BB133111EB)
    z ^= z >> u64(31)
    return bool(((z >> u64(16 * (i & 3))) & u64(0xFFFF)) >= threshold)


@compiled_sums
def _normalise(
    x: Floats, gain: Floats, shift: Floats, is_centred: bool, epsilon: float, h: Array, stats: Floats
) -> None:
    """(M, C) -> h, (M, C); the mean and the factor of each row go into stats, (M, 2)."""
    M, C = x.shape
    for i in range(M):
        mean, square = f32(0), f32(0)
        if is_centred:
            for j in range(C):
                mean += x[i, j]
            mean /= f32(C)
        for j in range(C):
            square += (x[i, j] - mean) * (x[i, j] - mean)
        factor = f32(1) / np.sqrt(square / f32(C) + f32(epsilon))
        for j in range(C):
            h[i, j] = _like(h[i, j], (x[i, j] - mean) * factor * gain[j] + shift[j])
        stats[i, 0], stats[i, 1] = mean, factor


@compiled_sums
def _normalise_back(
    is_centred: bool, stats: Floats, dh: Array, x: Floats, gain: Floats, dout: Floats, dx: Floats, dgain: Floats,
    dshift: Floats,
) -> None:  # fmt: skip
    """dx = dout + the gradient through the norm; all (M, C); those of gain and shift are added to dgain and dshift."""
    M, C = x.shape
    for i in range(M):
        mean, factor = stats[i, 0], stats[i, 1]
        along, level = f32(0), f32(0)
        for j in range(C):
            along += _wide(dh[i, j]) * gain[j] * ((x[i, j] - mean) * factor)
            level += _wide(dh[i, j]) * gain[j]
        for j in range(C):
            dgain[j] += _wide(dh[i, j]) * ((x[i, j] - mean) * factor)
            dshift[j] += _wide(dh[i, j])
        along /= f32(C)
        level = level / f32(C) if is_centred else f32(0)
        for j in range(C):
            unit = (x[i, j] - mean) * factor
            dx[i, j] = dout[i, j] + factor * (_wide(dh[i, j]) * gain[j] - level - unit * along)


@compiled_sums
def _add(x: Floats, y: Array, seed: np.uint64, threshold: np.uint64, factor: np.float32, out: Floats) -> None:
    M, C = x.shape
    for i in range(M):
        if threshold:
            for j in range(C):
                out[i, j] = x[i, j] + (_wide(y[i, j]) * factor if _keeps(seed, i * C + j, threshold) else f32(0))
        else:
            for j in range(C):
                out[i, j] = x[i, j] + _wide(y[i, j])


@compiled_sums
def _narrow(x: Floats, seed: np.uint64, threshold: np.uint64, factor: np.float32, out: Array) -> None:
    M, C = x.shape
    for i in range(M):
        if threshold:
            for j in range(C):
                out[i, j] = _like(out[i, j], x[i, j] * factor if _keeps(seed, i * C + j, threshold) else f32(0))
        else:
            for j in range(C):
                out[i, j] = _like(out[i, j], x[i, j])


@compiled_sums
def _norm_and_rotate(mixed: Array, cos_sin: Floats, qk_norm: bool, placed: Array, factors: Floats) -> None:
    """(B, T, 3, nh, hs) -> (3, B, nh, T, hs): queries, scaled, and keys normalised and rotated; values as they are.

    The factors of the norms go into (2, B, nh, T).
    """
    B, T, _, nh, hs = mixed.shape
    half = hs // 2
    for b in range(B):
        for h in range(nh):
            for part in range(2):
                for t in range(T):
                    square = f32(0)
                    for j in range(hs):
                        square += _wide(mixed[b, t, part, h, j]) * _wide(mixed[b, t, part, h, j])
                    factor = f32(1) / np.sqrt(square / f32(hs) + f32(EPSILON)) if qk_norm else f32(1)
                    factors[part, b, h, t] = factor
                    if part == 0:
                        factor *= f32(hs**-0.5)
                    for j in range(half):
                        first = _wide(mixed[b, t, part, h, j]) * factor
                        second = _wide(mixed[b, t, part, h, half + j]) * factor
                        cos, sin = cos_sin[0, t, j], cos_sin[1, t, j]
                        placed[part, b, h, t, j] = _like(mixed[b, t, part, h, j], first * cos + second * sin)
                        placed[part, b, h, t, half + j] = _like(mixed[b, t, part, h, j], second * cos - first * sin)
                    if hs % 2:
                        placed[part, b, h, t, hs - 1] = _like(
                            mixed[b, t, part, h, 0], _wide(mixed[b, t, part, h, hs - 1]) * factor
                        )
            for t in range(T):
                for j in range(hs):
                    placed[2, b, h, t, j] = mixed[b, t, 2, h, j]


@compiled_sums
def _norm_and_rotate_back(
    mixed: Array, cos_sin: Floats, qk_norm: bool, factors: Floats, dmixed: Array, dq: Array, dk: Array, dv: Array
) -> None:
    B, T, _, nh, hs = mixed.shape
    half = hs // 2
    g = np.empty(hs, f32)
    for b in range(B):
        for h in range(nh):
            for part in range(2):
                dplaced = dq if part == 0 else dk
                for t in range(T):
                    factor, along = factors[part, b, h, t], f32(0)
                    for j in range(half):
                        first, second = _wide(dplaced[b, h, t, j]), _wide(dplaced[b, h, t, half + j])
                        cos, sin = cos_sin[0, t, j], cos_sin[1, t, j]
                        g[j], g[half + j] = first * cos - second * sin, first * sin + second * cos
                    if hs % 2:
                        g[hs - 1] = _wide(dplaced[b, h, t, hs - 1])
                    if qk_norm:  # this component only changes the length, which is fixed
                        for j in range(hs):
                            along += g[j] * _wide(mixed[b, t, part, h, j])
                        along *= factor * factor / f32(hs)
                    if part == 0:
                        factor *= f32(hs**-0.5)
                    for j in range(hs):
                        dx = (g[j] - _wide(mixed[b, t, part, h, j]) * along) * factor
                        dmixed[b, t, part, h, j] = _like(mixed[b, t, part, h, j], dx)
            for t in range(T):
                for j in range(hs):
                    dmixed[b, t, 2, h, j] = dv[b, h, t, j]


@compiled_sums
def _softmax(scores: Array, kept: Array, seed: np.uint64, threshold: np.uint64, factor: np.float32) -> None:
    """(n, T, T) scores -> weights, in place: row t sums to 1 over columns 0 to t. After dropout they go into `kept`."""
    n, T, _ = scores.shape
    e, visible, limit = np.empty(T, f32), np.zeros(2 * T, f32), np.full(2 * T, LOWEST, i32)
    visible[:T], limit[:T] = 1, HIGHEST  # column j of row t is at T - 1 - t + j
    for a in range(n):
        for t in range(T):
            S, before, highest, total = min(T, (t // COLUMNS + 1) * COLUMNS), T - 1 - t, LOWEST, f32(0)
            for j in range(S):
                highest = max(highest, min(_order(_wide(scores[a, t, j])), limit[before + j]))
            most = _of_order(highest)
            for j in range(S):
                e[j] = _exp(min(_wide(scores[a, t, j]) - most, f32(0))) * visible[before + j]
            for j in range(S):
                total += e[j]
            total = f32(1) / total
            for j in range(S):
                scores[a, t, j] = _like(scores[a, t, j], e[j] * total)
            for j in range(S, T):
                scores[a, t, j] = 0
            if threshold:
                total, at = total * factor, (a * T + t) * T
                for j in range(S):
                    kept[a, t, j] = _like(scores[a, t, j], e[j] * total if _keeps(seed, at + j, threshold) else f32(0))
                for j in range(S, T):
                    kept[a, t, j] = 0


@compiled_sums
def _softmax_back(
    weights: Array, dweights: Array, kept: Array, seed: np.uint64, threshold: np.uint64, factor: np.float32
) -> None:
    """(n, T, T) gradients of weights -> those of scores, in place; the weights after dropout go into `kept` again."""
    n, T, _ = weights.shape
    g = np.empty(T, f32)
    for a in range(n):
        for t in range(T):
            S, at, total = min(T, (t // COLUMNS + 1) * COLUMNS), (a * T + t) * T, f32(0)
            for j in range(S):
                g[j] = _wide(dweights[a, t, j])
            if threshold:
                for j in range(S):
                    scale = factor if _keeps(seed, at + j, threshold) else f32(0)
                    kept[a, t, j] = _like(weights[a, t, j], _wide(weights[a, t, j]) * scale)
                    g[j] *= scale
                for j in range(S, T):
                    kept[a, t, j] = 0
            for j in range(S):
                total += _wide(weights[a, t, j]) * g[j]
            for j in range(S):  # weights after t are 0
                dweights[a, t, j] = _like(weights[a, t, j], _wide(weights[a, t, j]) * (g[j] - total))
            for j in range(S, T):
                dweights[a, t, j] = 0


@compiled_sums
def _join(x: Array, y: Array) -> None:
    """Transpose (B, n, m, hs) into (B, m, n, hs): joins heads, or splits them."""
    B, n, m, hs = x.shape
    for b in range(B):
        for i in range(n):
            for k in range(m):
                for j in range(hs):
                    y[b, k, i, j] = x[b, i, k, j]


@compiled_sums
def _relu_squared(x: Array, y: Array) -> None:
    for i in range(len(x)):
        positive = max(_wide(x[i]), f32(0))
        y[i] = _like(x[i], positive * positive)


@compiled_sums
def _relu_squared_back(x: Array, dy: Array, y: Array) -> None:
    for i in range(len(x)):
        positive = max(_wide(x[i]), f32(0))
        y[i] = _like(x[i], positive * positive)
        dy[i] = _like(x[i], _wide(dy[i]) * (positive + positive))
