"""Compute attention and MLP faster on a CPU: torch multiplies the matrices, and compiled loops compute the rest.

In a small model, a CPU multiplies matrices faster than it reads and writes the tensors between the products. In plain
torch, each operation needs a call and a pass over memory, and often a conversion between number formats. Here each
sublayer, attention or MLP, is one autograd function with a hand-written backward pass. Tests compare it with the plain
layer.

The residual stream is float32. The other tensors have the type of the matrix products, float32 or bf16. numba has no
bf16, so the loops read a bf16 number as uint16. These are the upper 16 bits of the same number in float32.

Letters in shapes: B windows, T positions, M = B T rows, C channels, nh heads, hs channels of one head.

Sources: Dao et al. 2022, "FlashAttention" (the cost of a pass over memory); Steele, Lea & Flood 2014, "Fast splittable
pseudorandom number generators" (SplitMix64, for dropout).
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

Array = npt.NDArray[Any]  # float32, or bf16 that is stored as uint16
Floats = npt.NDArray[np.float32]
Activation = Callable[[Tensor], Tensor]

f32, i32, u16, u32, u64 = np.float32, np.int32, np.uint16, np.uint32, np.uint64
LOWEST, HIGHEST = i32(-(2**31)), i32(2**31 - 1)
COLUMNS = 32  # attention weights are computed in blocks of this many columns, which suits vector instructions


class Norm(NamedTuple):
    """Settings of a norm. `is_centred` is True for LayerNorm, which subtracts the mean, and False for RMSNorm."""

    is_centred: bool
    epsilon: float

    @classmethod
    def of(cls, layer: nn.Module) -> "Norm":
        """Return the settings of `layer`, an nn.LayerNorm or nn.RMSNorm. Other norms run in plain torch."""
        return cls(isinstance(layer, nn.LayerNorm), layer.eps or EPSILON)


class DropoutMask(NamedTuple):
    """A dropout mask (Srivastava et al. 2014) that is computed from a seed and not stored.

    Each element becomes zero with probability `threshold` / 65536. Otherwise, it is multiplied by `factor`. The random
    number of an element depends only on `seed` and the element's index, so the backward pass can compute the same mask
    again.
    """

    seed: np.uint64
    threshold: np.uint64
    factor: np.float32

    @classmethod
    def draw(cls, p: float) -> "DropoutMask":
        """Return a mask for dropout with probability `p`. Its seed is drawn from torch's generator, unless `p` is 0."""
        seed = torch.empty((), dtype=torch.int64).random_().item() if p else 0
        return cls(u64(seed), u64(round(p * 2**16)), f32(1 / (1 - p)))


# ---- attention


class AttentionSpec(NamedTuple):
    """Settings of an attention sublayer.

    n_head: number of heads.
    cos_sin: (2, T, hs), cosines and sines of the rotary angles for T positions and hs channels (`rotary_cos_sin`).
    qk_norm: whether queries and keys are normalized.
    norm: settings of the norm before attention.
    weights_mask: dropout mask of the attention weights.
    output_mask: dropout mask of the sublayer's output.
    dtype: type of the matrix products.
    """

    n_head: int
    cos_sin: Floats
    qk_norm: bool
    norm: Norm
    weights_mask: DropoutMask
    output_mask: DropoutMask
    dtype: torch.dtype


