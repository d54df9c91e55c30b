"""Compute attention and MLP faster on a CPU: torch multiplies the matrices, and compiled loops compute the rest.

In a small model, a CPU multiplies matrices faster than it reads and writes the tensors between the products. In plain
torch, each operation needs a call and a pass over memory, and often a conversion between number formats. Here each
sublayer, attention or MLP, is one autograd function with a hand-written backward pass.

The residual stream is float32. The other tensors have the type of the matrix products, float32 or bf16. numba has no
bf16, so the loops read a bf16 number as uint16. These are the upper 16 bits of the same number in float32.

Letters in shapes: B windows, T positions, M = B T rows, C channels, nh heads, hs channels of one head.

Sources: Dao et al. 2022, "FlashAttention" (the cost of a pass over memory); Steele et al. 2014, "Fast splittable
pseudorandom number generators" (SplitMix64, for dropout).
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F
from numba import types
from numba.extending import overload
from torch import Tensor, nn

from bukva.core.compiled import P, R, compiled
from bukva.models.attention import EPSILON, LayerCache, attend_fused
from bukva.models.gpt import Block, relu_squared

Array = npt.NDArray[Any]  # float32, or bf16 that is stored as uint16
Floats = npt.NDArray[np.float32]

f32, i32, u16, u32, u64 = np.float32, np.int32, np.uint16, np.uint32, np.uint64
LOWEST, HIGHEST = i32(-(2**31)), i32(2**31 - 1)
COLUMNS = 32  # attention weights are computed in blocks of this many columns, which suits vector instructions


class CPUBlock(Block):
    """A transformer block of a GPT, computed by compiled loops in training and in bf16 validation, else by torch."""

    def forward(
        self,
        x: Tensor,
        cos_sin: Tensor | None = None,
        cache: LayerCache | None = None,
        wanted: Tensor | None = None,
    ) -> Tensor:
        is_float = x.device.type == "cpu" and x.dtype == torch.float32
        is_training = torch.is_grad_enabled() or torch.is_autocast_enabled("cpu")  # or bf16 validation
        if cache is None and is_training and is_float and serves(self):
            x = add_attention(self, x, cos_sin)
            return add_mlp(self, x if wanted is None else x[wanted])
        return super().forward(x, cos_sin, cache, wanted)


def serves(block: Block) -> bool:
    """Return whether `add_attention` and `add_mlp` support the block: causal, with LayerNorm, even heads, no biases."""
    layer = block.attention
    is_known = layer.causal and layer.attend is attend_fused and isinstance(block.ln_1, nn.LayerNorm)
    return is_known and layer.qkv.bias is None and layer.head_size % 2 == 0


# ---- the sublayers


def add_attention(block: Block, x: Tensor, cos_sin: Tensor | None) -> Tensor:
    """Return x + attention(ln_1(x)) with the layers of `block`.

    `x` and the result are (B, T, C). `cos_sin` is the result of `rotary_cos_sin`, or None without rotary positions.
    """
    layer = block.attention
    if cos_sin is None:  # a rotation by 0 changes nothing
        cos_sin = torch.tensor([1.0, 0.0]).view(2, 1, 1).expand(2, x.shape[1], layer.head_size)
    weights = block.ln_1.weight, block.ln_1.bias, layer.qkv.weight, layer.proj.weight
    p = layer.dropout if layer.training else 0.0
    return _AddAttention.apply(x, *weights, block.ln_1.eps, cos_sin.contiguous().numpy(), layer.qk_norm, p)


class _AddAttention(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        gain: Tensor,
        shift: Tensor,
        qkv: Tensor,
        proj: Tensor,
        epsilon: float,
        cos_sin: Floats,
        qk_norm: bool,
        p: float,
    ) -> Tensor:
        (B, T, C), hs, dtype = x.shape, cos_sin.shape[-1], _dtype()
        x, qkv, proj = x.reshape(B * T, C), qkv.to(dtype), proj.to(dtype)
        h, stats = _normed(x, gain, shift, epsilon, dtype)
        projected = F.linear(h, qkv).view(B, T, 3, C // hs, hs)
        rotated, factors = h.new_empty(3, B, C // hs, T, hs), np.empty((2, B, C // hs, T), f32)
        _norm_and_rotate(_array(projected), cos_sin, qk_norm, _array(rotated), factors)
        q, k, v = rotated.flatten(1, 2)  # (B nh, T, hs) each
        weights = torch.bmm(q, k.mT)  # (B nh, T, T)
        _softmax(_array(weights))
        ctx.drop_weights, ctx.drop_added = _dropout(p), _dropout(p)
        kept = ctx.drop_weights(weights)
        y = torch.bmm(kept, v).view(B, -1, T, hs).transpose(1, 2).reshape(B * T, C)
        added = ctx.drop_added(F.linear(y, proj))
        ctx.save_for_backward(x, gain, h, qkv, proj, projected, q, k, v, weights, kept, y)
        ctx.stats, ctx.cos_sin, ctx.qk_norm, ctx.factors = stats, cos_sin, qk_norm, factors
        return added.float().add_(x).view(B, T, C)

    @staticmethod
    def backward(ctx: Any, dout: Tensor) -> tuple[Tensor | None, ...]:
        x, gain, h, qkv, proj, projected, q, k, v, weights, kept, y = ctx.saved_tensors
        B, T, _, nh, hs = projected.shape
        shape, dout = dout.shape, dout.reshape(x.shape)
        dadded = ctx.drop_added(dout.to(h.dtype))
        dy = (dadded @ proj).view(B, T, nh, hs).transpose(1, 2).reshape(B * nh, T, hs)
        dweights = ctx.drop_weights(torch.bmm(dy, v.mT))
        _softmax_back(_array(weights), _array(dweights))
        drotated = (torch.bmm(dweights, k), torch.bmm(dweights.mT, q), torch.bmm(kept.mT, dy))
        dprojected = torch.empty_like(projected)
        arrays = (_array(d.view(B, nh, T, hs)) for d in drotated)
        _norm_and_rotate_back(_array(projected), ctx.cos_sin, ctx.qk_norm, ctx.factors, _array(dprojected), *arrays)
        dprojected = dprojected.view(B * T, 3 * nh * hs)
        dx, dgain, dshift = _normed_back(dprojected @ qkv, x, gain, ctx.stats, dout)
        dqkv, dproj = (dprojected.T @ h).float(), (dadded.T @ y).float()
        return dx.view(shape), dgain, dshift, dqkv, dproj, None, None, None, None


def add_mlp(block: Block, x: Tensor) -> Tensor:
    """Return x + mlp(ln_2(x)) with the layers of `block`. `x` and the result are (..., C)."""
    weights = block.ln_2.weight, block.ln_2.bias, block.mlp.fc.weight, block.mlp.proj.weight
    p = block.mlp.dropout.p if block.training else 0.0
    return _AddMLP.apply(x, *weights, block.ln_2.eps, block.mlp.activate, p)


class _AddMLP(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        gain: Tensor,
        shift: Tensor,
        fc: Tensor,
        proj: Tensor,
        epsilon: float,
        activate: Callable[[Tensor], Tensor],
        p: float,
    ) -> Tensor:
        shape, dtype, x = x.shape, _dtype(), x.reshape(-1, x.shape[-1])
        fc, proj = fc.to(dtype), proj.to(dtype)
        h, stats = _normed(x, gain, shift, epsilon, dtype)
        inner = F.linear(h, fc)  # (M, 4 C)
        if activate is relu_squared:
            active = torch.empty_like(inner)
            _relu_squared(_array(inner.view(-1)), _array(active.view(-1)))
        else:
            active = activate(inner)
        ctx.drop = _dropout(p)
        added = ctx.drop(F.linear(active, proj))
        ctx.save_for_backward(x, gain, h, fc, proj, inner)
        ctx.stats, ctx.activate = stats, activate
        return added.float().add_(x).view(shape)

    @staticmethod
    def backward(ctx: Any, dout: Tensor) -> tuple[Tensor | None, ...]:
        x, gain, h, fc, proj, inner = ctx.saved_tensors
        shape, dout = dout.shape, dout.reshape(x.shape)
        dadded = ctx.drop(dout.to(inner.dtype))
        dinner = dadded @ proj
        if ctx.activate is relu_squared:  # recomputing the activation is as fast as saving it
            active = torch.empty_like(inner)
            _relu_squared_back(_array(inner.view(-1)), _array(dinner.view(-1)), _array(active.view(-1)))
        else:
            with torch.enable_grad():
                active = ctx.activate(inner.requires_grad_())
                (dinner,) = torch.autograd.grad(active, inner, dinner)
        dx, dgain, dshift = _normed_back(dinner @ fc, x, gain, ctx.stats, dout)
        dfc, dproj = (dinner.T @ h).float(), (dadded.T @ active.detach()).float()
        return dx.view(shape), dgain, dshift, dfc, dproj, None, None, None


def _dtype() -> torch.dtype:
    return torch.get_autocast_dtype("cpu") if torch.is_autocast_enabled("cpu") else torch.float32


def _dropout(p: float) -> Callable[[Tensor], Tensor]:
    """Draw a dropout mask (Srivastava et al. 2014), and return the function that applies it in both passes."""
    if not p:
        return lambda x: x
    seed = u64(int(torch.empty((), dtype=torch.int64).random_()))

    def drop(x: Tensor) -> Tensor:
        y = torch.empty_like(x := x.contiguous())
        _drop(_array(x.view(-1)), seed, u64(round(p * 2**16)), f32(1 / (1 - p)), _array(y.view(-1)))
        return y

    return drop


def _array(x: Tensor) -> Array:
    x = x.detach() if x.requires_grad else x
    return x.view(torch.uint16).numpy() if x.dtype == torch.bfloat16 else x.numpy()


def _normed(x: Tensor, gain: Tensor, shift: Tensor, epsilon: float, dtype: torch.dtype) -> tuple[Tensor, Floats]:
    """Apply LayerNorm to the (M, C) rows of `x`. Also return the mean and the factor of each row, (M, 2)."""
    h, stats = torch.empty_like(x, dtype=dtype), np.empty((len(x), 2), f32)
    _normalize(_array(x), _array(gain), _array(shift), epsilon, _array(h), stats)
    return h, stats


def _normed_back(dh: Tensor, x: Tensor, gain: Tensor, stats: Floats, dout: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Compute the backward pass of LayerNorm, and add `dout`, the gradient of the residual connection."""
    dx, dgain, dshift = torch.empty_like(x), torch.zeros_like(gain), torch.zeros_like(gain)
    _normalize_back(stats, *map(_array, (dh, x, gain, dout, dx, dgain, dshift)))
    return dx, dgain, dshift


