"""Compute the blocks of a GPT for one new position on a CPU, with compiled loops for text generation.

torch's kernels are made for many positions. For a single position, they read a bf16 matrix at a fraction of the memory
bandwidth, and calling many small operations takes most of the time. Here one call of `compute` computes all blocks. All
values between the matrix products are float32.

Letters in shapes: L blocks, C channels, nh heads, hs channels of one head.
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

Matrix = npt.NDArray[Any]  # float32, or bf16 as uint16 (the upper 16 bits of a float32)
Floats = npt.NDArray[np.float32]

GELU, RELU, RELU2 = range(3)
CODES = {ACTIVATIONS["gelu"]: GELU, ACTIVATIONS["relu"]: RELU, ACTIVATIONS["relu2"]: RELU2}


class Layer(NamedTuple):
    """Weight and bias of a linear layer or a norm. A layer without a bias has an empty `bias`.

    In `Weights`, both arrays contain the values of all blocks, and their first axis is the number of the block.
    `_layer_at` selects one block.
    """

    weight: Matrix
    bias: Floats


class Weights(NamedTuple):
    """The weights and settings of all blocks, in the layout that the compiled loops read.

    mlp_proj: second layer of the MLP. For C channels, its transposed matrices are (4 C, C).
    is_centred: whether the norms subtract the mean, as LayerNorm does.
    epsilon: epsilon of the norms.
    qk_epsilon: epsilon of the norm of queries and keys (QK norm), or a negative number without QK norm.
    activation: one of the constants GELU, RELU and RELU2.
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
        """Copy the weights of `blocks` into stacked arrays. The settings are those of the first block."""
        first = blocks[0]
        return cls(
            ln_1=_stacked([block.ln_1 for block in blocks]),
            qkv=_stacked([block.attention.qkv for block in blocks]),
            proj=_stacked([block.attention.proj for block in blocks]),
            ln_2=_stacked([block.ln_2 for block in blocks]),
            fc=_stacked([block.mlp.fc for block in blocks]),
            mlp_proj=_stacked([block.mlp.proj for block in blocks], is_transposed=True),
            is_centred=isinstance(first.ln_1, nn.LayerNorm),
            epsilon=first.ln_1.eps or EPSILON,
            qk_epsilon=EPSILON if first.attention.qk_norm else -1.0,
            activation=CODES[first.mlp.activate],
        )


def _stacked(parts: Sequence[Any], *, is_transposed: bool = False) -> Layer:
    weight = torch.stack([part.weight.detach() for part in parts])
    biases = [part.bias.detach() for part in parts if getattr(part, "bias", None) is not None]
    bias = torch.stack(biases).float() if biases else torch.empty(len(parts), 0)
    if is_transposed:
        weight = weight.mT.contiguous()
    is_bf16_matrix = weight.dim() == 3 and weight.dtype == torch.bfloat16
    return Layer((weight.view(torch.uint16) if is_bf16_matrix else weight.float()).numpy(), bias.numpy())


class DecoderCache(KVCache):
    """KV cache that stacks the keys and values of all layers, and keeps a copy of the model's weights.

    The compiled loops read this copy, which is made when they compute the first position. If training changes the
    weights after that, create a new cache.
    """

    def __init__(self, blocks: Sequence[Block], size: int) -> None:
        super().__init__(len(blocks), size)
        self.blocks = blocks
        self.stacked: tuple[Tensor, Tensor] | None = None  # keys and values, (L, 1, nh, size, hs) each
        self.weights: Weights | None = None

    def extend(self, k: Tensor) -> tuple[Tensor, Tensor]:
        """Reserve one more position in the cache of every layer, without writing to this position.

        Args:
            k: (1, nh, 1, hs), a key for each of nh heads, with hs channels. Only the shape and the type are used.

        Returns:
            Two buffers for L layers, (L, 1, nh, size, hs) each: one with all keys, and one with all values.
        """
        buffers = [layer.extend(k) for layer in self.layers]
        if self.stacked is None:
            self.stacked = torch.stack([keys for keys, _ in buffers]), torch.stack([values for _, values in buffers])
            for layer, keys, values in zip(self.layers, *self.stacked, strict=True):
                layer.buffers = keys, values  # views of the stacked buffers
        return self.stacked


def supports(blocks: Sequence[Block], x: Tensor) -> bool:
    """Return whether `add_blocks` can compute `blocks` for the input `x`, (B, T, C) with batch, time, channels.

    `add_blocks` computes a single position of a single text, without gradients, and only with an activation in CODES.
    The caller must also check the norms and the attention kernel (`CPUStack._is_fused`).
    """
    is_inference = not (torch.is_grad_enabled() or blocks[0].training)
    return is_inference and x.numel() == x.shape[-1] and blocks[0].mlp.activate in CODES


def add_blocks(x: Tensor, cos_sin: Tensor | None, cache: DecoderCache) -> Tensor:
    """Run `cache.blocks` on the residual stream of one position: (1, 1, C) -> (1, 1, C) with C channels.

    The cache receives the keys and values of this position.
    """
    keys, values = cache.extend(x.view(1, cache.blocks[0].attention.n_head, 1, -1))  # (L, 1, nh, size, hs) each
    cache.weights = cache.weights or Weights.of(cache.blocks)
    rotation = np.empty((2, 0), np.float32) if cos_sin is None else cos_sin[:, 0].contiguous().numpy()
    y = x.clone()
    compute(y.view(-1).numpy(), keys[:, 0].numpy(), values[:, 0].numpy(), cache.length - 1, rotation, cache.weights)
    return y