def add_attention(block: Block, x: Tensor, cos_sin: Tensor | None) -> Tensor:
    """Return x + attention(ln_1(x)) with the layers of `block`.

    `x` and the result are (B, T, C) with batch, time, channels. `cos_sin` is the result of `rotary_cos_sin`, or None
    without rotary positions.
    """
    layer, norm = block.attention, block.ln_1
    if cos_sin is None:  # a rotation by 0 changes nothing
        cos_sin = torch.tensor([1.0, 0.0]).view(2, 1, 1).expand(2, x.shape[1], layer.head_size)
    p = layer.dropout if layer.training else 0.0
    spec = AttentionSpec(
        layer.n_head, cos_sin.numpy(), layer.qk_norm, Norm.of(norm), DropoutMask.draw(p), DropoutMask.draw(p), _dtype()
    )
    return _AddAttention.apply(x, norm.weight, _bias(norm), *_weights(layer.qkv), *_weights(layer.proj), spec)


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
        spec: AttentionSpec,
    ) -> Tensor:
        B, T, C = x.shape
        nh, hs, dtype = spec.n_head, C // spec.n_head, spec.dtype
        x, qkv, proj = x.reshape(B * T, C), qkv.to(dtype), proj.to(dtype)
        h, stats = _normed(x, gain, shift, spec.norm, dtype)
        projected = _linear(h, qkv, qkv_bias).view(B, T, 3, nh, hs)
        rotated, factors = h.new_empty(3, B, nh, T, hs), np.empty((2, B, nh, T), f32)
        _norm_and_rotate(_array(projected), spec.cos_sin, spec.qk_norm, _array(rotated), factors)
        q, k, v = rotated.flatten(1, 2)  # (B nh, T, hs) each
        weights = torch.bmm(q, k.mT)  # (B nh, T, T)
        kept = torch.empty_like(weights) if spec.weights_mask.threshold else weights
        _softmax(_array(weights), _array(kept), *spec.weights_mask)
        y = torch.empty_like(h)
        _transpose(_array(torch.bmm(kept, v).view(B, nh, T, hs)), _array(y.view(B, T, nh, hs)))
        ctx.save_for_backward(x, gain, h, qkv, proj, projected, q, k, v, weights, y)
        ctx.stats, ctx.factors, ctx.spec = stats, factors, spec
        ctx.biases = shift is not None, qkv_bias is not None, proj_bias is not None
        return _added(x, _linear(y, proj, proj_bias), spec.output_mask).view(B, T, C)

    @staticmethod
    def backward(ctx: Any, dout: Tensor) -> tuple[Tensor | None, ...]:
        x, gain, h, qkv, proj, projected, q, k, v, weights, y = ctx.saved_tensors
        spec, (has_shift, has_qkv_bias, has_proj_bias) = ctx.spec, ctx.biases
        (B, T, C), (_, _, _, nh, hs) = dout.shape, projected.shape
        dout = dout.reshape(B * T, C)
        dadded = _added_back(dout, spec.output_mask, spec.dtype)
        dproj, dproj_bias = _linear_back(dadded, y, has_proj_bias)
        dy = torch.empty_like(v)
        _transpose(_array((dadded @ proj).view(B, T, nh, hs)), _array(dy.view(B, nh, T, hs)))
        dweights = torch.bmm(dy, v.mT)
        kept = torch.empty_like(weights) if spec.weights_mask.threshold else weights
        _softmax_back(_array(weights), _array(dweights), _array(kept), *spec.weights_mask)
        drotated = (torch.bmm(dweights, k), torch.bmm(dweights.mT, q), torch.bmm(kept.mT, dy))
        dprojected = torch.empty_like(projected)
        arrays = (d.view(B, nh, T, hs) for d in drotated)
        _norm_and_rotate_back(
            _array(projected), spec.cos_sin, spec.qk_norm, ctx.factors, _array(dprojected), *map(_array, arrays)
        )
        dprojected = dprojected.view(B * T, 3 * C)
        dqkv, dqkv_bias = _linear_back(dprojected, h, has_qkv_bias)
        dx, dgain, dshift = _normed_back(dprojected @ qkv, x, gain, ctx.stats, dout, spec.norm, has_shift)
        return dx.view(B, T, C), dgain, dshift, dqkv, dqkv_bias, dproj, dproj_bias, None


# ---- the MLP


