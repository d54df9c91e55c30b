"""One new position on a CPU: what generation computes for each character, in loops compiled by numba.

torch's kernels are made for many positions. For a single one they read a matrix in bf16 at a fraction of the speed of
the memory, and between the products most of the time goes into starting small operations. So a block is one call here.
Everything between the matrices is float32. Letters as in bukva.models.attention.
"""

from math import erf, exp
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from numba import types
from numba.extending import overload
from torch import Tensor, nn

from bukva.core.compiled import compiled_sums

if TYPE_CHECKING:
    from bukva.models.attention import LayerCache
    from bukva.models.gpt import Block

Matrix = npt.NDArray[Any]  # float32, or bf16 as the upper halves of its bits, uint16
Floats = npt.NDArray[np.float32]

GELU, RELU, RELU2 = range(3)
ACTIVATIONS = {"gelu": GELU, "relu": RELU, "relu2": RELU2}
EPSILON = torch.finfo(torch.float32).eps  # of norms that name none


class Layer(NamedTuple):
    """A linear layer or a norm. A bias that the model does not have is empty."""

    weight: Matrix
    bias: Floats


class Weights(NamedTuple):
    """A block as the loops read it.

    is_centred: its norms subtract the mean, as LayerNorm does.
    epsilon: of its norms.
    qk_epsilon: of the norm of queries and keys; negative if they are not normalised.
    activation: one of ACTIVATIONS.
    """

    ln_1: Layer
    qkv: Layer
    proj: Layer
    ln_2: Layer
    fc: Layer
    mlp_proj: Layer
    is_centred: bool
    epsilon: float
    qk_epsilon: float
    activation: int

    @classmethod
    def of(cls, block: "Block") -> "Weights":
        """Matrices share the memory of the parameters."""
        return cls(
            ln_1=_layer(block.ln_1),
            qkv=_layer(block.attention.qkv),
            proj=_layer(block.attention.proj),
            ln_2=_layer(block.ln_2),
            fc=_layer(block.mlp.fc),
            mlp_proj=_layer(block.mlp.proj),
            is_centred=isinstance(block.ln_1, nn.LayerNorm),
            epsilon=block.ln_1.eps or EPSILON,
            qk_epsilon=EPSILON if block.attention.qk_norm else -1.0,
            activation=ACTIVATIONS[block.activation],
        )


def _layer(part: Any) -> Layer:
    return Layer(_array(part.weight), _array(getattr(part, "bias", None)))


def _array(parameter: Tensor | None) -> npt.NDArray[Any]:
    """A matrix as the loops read it; a gain or a bias in float32, empty for none."""
    if parameter is None:
        return np.empty(0, np.float32)
    if parameter.dim() == 2 and parameter.dtype == torch.bfloat16:
        return parameter.detach().view(torch.uint16).numpy()
    return parameter.detach().float().numpy()


def computes(block: "Block", x: Tensor) -> bool:
    """Whether (B, T, C) is one position in float32 on a CPU, without gradient, and the block one for the loops."""
    plain = not (torch.is_grad_enabled() or block.training) and block.activation in ACTIVATIONS
    return plain and x.numel() == x.shape[-1] and x.device.type == "cpu" and x.dtype == torch.float32


def add_block(block: "Block", x: Tensor, cos_sin: Tensor | None, cache: "LayerCache") -> Tensor:
    """What a block makes of one position: (1, 1, C), (2, 1, hs) -> (1, 1, C); its key and value go into the cache."""
    keys, values = cache.extend(x.view(1, block.attention.n_head, 1, -1))  # (1, nh, size, hs) each
    cache.weights = cache.weights or Weights.of(block)
    rotation = np.empty((2, 0), np.float32) if cos_sin is None else cos_sin[:, 0].contiguous().numpy()
    y = x.clone()
    compute(y.view(-1).numpy(), keys[0].numpy(), values[0].numpy(), cache.length - 1, rotation, cache.weights)
    return y


@compiled_sums
def compute(x: Floats, keys: Floats, values: Floats, last: int, cos_sin: Floats, weights: Weights) -> None:
    """Add what attention and MLP of a block say of position `last` to its (C,) channels of the residual stream.

    Args:
        x: (C,), is changed.
        keys: (nh, size, hs) of the positions before; that of this position is added.
        values: the same.
        last: the position.
        cos_sin: (2, hs), or (2, 0) if queries and keys are not rotated.
        weights: of the block.
    """
    h = _normalised(x, weights.ln_1, weights)
    y = _attend(_linear(h, weights.qkv), keys, values, last, cos_sin, weights.qk_epsilon)
    _add(x, _linear(y, weights.proj))
    h = _linear(_normalised(x, weights.ln_2, weights), weights.fc)  # (4 C,)
    _activate(h, weights.activation)
    _add(x, _linear(h, weights.mlp_proj))


@compiled_sums
def _add(x: Floats, y: Floats) -> None:
    """Add (N,) to (N,) in place; nothing if y is empty."""
    for i in range(len(y)):
        x[i] += y[i]


@compiled_sums
def _linear(x: Floats, layer: Layer) -> Floats:
    """(N,), a layer of (M, N) -> (M,). Rows of four places at a time: a processor reads ahead in each of them."""
    weight = layer.weight
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
    _add(y, layer.bias)
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
def _normalised(x: Floats, layer: Layer, weights: Weights) -> Floats:
    """(C,) -> (C,), LayerNorm or RMSNorm."""
    C = len(x)
    mean = square = np.float32(0)
    if weights.is_centred:
        for i in range(C):
            mean += x[i]
        mean /= np.float32(C)
    y = np.empty(C, np.float32)
    for i in range(C):
        y[i] = x[i] - mean
        square += y[i] * y[i]
    factor = np.float32((square / C + weights.epsilon) ** -0.5)
    for i in range(C):
        y[i] *= factor * layer.weight[i]
    _add(y, layer.bias)
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
