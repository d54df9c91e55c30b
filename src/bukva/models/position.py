"""One new position on a CPU: what generation computes for each character, in loops compiled by numba.

torch's kernels are made for many positions. For a single one they read a matrix in bf16 at a fraction of the speed of
the memory, and between the products most of the time goes into starting small operations. Letters as in
bukva.models.attention.
"""

from typing import Any

import numpy as np
import numpy.typing as npt

from bukva.base.compiled import compiled_sums

Bits = npt.NDArray[np.uint16]  # bf16: the upper halves of numbers in float32
Floats = npt.NDArray[Any]  # float32 or float64
NOT_ROTATED = np.empty((2, 0), np.float32)


@compiled_sums
def product(weight: Bits, x: Bits) -> Bits:
    """(M, N), (N,) -> (M,), summed in float32.

    Rows of four places at a time: a processor reads ahead in each of them.
    """
    M, N = weight.shape
    quarter = (M + 3) // 4
    b, c, d = min(quarter, M - quarter), min(2 * quarter, M - quarter), M - quarter  # a few rows are computed twice
    x32, y = np.empty(N, np.float32), np.empty(M, np.uint16)
    for j in range(N):
        x32[j] = _float32(x[j])
    for i in range(quarter):
        ya = yb = yc = yd = np.float32(0)
        for j in range(N):
            ya += _float32(weight[i, j]) * x32[j]
            yb += _float32(weight[b + i, j]) * x32[j]
            yc += _float32(weight[c + i, j]) * x32[j]
            yd += _float32(weight[d + i, j]) * x32[j]
        y[i], y[b + i], y[c + i], y[d + i] = _bf16(ya), _bf16(yb), _bf16(yc), _bf16(yd)
    return y


@compiled_sums
def _float32(bits: np.uint16) -> np.float32:
    return np.uint32(np.uint32(bits) << 16).view(np.float32)


@compiled_sums
def _bf16(x: np.float32) -> np.uint16:
    """The nearest number in bf16, of two the even one; infinities stay, and nan is one of many."""
    bits = np.float32(x).view(np.uint32)
    if x != x:
        return np.uint16(0x7FC0)
    return np.uint16((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16)


@compiled_sums
def attend(qkv: Floats, keys: Floats, values: Floats, last: int, cos_sin: Floats, epsilon: float) -> Floats:
    """(3 nh, hs) of the position `last`, (nh, size, hs) twice -> (nh, hs); its key and value are added to the others.

    cos_sin: (2, hs), or (2, 0) if queries and keys are not rotated. epsilon: of their norm, or negative if they are not
    normalised. Optional arguments would be compiled for each combination.
    """
    nh, _, hs = keys.shape
    y, weights = np.zeros((nh, hs), keys.dtype), np.empty(last + 1, keys.dtype)
    for h in range(nh):
        q = _placed(qkv[h], cos_sin, epsilon) * hs**-0.5
        keys[h, last] = _placed(qkv[nh + h], cos_sin, epsilon)
        values[h, last] = qkv[2 * nh + h]
        for s in range(last + 1):
            score = keys.dtype.type(0)
            for i in range(hs):
                score += q[i] * keys[h, s, i]
            weights[s] = score
        weights[:] = np.exp(weights - weights.max())
        weights /= weights.sum()
        for s in range(last + 1):
            for i in range(hs):
                y[h, i] += weights[s] * values[h, s, i]
    return y


@compiled_sums
def _placed(x: Floats, cos_sin: Floats, epsilon: float) -> Floats:
    """(hs,), a query or a key -> the same as the scores see it: normalised, then rotated."""
    hs = len(x)
    factor = 1.0 if epsilon < 0 else ((x * x).sum() / hs + epsilon) ** -0.5
    y = x.copy()
    for i in range(hs):
        y[i] = factor * x[i]
        if cos_sin.size:
            y[i] = factor * (x[i] * cos_sin[0, i] + x[(i + hs // 2) % hs] * cos_sin[1, i])
    return y