def add_mlp(block: Block, x: Tensor) -> Tensor:
    """Return x + mlp(ln_2(x)) with the layers of `block`. `x` and the result are (..., C), with C channels."""
    layer, norm = block.mlp, block.ln_2
    mask = DropoutMask.draw(layer.dropout.p if layer.training else 0.0)
    settings = layer.activate, Norm.of(norm), mask, _dtype()
    return _AddMLP.apply(x, norm.weight, _bias(norm), *_weights(layer.fc), *_weights(layer.proj), *settings)


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
        mask: DropoutMask,
        dtype: torch.dtype,
    ) -> Tensor:
        shape, x, fc, proj = x.shape, x.reshape(-1, x.shape[-1]), fc.to(dtype), proj.to(dtype)
        h, stats = _normed(x, gain, shift, norm, dtype)
        inner = _linear(h, fc, fc_bias)  # (M, 4 C)
        ctx.save_for_backward(x, gain, h, fc, proj, inner)
        ctx.stats, ctx.activate, ctx.norm, ctx.mask = stats, activate, norm, mask
        ctx.biases = shift is not None, fc_bias is not None, proj_bias is not None
        return _added(x, _linear(_activated(inner, activate), proj, proj_bias), mask).view(shape)

    @staticmethod
    def backward(ctx: Any, dout: Tensor) -> tuple[Tensor | None, ...]:
        x, gain, h, fc, proj, inner = ctx.saved_tensors
        has_shift, has_fc_bias, has_proj_bias = ctx.biases
        shape, dout = dout.shape, dout.reshape(x.shape)
        dadded = _added_back(dout, ctx.mask, inner.dtype)
        dinner = dadded @ proj
        if ctx.activate is relu_squared:  # recomputing the activation is as fast as saving it
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


# ---- steps of both sublayers


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
    """Return the gradients of a linear layer's weight and bias in float32."""
    return (dy.T @ x).float(), dy.float().sum(0) if has_bias else None


def _normed(x: Tensor, gain: Tensor, shift: Tensor | None, norm: Norm, dtype: torch.dtype) -> tuple[Tensor, Floats]:
    """Apply a norm with weight `gain` and bias `shift` to the rows of `x`, which has M rows of C channels."""
    h, stats = torch.empty_like(x, dtype=dtype), np.empty((len(x), 2), f32)
    _normalize(
        _array(x), _array(gain), _array(torch.zeros_like(gain) if shift is None else shift), *norm, _array(h), stats
    )
    return h, stats


def _normed_back(
    dh: Tensor, x: Tensor, gain: Tensor, stats: Floats, dout: Tensor, norm: Norm, has_shift: bool
) -> tuple[Tensor, Tensor, Tensor | None]:
    """Compute the backward pass of a norm, and add the gradient of the residual connection around the sublayer."""
    dx, dgain, dshift = torch.empty_like(x), torch.zeros_like(gain), torch.zeros_like(gain)
    arrays = (dh, x, gain, dout, dx, dgain, dshift)
    _normalize_back(norm.is_centred, stats, *map(_array, arrays))
    return dx, dgain, dshift if has_shift else None


def _added(x: Tensor, y: Tensor, mask: DropoutMask) -> Tensor:
    """Add the output `y` of a sublayer to the residual stream `x`, after dropout. All shapes are (M, C)."""
    out = torch.empty_like(x)
    _add(_array(x), _array(y), *mask, _array(out))
    return out


def _added_back(dout: Tensor, mask: DropoutMask, dtype: torch.dtype) -> Tensor:
    """Compute the backward pass of `_added`: return the gradient of `y` in `dtype`, given the gradient of the sum."""
    dy = torch.empty_like(dout, dtype=dtype)
    _add_back(_array(dout), *mask, _array(dy))
    return dy


# ---- compiled loops


def _to_float32(element: Any) -> np.float32:
    """Convert an array element to float32. The element is a float32, or a bf16 that is stored as uint16."""
    raise NotImplementedError("_to_float32 exists only in compiled code")


@overload(_to_float32, inline="always")
def _to_float32_overload(element: Any) -> Any:
    def same(element: Any) -> np.float32:
        return element

    def of_bf16(element: Any) -> np.float32:
        return u32(u32(element) << u32(16)).view(f32)

    return same if isinstance(element, types.Float) else of_bf16