@compiled_sums
def compute(x: Floats, keys: Floats, values: Floats, last: int, cos_sin: Floats, weights: Weights) -> None:
    """Run all L blocks on the residual stream `x` of one position, in place.

    Args:
        x: (C,), the residual stream, with C channels.
        keys: (L, nh, size, hs), keys by block, head, position and channel. The new keys are written at index `last`.
        values: (L, nh, size, hs), values in the same order. The new values are written at index `last`.
        last: index of this position.
        cos_sin: (2, hs), cosines and sines of the rotary angles at this position; (2, 0) without rotary positions.
        weights: weights of all blocks.
    """
    for block in range(len(keys)):
        h = _normalized(x, _layer_at(weights.ln_1, block), weights)
        qkv = _linear(h, _layer_at(weights.qkv, block))
        y = _attend(qkv, keys[block], values[block], last, cos_sin, weights.qk_epsilon)
        _add(x, _linear(y, _layer_at(weights.proj, block)))
        h = _linear(_normalized(x, _layer_at(weights.ln_2, block), weights), _layer_at(weights.fc, block))  # (4 C,)
        _activate(h, weights.activation)
        _add_rows(x, h, _layer_at(weights.mlp_proj, block))


@compiled_sums
def _layer_at(layer: Layer, block: int) -> Layer:
    return Layer(layer.weight[block], layer.bias[block])


@compiled_sums
def _add(x: Floats, y: Floats) -> None:
    """Add `y` to `x` in place. Do nothing if `y` is empty."""
    for i in range(len(y)):
        x[i] += y[i]


@compiled_sums
def _linear(x: Floats, layer: Layer) -> Floats:
    """Multiply the (M, N) matrix of a linear layer by `x`, (N,), and add the bias."""
    weight = layer.weight
    M, N = weight.shape
    quarter = (M + 3) // 4
    # first rows of quarters 2 to 4; if M is not divisible by 4, quarters overlap and a few rows are computed twice
    b, c, d = min(quarter, M - quarter), min(2 * quarter, M - quarter), M - quarter
    y = np.empty(M, np.float32)
    for i in range(quarter):
        ya = yb = yc = yd = np.float32(0)
        for j in range(N):
            ya += _to_float32(weight[i, j]) * x[j]
            yb += _to_float32(weight[b + i, j]) * x[j]
            yc += _to_float32(weight[c + i, j]) * x[j]
            yd += _to_float32(weight[d + i, j]) * x[j]
        y[i], y[b + i], y[c + i], y[d + i] = ya, yb, yc, yd
    _add(y, layer.bias)
    return y


@compiled_sums
def _add_rows(x: Floats, h: Floats, layer: Layer) -> None:
    """Apply a linear layer to `h`, (N,), and add the result to `x`, (M,), in place."""
    for i in range(len(h)):
        if h[i]:
            for j in range(len(x)):
                x[j] += h[i] * _to_float32(layer.weight[i, j])
    _add(x, layer.bias)


def _to_float32(element: Any) -> np.float32:
    """Convert a matrix element to float32. The element is a float32, or a bf16 that is stored as uint16."""
    raise NotImplementedError("_to_float32 exists only in compiled code")


@overload(_to_float32)
def _to_float32_overload(element: Any) -> Any:
    def same(element: Any) -> np.float32:
        return element

    def of_bf16(element: Any) -> np.float32:
        return np.uint32(np.uint32(element) << 16).view(np.float32)

    return same if isinstance(element, types.Float) else of_bf16


@compiled_sums
def _normalized(x: Floats, layer: Layer, weights: Weights) -> Floats:
    """Apply LayerNorm or RMSNorm to `x`, (C,). `layer` has the norm's weight and bias, and `weights` its settings."""
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
    """Apply the activation function GELU, RELU or RELU2 to `h`, (4 C,), in place."""
    for i in range(len(h)):
        if activation == GELU:
            h[i] *= np.float32(0.5 * (1 + erf(h[i] * 0.5**0.5)))
        else:
            h[i] = max(h[i], np.float32(0))
            if activation == RELU2:
                h[i] *= h[i]


@compiled_sums
def _attend(qkv: Floats, keys: Floats, values: Floats, last: int, cos_sin: Floats, epsilon: float) -> Floats:
    """Compute the attention of one block for the query at position `last`."""
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
    """Apply QK norm and rotary positions to `x`, (hs,), a query or a key."""
    hs, square = len(x), np.float32(0)
    for i in range(hs):
        square += x[i] * x[i]
    factor = np.float32(1.0 if epsilon < 0 else (square / hs + epsilon) ** -0.5)
    for i in range(hs):
        y[i] = factor * x[i]
        if cos_sin.size:
            y[i] = factor * (x[i] * cos_sin[0, i] + x[(i + hs // 2) % hs] * cos_sin[1, i])
