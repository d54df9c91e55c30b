"""One new position on a CPU: what generation computes for each character, in loops compiled by numba.

torch's kernels are made for many positions. For a single one they read a matrix in bf16 at a fraction of the speed of
the memory, and between the products most of the time goes into starting small operations. So a block is one call here.
Everything between the matrices is float32. Letters as in bukva.models.attention.
"""

from math import erf, exp
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from numba import types
from numba.extending import overload
from torch import Tensor, nn

from bukva.core.compiled import compiled_sums

Matrix = npt.NDArray[Any]  # float32, or bf16 as the upper halves of its bits, uint16
Floats = npt.NDArray[np.float32]

GELU, RELU, RELU2 = range(3)
ACTIVATIONS = {"gelu": GELU, "relu": RELU, "relu2": RELU2}
EPSILON = torch.finfo(torch.float32).eps  # of norms that name none


class Weights(NamedTuple):
    """Of one block. A bias that the model does not have is empty."""

    ln_1: Floats
    ln_1_bias: Floats
    qkv: Matrix
    qkv_bias: Floats
    proj: Matrix
    proj_bias: Floats
    ln_2: Floats
    ln_2_bias: Floats
    fc: Matrix
    fc_bias: Floats
    mlp_proj: Matrix
    mlp_proj_bias: Floats


class Settings(NamedTuple):
    """Of one block.

    is_centred: its norms subtract the mean, as LayerNorm does.
    epsilon: of its norms.
    qk_epsilon: of the norm of queries and keys; negative if they are not normalised.
    activation: one of ACTIVATIONS.
    """

    is_centred: bool
    epsilon: float
    qk_epsilon: float
    activation: int


def settings_of(norm: nn.LayerNorm | nn.RMSNorm, activation: str, *, qk_norm: bool) -> Settings | None:
    """Of a block with such norms; None for an activation that the loops do not have, which torch then computes."""
    if activation not in ACTIVATIONS:
        return None
    return Settings(
        is_centred=isinstance(norm, nn.LayerNorm),
        epsilon=norm.eps or EPSILON,
        qk_epsilon=EPSILON if qk_norm else -1.0,
        activation=ACTIVATIONS[activation],
    )


def weights_of(*parts: Any) -> Weights:
    """Of ln_1, qkv, proj, ln_2, fc and mlp_proj of a block; matrices share the memory of its parameters."""
    return Weights(*(_array(parameter) for part in parts for parameter in (part.weight, getattr(part, "bias", None))))


def _array(parameter: Tensor | None) -> npt.NDArray[Any]:
    """A matrix as the loops read it; a gain or a bias in float32, empty for none."""
    if parameter is None:
        return np.empty(0, np.float32)
    if parameter.dim() == 2 and parameter.dtype == torch.bfloat16:
        return parameter.detach().view(torch.uint16).numpy()
    return parameter.detach().float().numpy()


def add_block(
    x: Tensor, keys: Tensor, values: Tensor, last: int, cos_sin: Tensor | None, weights: Weights, settings: Settings
) -> Tensor:
    """`block` for tensors: (1, 1, C), (1, nh, size, hs) twice, (2, 1, hs) -> (1, 1, C)."""
    rotation = np.empty((2, 0), np.float32) if cos_sin is None else cos_sin[:, 0].contiguous().numpy()
    y = x.clone()
    block(y.view(-1).numpy(), keys[0].numpy(), values[0].numpy(), last, rotation, weights, settings)
    return y


@compiled_sums
def block(
    x: Floats, keys: Floats, values: Floats, last: int, cos_sin: Floats, weights: Weights, settings: Settings
) -> None:
    """Add what attention and MLP of a block say of position `last` to its (C,) channels of the residual stream.

    Args:
        x: (C,), is changed.
        keys: (nh, size, hs) of the positions before; that of this position is added.
        values: the same.
        last: the position.
        cos_sin: (2, hs), or (2, 0) if queries and keys are not rotated.
        weights: of the block.
        settings: of the block.
    """
    h = _normalised(x, weights.ln_1, weights.ln_1_bias, settings)
    y = _attend(_linear(h, weights.qkv, weights.qkv_bias), keys, values, last, cos_sin, settings.qk_epsilon)
    _add(x, _linear(y, weights.proj, weights.proj_bias))
    h = _linear(_normalised(x, weights.ln_2, weights.ln_2_bias, settings), weights.fc, weights.fc_bias)  # (4 C,)
    _activate(h, settings.activation)
    _add(x, _linear(h, weights.mlp_proj, weights.mlp_proj_bias))