def _to_type_of(element: Any, x: np.float32) -> Any:
    """Convert `x` to the type of `element`, which is float32, or bf16 that is stored as uint16."""
    raise NotImplementedError("_to_type_of exists only in compiled code")


@overload(_to_type_of, inline="always")
def _to_type_of_overload(element: Any, x: np.float32) -> Any:  # noqa: ARG001 (only the type of element is used)
    def same(element: Any, x: np.float32) -> np.float32:  # noqa: ARG001
        return f32(x)

    def to_bf16(element: Any, x: np.float32) -> np.uint16:  # noqa: ARG001
        bits = f32(x).view(u32)
        return u16(u32(bits + u32(0x7FFF) + ((bits >> u32(16)) & u32(1))) >> u32(16))

    return same if isinstance(element, types.Float) else to_bf16


@compiled_sums
def _to_ordered_int(x: np.float32) -> np.int32:
    """Map a float32 to an int32 with the same order: a larger float gives a larger integer."""
    bits = f32(x).view(i32)
    return i32(bits ^ i32(i32(bits >> i32(31)) & i32(0x7FFFFFFF)))


@compiled_sums
def _from_ordered_int(number: np.int32) -> np.float32:
    """Return the float32 that `_to_ordered_int` maps to `number`."""
    return i32(number ^ i32(i32(number >> i32(31)) & i32(0x7FFFFFFF))).view(f32)


@compiled_sums
def _exp(x: np.float32) -> np.float32:
    """Compute e^x for x <= 0 as 2^n times 2^r. n is x / ln 2 rounded to an integer, and r is x / ln 2 - n."""
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
    """Return whether dropout keeps element `i`."""
    z = seed + u64(i >> 2) * u64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> u64(30))) * u64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> u64(27))) * u64(0x94D049BB133111EB)
    z ^= z >> u64(31)
    return bool(((z >> u64(16 * (i & 3))) & u64(0xFFFF)) >= threshold)


@compiled_sums
def _normalize(
    x: Floats, gain: Floats, shift: Floats, is_centred: bool, epsilon: float, h: Array, stats: Floats
) -> None:
    """Apply LayerNorm (with `is_centred`) or RMSNorm to M rows of C channels."""
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
            h[i, j] = _to_type_of(h[i, j], (x[i, j] - mean) * factor * gain[j] + shift[j])
        stats[i, 0], stats[i, 1] = mean, factor


@compiled_sums
def _normalize_back(
    is_centred: bool, stats: Floats, dh: Array, x: Floats, gain: Floats, dout: Floats, dx: Floats, dgain: Floats,
    dshift: Floats,
) -> None:  # fmt: skip
    """Compute the backward pass of `_normalize`, and add the gradient of the residual connection."""
    M, C = x.shape
    for i in range(M):
        mean, factor = stats[i, 0], stats[i, 1]
        along, level = f32(0), f32(0)
        for j in range(C):
            along += _to_float32(dh[i, j]) * gain[j] * ((x[i, j] - mean) * factor)
            level += _to_float32(dh[i, j]) * gain[j]
        for j in range(C):
            dgain[j] += _to_float32(dh[i, j]) * ((x[i, j] - mean) * factor)
            dshift[j] += _to_float32(dh[i, j])
        along /= f32(C)
        level = level / f32(C) if is_centred else f32(0)
        for j in range(C):
            unit = (x[i, j] - mean) * factor
            dx[i, j] = dout[i, j] + factor * (_to_float32(dh[i, j]) * gain[j] - level - unit * along)


@compiled_sums
def _add(x: Floats, y: Array, seed: np.uint64, threshold: np.uint64, factor: np.float32, out: Floats) -> None:
    M, C = x.shape
    for i in range(M):
        if threshold:
            for j in range(C):
                out[i, j] = x[i, j] + (_to_float32(y[i, j]) * factor if _keeps(seed, i * C + j, threshold) else f32(0))
        else:
            for j in range(C):
                out[i, j] = x[i, j] + _to_float32(y[i, j])