# ---- compiled loops


def compiled_sums(function: Callable[P, R]) -> Callable[P, R]:
    """Compile like `compiled`, with sums of floats in any order, so that vector instructions can compute them.

    A loop that adds to a sum must not also write to an array: the order of the additions, and with it the bytes of a
    model, would depend on whether the arrays overlap in memory.
    """
    return compiled(function, fastmath={"reassoc", "contract", "nsz"}, error_model="numpy")


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
def _normalize(x: Floats, gain: Floats, shift: Floats, epsilon: float, h: Array, stats: Floats) -> None:
    M, C = x.shape
    for i in range(M):
        mean, square = f32(0), f32(0)
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
    stats: Floats, dh: Array, x: Floats, gain: Floats, dout: Floats, dx: Floats, dgain: Floats,
    dshift: Floats,
) -> None:  # fmt: skip
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
        level /= f32(C)
        for j in range(C):
            unit = (x[i, j] - mean) * factor
            dx[i, j] = dout[i, j] + factor * (_to_float32(dh[i, j]) * gain[j] - level - unit * along)


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
def _softmax(scores: Array) -> None:
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


@compiled_sums
def _softmax_back(weights: Array, dweights: Array) -> None:
    """Turn `dweights`, the gradients of the attention weights, into the gradients of the scores, in place."""
    n, T, _ = weights.shape
    g = np.empty(T, f32)
    for a in range(n):
        for t in range(T):
            S, total = min(T, (t // COLUMNS + 1) * COLUMNS), f32(0)
            for j in range(S):
                g[j] = _to_float32(dweights[a, t, j])
            for j in range(S):
                total += _to_float32(weights[a, t, j]) * g[j]
            for j in range(S):  # weights in the columns after t are 0, so these columns need no mask
                dweights[a, t, j] = _to_type_of(weights[a, t, j], _to_float32(weights[a, t, j]) * (g[j] - total))
            for j in range(S, T):
                dweights[a, t, j] = 0


@compiled_sums
def _drop(x: Array, seed: np.uint64, threshold: np.uint64, factor: np.float32, y: Array) -> None:
    """Set each element to 0 with probability threshold / 2^16. SplitMix64 gives four elements their 16 bits each."""
    for i in range(len(x)):
        z = seed + u64(i >> 2) * u64(0x9E3779B97F4A7C15)
        z = (z ^ (z >> u64(30))) * u64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> u64(27))) * u64(0x94D049BB133111EB)
        z = z ^ (z >> u64(31))
        is_kept = ((z >> u64(16 * (i & 3))) & u64(0xFFFF)) >= threshold
        y[i] = _to_type_of(x[i], _to_float32(x[i]) * factor if is_kept else f32(0))


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
