"""Compute attention and MLP faster on a CPU: torch multiplies the matrices, and compiled loops compute the rest.

In a small model, a CPU multiplies matrices faster than it reads and writes the tensors between the products. In plain
torch, each operation needs a call and a pass over memory, and often a conversion between number formats. Here each
sublayer, attention or MLP, is one autograd function with a hand-written backward pass.

The residual stream is float32. The other tensors have the type of the matrix products, float32 or bf16.

Letters in shapes: B windows, T positions, M = B T rows, C channels, nh heads, hs channels of one head.

Source: Dao et al. 2022, "FlashAttention" (the cost of a pass over memory).
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from bukva.backends.cpu import loops
from bukva.backends.cpu.loops import Floats, array
from bukva.models.attention import LayerCache, attend_fused
from bukva.models.gpt import Block, relu_squared


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
        rotated, factors = h.new_empty(3, B, C // hs, T, hs), np.empty((2, B, C // hs, T), np.float32)
        loops.norm_and_rotate(array(projected), cos_sin, qk_norm, array(rotated), factors)
        q, k, v = rotated.flatten(1, 2)  # (B nh, T, hs) each
        weights = torch.bmm(q, k.mT)  # (B nh, T, T)
        loops.softmax(array(weights))
        ctx.drop_weights, ctx.drop_added = _dropout(p), _dropout(p)
        kept = ctx.drop_weights(weights)
        y = torch.bmm(kept, v).view(B, -1, T, hs).transpose(1, 2).reshape(B * T, C)
        added = ctx.drop_added(F.linear(y, proj))
        ctx.save_for_backward(x, gain, h, qkv, proj, projected, q, k, v, weights, kept, y)
        ctx.stats, ctx.cos_sin, ctx.qk_norm, ctx.factors = stats, cos_sin, qk_norm, factors
        return (x + added).view(B, T, C)

    @staticmethod
    def backward(ctx: Any, dout: Tensor) -> tuple[Tensor | None, ...]:
        x, gain, h, qkv, proj, projected, q, k, v, weights, kept, y = ctx.saved_tensors
        B, T, _, nh, hs = projected.shape
        shape, dout = dout.shape, dout.reshape(x.shape)
        dadded = ctx.drop_added(dout.to(h.dtype))
        dy = (dadded @ proj).view(B, T, nh, hs).transpose(1, 2).reshape(B * nh, T, hs)
        dweights = ctx.drop_weights(torch.bmm(dy, v.mT))
        loops.softmax_back(array(weights), array(dweights))
        drotated = (torch.bmm(dweights, k), torch.bmm(dweights.mT, q), torch.bmm(kept.mT, dy))
        dprojected = torch.empty_like(projected)
        arrays = (array(d.view(B, nh, T, hs)) for d in drotated)
        loops.norm_and_rotate_back(array(projected), ctx.cos_sin, ctx.qk_norm, ctx.factors, array(dprojected), *arrays)
        dprojected = dprojected.view(B * T, 3 * nh * hs)
        dx, dgain, dshift = _normed_back(dprojected @ qkv, x, gain, ctx.stats, dout)
        return dx.view(shape), dgain, dshift, dprojected.T @ h, dadded.T @ y, None, None, None, None


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
            loops.relu_squared(array(inner.view(-1)), array(active.view(-1)))
        else:
            active = activate(inner)
        ctx.drop = _dropout(p)
        added = ctx.drop(F.linear(active, proj))
        ctx.save_for_backward(x, gain, h, fc, proj, inner)
        ctx.stats, ctx.activate = stats, activate
        return (x + added).view(shape)

    @staticmethod
    def backward(ctx: Any, dout: Tensor) -> tuple[Tensor | None, ...]:
        x, gain, h, fc, proj, inner = ctx.saved_tensors
        shape, dout = dout.shape, dout.reshape(x.shape)
        dadded = ctx.drop(dout.to(inner.dtype))
        dinner = dadded @ proj
        if ctx.activate is relu_squared:  # recomputing the activation is as fast as saving it
            active = torch.empty_like(inner)
            loops.relu_squared_back(array(inner.view(-1)), array(dinner.view(-1)), array(active.view(-1)))
        else:
            with torch.enable_grad():
                active = ctx.activate(inner.requires_grad_())
                (dinner,) = torch.autograd.grad(active, inner, dinner)
        dx, dgain, dshift = _normed_back(dinner @ fc, x, gain, ctx.stats, dout)
        return dx.view(shape), dgain, dshift, dinner.T @ h, dadded.T @ active.detach(), None, None, None


def _dtype() -> torch.dtype:
    return torch.get_autocast_dtype("cpu") if torch.is_autocast_enabled("cpu") else torch.float32


def _dropout(p: float) -> Callable[[Tensor], Tensor]:
    """Draw a dropout mask (Srivastava et al. 2014), and return the function that applies it in both passes."""
    if not p:
        return lambda x: x
    seed = np.uint64(int(torch.empty((), dtype=torch.int64).random_()))

    def drop(x: Tensor) -> Tensor:
        y = torch.empty_like(x := x.contiguous())
        loops.drop(array(x.view(-1)), seed, np.uint64(round(p * 2**16)), np.float32(1 / (1 - p)), array(y.view(-1)))
        return y

    return drop


def _normed(x: Tensor, gain: Tensor, shift: Tensor, epsilon: float, dtype: torch.dtype) -> tuple[Tensor, Floats]:
    """Apply LayerNorm to the (M, C) rows of `x`. Also return the mean and the factor of each row, (M, 2)."""
    h, stats = torch.empty_like(x, dtype=dtype), np.empty((len(x), 2), np.float32)
    loops.normalize(array(x), array(gain), array(shift), epsilon, array(h), stats)
    return h, stats


def _normed_back(dh: Tensor, x: Tensor, gain: Tensor, stats: Floats, dout: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Compute the backward pass of LayerNorm, and add `dout`, the gradient of the residual connection."""
    dx, dgain, dshift = torch.empty_like(x), torch.zeros_like(gain), torch.zeros_like(gain)
    loops.normalize_back(stats, *map(array, (dh, x, gain, dout, dx, dgain, dshift)))
    return dx, dgain, dshift