@compiled_sums
def _add_back(x: Floats, seed: np.uint64, threshold: np.uint64, factor: np.float32, out: Array) -> None:
    M, C = x.shape
    for i in range(M):
        if threshold:
            for j in range(C):
                out[i, j] = _to_type_of(out[i, j], x[i, j] * factor if _keeps(seed, i * C + j, threshold) else f32(0))
        else:
            for j in range(C):
                out[i, j] = _to_type_of(out[i, j], x[i, j])


@compiled_sums
def _norm_and_rotate(projected: Array, cos_sin: Floats, qk_norm: bool, rotated: Array, factors: Floats) -> None:
    """Normalize and rotate the queries and keys, multiply the queries by hs^-0.5, and copy the values."""
    B, T, _, nh, hs = projected.shape
    half = hs // 2
    for b in range(B):
        for h in range(nh):
            for part in range(2):
                for t in range(T):
                    square = f32(0)
                    for j in range(hs):
                        square += _to_float32(projected[b, t, part, h, j]) * _to_float32(projected[b, t, part, h, j])
                    factor = f32(1) / np.sqrt(square / f32(hs) + f32(EPSILON)) if qk_norm else f32(1)
                    factors[part, b, h, t] = factor
                    if part == 0:
                        factor *= f32(hs**-0.5)
                    for j in range(half):
                        first = _to_float32(projected[b, t, part, h, j]) * factor
                        second = _to_float32(projected[b, t, part, h, half + j]) * factor
                        cos, sin = cos_sin[0, t, j], cos_sin[1, t, j]
                        rotated[part, b, h, t, j] = _to_type_of(projected[b, t, part, h, j], first * cos + second * sin)
                        rotated[part, b, h, t, half + j] = _to_type_of(
                            projected[b, t, part, h, j], second * cos - first * sin
                        )
                    if hs % 2:
                        rotated[part, b, h, t, hs - 1] = _to_type_of(
                            projected[b, t, part, h, 0], _to_float32(projected[b, t, part, h, hs - 1]) * factor
                        )
            for t in range(T):
                for j in range(hs):
                    rotated[2, b, h, t, j] = projected[b, t, 2, h, j]


@compiled_sums
def _norm_and_rotate_back(
    projected: Array, cos_sin: Floats, qk_norm: bool, factors: Floats, dprojected: Array, dq: Array, dk: Array,
    dv: Array,
) -> None:  # fmt: skip
    B, T, _, nh, hs = projected.shape
    half = hs // 2
    g = np.empty(hs, f32)
    for b in range(B):
        for h in range(nh):
            for part in range(2):
                drotated = dq if part == 0 else dk
                for t in range(T):
                    factor, along = factors[part, b, h, t], f32(0)
                    for j in range(half):
                        first, second = _to_float32(drotated[b, h, t, j]), _to_float32(drotated[b, h, t, half + j])
                        cos, sin = cos_sin[0, t, j], cos_sin[1, t, j]
                        g[j], g[half + j] = first * cos - second * sin, first * sin + second * cos
                    if hs % 2:
                        g[hs - 1] = _to_float32(drotated[b, h, t, hs - 1])
                    # the norm fixes the length of the vector, so the gradient has no component along the vector
                    if qk_norm:
                        for j in range(hs):
                            along += g[j] * _to_float32(projected[b, t, part, h, j])
                        along *= factor * factor / f32(hs)
                    if part == 0:
                        factor *= f32(hs**-0.5)
                    for j in range(hs):
                        dx = (g[j] - _to_float32(projected[b, t, part, h, j]) * along) * factor
                        dprojected[b, t, part, h, j] = _to_type_of(projected[b, t, part, h, j], dx)
            for t in range(T):
                for j in range(hs):
                    dprojected[b, t, 2, h, j] = dv[b, h, t, j]


