"""A decoder for one new position on a CPU, in loops compiled by numba: generation calls it for each character.

torch's kernels are made for many positions. For a single position they read a bf16 matrix at a fraction of the memory's
speed, and most of the time goes into launching small operations. Here all blocks are one call. Everything between the
matrices is float32. Letters as in bukva.models.attention, and L blocks.
"""

from collections.abc import Sequence
from math import erf, exp
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from numba import types
from numba.extending import overload
from torch import Tensor, nn

from bukva.core.compiled import compiled_sums
from bukva.models.attention import EPSILON, KVCache
from bukva.models.gpt import ACTIVATIONS, Block

Matrix = npt.NDArray[Any]  # float32, or bf16 as the upper halves of its bits, uint16
Floats = npt.NDArray[np.float32]

GELU, RELU, RELU2 = range(3)
CODES = {ACTIVATIONS["gelu"]: GELU, ACTIVATIONS["relu"]: RELU, ACTIVATIONS["relu2"]: RELU2}


class Layer(NamedTuple):
    """A linear layer or a norm, of all blocks at once, (L, ...), or of one. A bias that the model lacks is empty."""

    weight: Matrix
    bias: Floats


class Weights(NamedTuple):
    """All blocks as the loops read them.

    mlp_proj: its matrix is transposed, (4 C, C).
    is_centred: the norms subtract the mean, as LayerNorm does.
    epsilon: of the norms.
    qk_epsilon: of the norm of queries and keys; negative if they are not normalised.
    activation: GELU, RELU or RELU2.
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
    def of(cls, blocks: Sequence[Block]) -> "Weights":
        """Copy the weights of the blocks."""
        first = blocks[0]
        return cls(
            ln_1=_layer([block.ln_1 for block in blocks]),
            qkv=_layer([block.attention.qkv for block in blocks]),
            proj=_layer([block.attention.proj for block in blocks]),
            ln_2=_layer([block.ln_2 for block in blocks]),
            fc=_layer([block.mlp.fc for block in blocks]),
            mlp_proj=_layer([block.mlp.proj for block in blocks], is_transposed=True),
            is_centred=isinstance(first.ln_1, nn.LayerNorm),
            epsilon=first.ln_1.eps or EPSILON,
            qk_epsilon=EPSILON if first.attention.qk_norm else -1.0,
            activation=CODES[first.mlp.activate],
        )


def _layer(parts: Sequence[Any], *, is_transposed: bool = False) -> Layer:
    weight = torch.stack([part.weight.detach() for part in parts])
    biases = [part.bias.detach() for part in parts if getattr(part, "bias", None) is not None]
    bias = torch.stack(biases).float() if biases else torch.empty(len(parts), 0)
    if is_transposed:
        weight = weight.mT.contiguous()
    is_bf16_matrix = weight.dim() == 3 and weight.dtype == torch.bfloat16
    return Layer((weight.view(torch.uint16) if is_bf16_matrix else weight.float()).numpy(), bias.numpy())


class DecoderCache(KVCache):
    """The keys and values of all layers in one buffer, and the weights of the blocks as the loops read them."""

    def __init__(self, blocks: Sequence[Block], size: int) -> None:
        super().__init__(len(blocks), size)
        self.blocks = blocks
        self.stacked: tuple[Tensor, Tensor] | None = None  # (L, 1, nh, size, hs) each, once the loops run
        self.weights: Weights | None = None

    def extend(self, k: Tensor) -> tuple[Tensor, Tensor]:
        """Reserve a position for (1, nh, 1, hs) keys in all layers; return their buffers, (L, 1, nh, size, hs) each."""
        buffers = [layer.extend(k) for layer in self.layers]
        if self.stacked is None:
            self.stacked = torch.stack([keys for keys, _ in buffers]), torch.stack([values for _, values in buffers])
            for layer, keys, values in zip(self.layers, *self.stacked, strict=True):
                layer.buffers = keys, values  # views of the stack
        return self.stacked


def supports(blocks: Sequence[Block], x: Tensor) -> bool:
    """Whether the loops compute (B, T, C): one position without gradient, of blocks whose activation they have."""
    is_inference = not (torch.is_grad_enabled() or blocks[0].training)
    return is_inference and x.numel() == x.shape[-1] and blocks[0].mlp.activate in CODES


def add_blocks(x: Tensor, cos_sin: Tensor | None, cache: DecoderCache) -> Tensor:
    """Compute the blocks of the cache for one position, (1, 1, C) -> (1, 1, C), and cache its keys and values."""
    keys, values = cache.extend(x.view(1, cache.blocks[0].attention.n_head, 1, -1))  # (L, 1, nh, size, hs) each
    cache.weights = cache.weights or Weights.of(cache.blocks)
    rotation = np.empty((2, 0), np.float32) if cos_sin is None else cos_sin[:, 0].contiguous().numpy()
    y = x.clone()
    compute(y.view(-1).numpy(), keys[:, 0].numpy(), values[:, 0].numpy(), cache.length - 1, rotation, cache.weights)
    return y


@compiled_sums
def compute(x: Floats, keys: Floats, values: Floats, last: int, cos_sin: Floats, weights: Weights) -> None:
    """Add what the blocks say of position `last` to its (C,) channels of the residual stream.

    Args:
        x: (C,), is changed.
        keys: (L, nh, size, hs) of the positions before; those of this position are added.
        values: the same.
        last: the position.
        cos_sin: (2, hs), or (2, 0) if queries and keys are not rotated.
        weights: of the blocks.
    """
    for block in range(len(keys)):
        h = _normalised(x, _of(weights.ln_1, block), weights)
        qkv = _linear(h, _of(weights.qkv, block))
        y = _attend(qkv, keys[block], values[block], last, cos_sin, weights.qk_epsilon)
        _add(x, _linear(y, _of(weights.proj, block)))
        h = _linear(_normalised(x, _of(weights.ln_2, block), weights), _of(weights.fc, block))  # (4 C,)
        _activate(h, weights.activation)
        _add_rows(x, h, _of(weights.mlp_proj, block))


@compiled_sums
def _of(layer: Layer, block: int) -> Layer:
    return Layer(layer.weight[block], layer.bias[block])


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


@compiled_sums
def _add_rows(x: Floats, h: Floats, layer: Layer) -> None:
    """Add to (M,) the sum of the rows of (N, M), each times its of (N,). A row times 0, as relu leaves, is not read."""
    for i in range(len(h)):
        if h[i]:
            for j in range(len(x)):
                x[j] += h[i] * _number(layer.weight[i, j])
    _add(x, layer.bias)


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
    for i in range(C):
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
        _norm_and_rotate(qkv[h * hs : (h + 1) * hs], cos_sin, epsilon, q)
        _norm_and_rotate(qkv[C + h * hs : C + (h + 1) * hs], cos_sin, epsilon, keys[h, last])
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
        for s in range(last + 1):
            total += weights[s]
        for s in range(last + 1):
            weight = weights[s] / total
            for i in range(hs):
                y[h * hs + i] += weight * values[h, s, i]
    return y


@compiled_sums
def _norm_and_rotate(x: Floats, cos_sin: Floats, epsilon: float, y: Floats) -> None:
    """Apply QK norm and rotation to (hs,), a query or a key, and write the result to y, (hs,)."""
    hs, square = len(x), np.float32(0)
    for i in range(hs):
        square += x[i] * x[i]
    factor = np.float32(1.0 if epsilon < 0 else (square / hs + epsilon) ** -0.5)
    for i in range(hs):
        y[i] = factor * x[i]
        if cos_sin.size:
            y[i] = factor * (x[i] * cos_sin[0, i] + x[(i + hs // 2) % hs] * cos_sin[1, i])
