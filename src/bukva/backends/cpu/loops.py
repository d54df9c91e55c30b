"""Compiled loops for the parts of an update that are not matrix products, each in one pass over memory.

Arrays are float32, or bf16 that is stored as uint16, because numba has no bf16. A bf16 number is the upper 16 bits of
the same number in float32.

Letters in shapes are those of bukva.backends.cpu.sublayers.

Source: Steele et al. 2014, "Fast splittable pseudorandom number generators" (SplitMix64, for dropout).
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from numba import types
from numba.extending import overload
from torch import Tensor

from bukva.core.compiled import P, R, compiled
from bukva.models.attention import EPSILON

Array = npt.NDArray[Any]  # float32, or bf16 that is stored as uint16
Floats = npt.NDArray[np.float32]

f32, i32, u16, u32, u64 = np.float32, np.int32, np.uint16, np.uint32, np.uint64
LOWEST, HIGHEST = i32(-(2**31)), i32(2**31 - 1)
COLUMNS = 32  # attention weights are computed in blocks of this many columns, which suits vector instructions


def array(x: Tensor) -> Array:
    """Return the elements of a tensor, without a copy."""
    x = x.detach() if x.requires_grad else x
    return x.view(torch.uint16).numpy() if x.dtype == torch.bfloat16 else x.numpy()


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
def normalize(x: Floats, gain: Floats, shift: Floats, epsilon: float, h: Array, stats: Floats) -> None:
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
def normalize_back(
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
def norm_and_rotate(projected: Array, cos_sin: Floats, qk_norm: bool, rotated: Array, factors: Floats) -> None:
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
def norm_and_rotate_back(
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
def softmax(scores: Array) -> None:
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
def softmax_back(weights: Array, dweights: Array) -> None:
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
def drop(x: Array, seed: np.uint64, threshold: np.uint64, factor: np.float32, y: Array) -> None:
    """Set each element to 0 with probability threshold / 2^16. SplitMix64 gives four elements their 16 bits each."""
    for i in range(len(x)):
        z = seed + u64(i >> 2) * u64(0x9E3779B97F4A7C15)
        z = (z ^ (z >> u64(30))) * u64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> u64(27))) * u64(0x94D049BB133111EB)
        z = z ^ (z >> u64(31))
        is_kept = ((z >> u64(16 * (i & 3))) & u64(0xFFFF)) >= threshold
        y[i] = _to_type_of(x[i], _to_float32(x[i]) * factor if is_kept else f32(0))


@compiled_sums
def relu_squared(x: Array, y: Array) -> None:
    for i in range(len(x)):
        positive = max(_to_float32(x[i]), f32(0))
        y[i] = _to_type_of(x[i], positive * positive)


@compiled_sums
def relu_squared_back(x: Array, dy: Array, y: Array) -> None:
    for i in range(len(x)):
        positive = max(_to_float32(x[i]), f32(0))
        y[i] = _to_type_of(x[i], positive * positive)
        dy[i] = _to_type_of(x[i], _to_float32(dy[i]) * (positive + positive))


@compiled_sums
def _directions(gradients: Floats, momenta: Floats, n_rows: int, momentum: float, directions: Array) -> None:
    """Update the momenta of matrices with `n_rows` rows each, and compute the matrices to orthogonalize."""
    C, factors = gradients.shape[1], np.empty(n_rows, f32)
    for start in range(0, len(gradients), n_rows):
        total = f32(0)
        for i in range(n_rows):
            for j in range(C):
                momenta[start + i, j] += f32(1 - momentum) * (gradients[start + i, j] - momenta[start + i, j])
            square = f32(0)
            for j in range(C):
                ahead = gradients[start + i, j] + f32(momentum) * (momenta[start + i, j] - gradients[start + i, j])
                square += ahead * ahead
            factors[i] = f32(1) / (np.sqrt(square) + f32(1e-7))
            total += square * factors[i] * factors[i]
        whole = f32(1) / (np.sqrt(total) + f32(1e-7))
        for i in range(n_rows):
            factor = factors[i] * whole
            for j in range(C):
                ahead = gradients[start + i, j] + f32(momentum) * (momenta[start + i, j] - gradients[start + i, j])
                directions[start + i, j] = _to_type_of(directions[start + i, j], ahead * factor)


@compiled_sums
def _move(weights: Floats, updates: Array, kept: float, size: float) -> None:
    """Multiply the weights by `kept`, the weight decay, and subtract `size` times the updates."""
    rows, columns = weights.shape
    for i in range(rows):
        for j in range(columns):
            weights[i, j] = weights[i, j] * f32(kept) - f32(size) * _to_float32(updates[i, j])


# ---- the two methods of Muon that the backend replaces, each one pass over memory


def muon_directions(
    gradients: list[Tensor], momenta: list[Tensor], shape: tuple[int, int], momentum: float, dtype: torch.dtype
) -> Tensor:
    n_rows = [len(gradient) for gradient in gradients]
    matrices = torch.empty(sum(n_rows), shape[1], dtype=dtype)
    for gradient, mean, part in zip(gradients, momenta, matrices.split(n_rows), strict=True):
        _directions(array(gradient), array(mean), shape[0], momentum, array(part))
    return matrices.view(-1, *shape)


def muon_move(parameters: list[Tensor], updates: Tensor, kept: float, size: float) -> None:
    for parameter, part in zip(parameters, updates.split([len(each) for each in parameters]), strict=True):
        _move(array(parameter), array(part), kept, size)