@compiled_sums
def _softmax(scores: Array, kept: Array, seed: np.uint64, threshold: np.uint64, factor: np.float32) -> None:
    """Turn the `scores` of n heads and T positions, (n, T, T), into causal attention weights in place."""
    n, T, _ = scores.shape
    e, visible, limit = np.empty(T, f32), np.zeros(2 * T, f32), np.full(2 * T, LOWEST, i32)
    visible[:T], limit[:T] = 1, HIGHEST  # element T - 1 - t + j is the causal mask for row t and column j
    for a in range(n):
        for t in range(T):
            S, offset, highest, total = min(T, (t // COLUMNS + 1) * COLUMNS), T - 1 - t, LOWEST, f32(0)
            for j in range(S):
                highest = max(highest, min(_to_ordered_int(_to_float32(scores[a, t, j])), limit[offset + j]))
            maximum = _from_ordered_int(highest)
            for j in range(S):
                e[j] = _exp(min(_to_float32(scores[a, t, j]) - maximum, f32(0))) * visible[offset + j]
            for j in range(S):
                total += e[j]
            total = f32(1) / total
            for j in range(S):
                scores[a, t, j] = _to_type_of(scores[a, t, j], e[j] * total)
            for j in range(S, T):
                scores[a, t, j] = 0
            if threshold:
                total, start = total * factor, (a * T + t) * T
                for j in range(S):
                    kept[a, t, j] = _to_type_of(
                        scores[a, t, j], e[j] * total if _keeps(seed, start + j, threshold) else f32(0)
                    )
                for j in range(S, T):
                    kept[a, t, j] = 0


@compiled_sums
def _softmax_back(
    weights: Array, dweights: Array, kept: Array, seed: np.uint64, threshold: np.uint64, factor: np.float32
) -> None:
    """Turn `dweights`, the gradients of the attention weights, into the gradients of the scores, in place."""
    n, T, _ = weights.shape
    g = np.empty(T, f32)
    for a in range(n):
        for t in range(T):
            S, start, total = min(T, (t // COLUMNS + 1) * COLUMNS), (a * T + t) * T, f32(0)
            for j in range(S):
                g[j] = _to_float32(dweights[a, t, j])
            if threshold:
                for j in range(S):
                    scale = factor if _keeps(seed, start + j, threshold) else f32(0)
                    kept[a, t, j] = _to_type_of(weights[a, t, j], _to_float32(weights[a, t, j]) * scale)
                    g[j] *= scale
                for j in range(S, T):
                    kept[a, t, j] = 0
            for j in range(S):
                total += _to_float32(weights[a, t, j]) * g[j]
            for j in range(S):  # weights in the columns after t are 0, so these columns need no mask
                dweights[a, t, j] = _to_type_of(weights[a, t, j], _to_float32(weights[a, t, j]) * (g[j] - total))
            for j in range(S, T):
                dweights[a, t, j] = 0


@compiled_sums
def _transpose(x: Array, y: Array) -> None:
    """Copy `x`, (B, n, m, hs), to `y`, (B, m, n, hs). This exchanges the axes of heads and positions."""
    B, n, m, hs = x.shape
    for b in range(B):
        for i in range(n):
            for k in range(m):
                for j in range(hs):
                    y[b, k, i, j] = x[b, i, k, j]


@compiled_sums
def _relu_squared(x: Array, y: Array) -> None:
    for i in range(len(x)):
        positive = max(_to_float32(x[i]), f32(0))
        y[i] = _to_type_of(x[i], positive * positive)


@compiled_sums
def _relu_squared_back(x: Array, dy: Array, y: Array) -> None:
    for i in range(len(x)):
        positive = max(_to_float32(x[i]), f32(0))
        y[i] = _to_type_of(x[i], positive * positive)
        dy[i] = _to_type_of(x[i], _to_float32(dy[i]) * (positive + positive))