@compiled_sums
def _add(x: Floats, y: Floats) -> None:
    """Add (N,) to (N,) in place; nothing if y is empty."""
    for i in range(len(y)):
        x[i] += y[i]


@compiled_sums
def _linear(x: Floats, weight: Matrix, bias: Floats) -> Floats:
    """(N,), (M, N), (M,) or empty -> (M,).

    Rows of four places at a time: a processor reads ahead in each of them.
    """
    M, N = weight.shape
    quarter = (M + 3) // 4
    b, c, d = min(quarter, M - quarter), min(2 * quarter, M - quarter), M - quarter  # a few rows are computed twice
    y = np.empty(M, np.float32)
    for i in range(quarter):
        ya = yb = yc = yd = np.float32(0)
        for j in range(N):
            ya += _number(weight[i, j]) * x[j]
            yb += _number(weight[b + i, j]) * x[j]
            yc += _number(weight[c + i, j]) * x[j]
            yd += _number(weight[d + i, j]) * x[j]
        y[i], y[b + i], y[c + i], y[d + i] = ya, yb, yc, yd
    _add(y, bias)
    return y


def _number(element: Any) -> np.float32:
    """An element of a matrix."""
    raise NotImplementedError("compiled code calls what is below")


@overload(_number)
def _number_of(element: Any) -> Any:
    def same(element: Any) -> np.float32:
        return element

    def of_bf16(element: Any) -> np.float32:
        return np.uint32(np.uint32(element) << 16).view(np.float32)

    return same if isinstance(element, types.Float) else of_bf16


@compiled_sums
def _normalised(x: Floats, gain: Floats, bias: Floats, settings: Settings) -> Floats:
    """(C,) -> (C,), LayerNorm or RMSNorm."""
    C = len(x)
    mean = square = np.float32(0)
    if settings.is_centred:
        for i in range(C):
            mean += x[i]
        mean /= np.float32(C)
    y = np.empty(C, np.float32)
    for i in range(C):
        y[i] = x[i] - mean
        square += y[i] * y[i]
    factor = np.float32((square / C + settings.epsilon) ** -0.5)
    for i in range(C):
        y[i] *= factor * gain[i]
    _add(y, bias)
    return y


@compiled_sums
def _activate(h: Floats, activation: int) -> None:
    """Change (4 C,) in place."""
    for i in range(len(h)):
        if activation == GELU:
            h[i] *= np.float32(0.5 * (1 + erf(h[i] * 0.5**0.5)))
        else:
            h[i] = max(h[i], np.float32(0))
            if activation == RELU2:
                h[i] *= h[i]


@compiled_sums
def _attend(qkv: Floats, keys: Floats, values: Floats, last: int, cos_sin: Floats, epsilon: float) -> Floats:
    """(3 C,) of position `last`, (nh, size, hs) twice -> (C,); its key and value are added to the others."""
    nh, _, hs = keys.shape
    C = nh * hs
    y, weights, q = np.zeros(C, np.float32), np.empty(last + 1, np.float32), np.empty(hs, np.float32)
    for h in range(nh):
        _place(qkv[h * hs : (h + 1) * hs], cos_sin, epsilon, q)
        _place(qkv[C + h * hs : C + (h + 1) * hs], cos_sin, epsilon, keys[h, last])
        for i in range(hs):
            values[h, last, i] = qkv[2 * C + h * hs + i]
        greatest = np.float32(-np.inf)
        for s in range(last + 1):
            score = np.float32(0)
            for i in range(hs):
                score += q[i] * keys[h, s, i]
            weights[s] = score * np.float32(hs**-0.5)
            greatest = max(greatest, weights[s])
        total = np.float32(0)
        for s in range(last + 1):
            weights[s] = exp(weights[s] - greatest)
            total += weights[s]
        for s in range(last + 1):
            weight = weights[s] / total
            for i in range(hs):
                y[h * hs + i] += weight * values[h, s, i]
    return y


@compiled_sums
def _place(x: Floats, cos_sin: Floats, epsilon: float, y: Floats) -> None:
    """Turn (hs,), a query or a key, into (hs,) as the scores see it: normalised, then rotated."""
    hs, square = len(x), np.float32(0)
    for i in range(hs):
        square += x[i] * x[i]
    factor = np.float32(1.0 if epsilon < 0 else (square / hs + epsilon) ** -0.5)
    for i in range(hs):
        y[i] = factor * x[i]
        if cos_sin.size:
            y[i] = factor * (x[i] * cos_sin[0, i] + x[(i + hs // 2) % hs] * cos_sin[1, i])
