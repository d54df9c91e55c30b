"""Attention, one idea at a time: scores, scale, mask, weighted average, heads, memory, cache.

Letters in the shape comments, here and nowhere redefined:

    B   sequences in the batch          nh  heads
    T   positions of the queries        hs  channels of one head, C / nh
    S   positions of the keys           C   channels of the residual stream, n_embd

Sources: the lecture notes (one head, the mask, the scale, many heads as one tensor, memory); Vaswani et al. 2017,
"Attention Is All You Need" (the scaled dot product, equation 1; many heads, section 3.2.2); Su et al. 2021, "RoFormer"
(rotary positions, equation 34); Henry et al. 2020, "Query-Key Normalization for Transformers".
"""

from typing import Protocol

import torch
import torch.nn.functional as F
from torch import Tensor, nn

EPSILON = torch.finfo(torch.float32).eps  # of the QK norm, as of torch's norms

# ---- the arithmetic: no parameters, no state


def attention_scores(q: Tensor, k: Tensor) -> Tensor:
    """How well each query matches each key: (..., T, hs), (..., S, hs) -> (..., T, S)."""
    return q @ k.mT * q.shape[-1] ** -0.5  # hs, not C: keeps the variance of a score near 1


def causal_mask(T: int, S: int, device: torch.device | None = None) -> Tensor:
    """(T, S), True where query t sees key s; the T queries are the last T of the S positions."""
    return torch.ones(T, S, dtype=torch.bool, device=device).tril(diagonal=S - T)


def attention_weights(scores: Tensor, mask: Tensor | None = None) -> Tensor:
    """How much of each value each query takes: (..., T, S) scores -> (..., T, S), rows sum to 1."""
    if mask is not None:
        scores = scores.masked_fill(~mask, float("-inf"))
    return scores.softmax(dim=-1)


def rotate(x: Tensor, cos_sin: Tensor) -> Tensor:
    """Rotate each pair of channels of (..., T, hs) by the angle of its position: distances become angles."""
    cos, sin = cos_sin.to(x.dtype)  # (T, hs) each
    other = x.roll(x.shape[-1] // 2, dims=-1)  # channel i is paired with channel i + hs / 2
    return torch.addcmul(x * cos, other, sin)


def rotary_cos_sin(start: int, stop: int, hs: int, device: torch.device | None = None) -> Tensor:
    """(2, T, hs) cosines and signed sines of the angles of the positions start ... stop - 1, for `rotate`.

    A position has hs / 2 angles; the fastest one makes a full rotation in 2 pi characters.
    """
    frequencies = 10_000.0 ** -(torch.arange(hs // 2, device=device) / (hs // 2))  # (hs / 2,)
    angles = torch.arange(start, stop, device=device)[:, None] * frequencies  # (T, hs / 2)
    cos, sin = angles.cos(), angles.sin()
    return torch.stack([torch.cat([cos, cos], dim=-1), torch.cat([-sin, sin], dim=-1)])


# ---- the kernels: two implementations of one function


class Kernel(Protocol):
    """The signature of all kernels: (..., T, hs), two of (..., S, hs) -> (..., T, hs)."""

    def __call__(self, q: Tensor, k: Tensor, v: Tensor, *, causal: bool, dropout: float) -> Tensor: ...


def explain(q: Tensor, k: Tensor, v: Tensor, *, causal: bool, dropout: float = 0.0) -> tuple[Tensor, Tensor]:
    """The attention of the lecture notes, step by step: the averages (..., T, hs), their weights (..., T, S)."""
    mask = causal_mask(q.shape[-2], k.shape[-2], q.device) if causal else None
    weights = attention_weights(attention_scores(q, k), mask)  # (..., T, S)
    return F.dropout(weights, dropout) @ v, weights


def attend_explicit(q: Tensor, k: Tensor, v: Tensor, *, causal: bool, dropout: float = 0.0) -> Tensor:
    """A weighted average of the values; `explain` returns the weights too."""
    return explain(q, k, v, causal=causal, dropout=dropout)[0]


def attend_fused(q: Tensor, k: Tensor, v: Tensor, *, causal: bool, dropout: float = 0.0) -> Tensor:
    """The same function without storing the (T, S) weights; equal to attend_explicit by test."""
    T, S = q.shape[-2], k.shape[-2]
    # is_causal aligns its triangle to the first key, and these queries are the last ones; a single one sees all keys
    square = causal and T == S
    mask = causal_mask(T, S, q.device) if causal and 1 < T < S else None
    with torch.autocast(q.device.type, enabled=False):
        y = F.scaled_dot_product_attention(q.to(v.dtype), k.to(v.dtype), v, mask, dropout_p=dropout, is_causal=square)
    return y.to(q.dtype)


ATTEND: dict[str, Kernel] = {"explicit": attend_explicit, "fused": attend_fused}


# ---- the layer


class LayerCache:
    """The keys and values of one layer for the positions so far, so that a new character costs one position.

    Holds at most `size` positions of (B, nh, hs). The oldest cannot be shifted out, because a key depends on its
    position (bukva.generation.sampling recomputes a full cache).
    """

    def __init__(self, size: int) -> None:
        self.size, self.length = size, 0
        self.buffers: tuple[Tensor, Tensor] | None = None  # (B, nh, size, hs) each, made for the first keys

    def append(self, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        """Add (B, nh, T, hs) new keys and values; return the keys and values of all positions, (B, nh, S, hs).

        Raises:
            ValueError: they do not fit.
        """
        start, (keys, values) = self.length, self.extend(k)
        stop = self.length
        keys[:, :, start:stop], values[:, :, start:stop] = k, v
        return keys[:, :, :stop], values[:, :, :stop]

    def extend(self, k: Tensor) -> tuple[Tensor, Tensor]:
        """Reserve positions for (B, nh, T, hs) new keys; return the buffers of keys and values, (B, nh, size, hs).

        Raises:
            ValueError: they do not fit.
        """
        stop = self.length + k.shape[2]
        if stop > self.size:
            raise ValueError(f"{stop} positions do not fit a cache of {self.size}")
        if self.buffers is None:
            shape = (*k.shape[:2], self.size, k.shape[3])
            # bf16 attention is 5x slower on CPU
            dtype = torch.promote_types(k.dtype, torch.float32) if k.device.type == "cpu" else k.dtype
            self.buffers = k.new_empty(shape, dtype=dtype), k.new_empty(shape, dtype=dtype)
        self.length = stop
        return self.buffers


class KVCache:
    """The keys and values of all layers while one text grows."""

    def __init__(self, n_layer: int, size: int) -> None:
        self.layers = [LayerCache(size) for _ in range(n_layer)]

    @property
    def length(self) -> int:
        """Number of cached positions."""
        return self.layers[0].length

    def clear(self) -> None:
        """Forget all positions."""
        for layer in self.layers:
            layer.length = 0


class Attention(nn.Module):
    """Multi-head attention: n_head = 1 is the single head of the lecture notes.

    causal=True is the mask of a decoder, causal=False is an encoder; a memory makes it cross-attention. qk_norm bounds
    the scores. `attend` is the kernel, and may be replaced by any other Kernel.
    """

    def __init__(
        self,
        n_embd: int,
        n_head: int,
        *,
        causal: bool,
        dropout: float = 0.0,
        qk_norm: bool = False,
        bias: bool = False,
        kernel: str = "fused",
    ) -> None:
        super().__init__()
        self.n_head, self.causal, self.dropout, self.qk_norm = n_head, causal, dropout, qk_norm
        self.head_size = n_embd // n_head
        self.attend = ATTEND[kernel]
        self.qkv = nn.Linear(n_embd, 3 * n_embd, bias=bias)  # rows: all queries, all keys, all values
        self.proj = nn.Linear(n_embd, n_embd, bias=bias)

    def forward(
        self,
        x: Tensor,
        memory: Tensor | None = None,
        *,
        cos_sin: Tensor | None = None,
        cache: LayerCache | None = None,
    ) -> Tensor:
        """Attention of the positions of x to those of memory, or of x itself.

        Args:
            x: (B, T, C), gives the queries.
            memory: (B, S, C), gives keys and values; x does when it is None.
            cos_sin: (2, T, hs) of `rotary_cos_sin`, for rotary positions; queries and keys are rotated by it.
            cache: keys and values of the positions before x; those of x are added.

        Returns:
            (B, T, C).
        """
        p = self.dropout if self.training else 0.0
        if memory is None:  # self-attention: one product for all three, and one call for queries and keys
            heads = self.split_heads(self.qkv(x))  # (B, 3 nh, T, hs)
            qk, v = heads.split([2 * self.n_head, self.n_head], dim=1)
            # contiguous: each pass of `norm_and_rotate` is faster
            q, k = self.norm_and_rotate(qk.contiguous(), cos_sin).chunk(2, dim=1)  # (B, nh, T, hs) each
        else:
            q, k, v = map(self.split_heads, self.project(x, memory))  # (B, nh, T, hs), (B, nh, S, hs) twice
            q, k = self.norm_and_rotate(q, cos_sin), self.norm_and_rotate(k, cos_sin)
        if cache is not None:
            k, v = cache.append(k, v)
        y = self.attend(q, k, v, causal=self.causal, dropout=p)  # (B, nh, T, hs)
        return F.dropout(self.proj(self.join_heads(y)), p)

    def project(self, x: Tensor, memory: Tensor) -> tuple[Tensor, ...]:
        """(B, T, C) queries, (B, S, C) keys and values of cross-attention: the rows of `qkv` in two products."""
        C = x.shape[-1]
        q_weight, kv_weight = self.qkv.weight.split([C, 2 * C])
        q_bias, kv_bias = (None, None) if self.qkv.bias is None else self.qkv.bias.split([C, 2 * C])
        return F.linear(x, q_weight, q_bias), *F.linear(memory, kv_weight, kv_bias).chunk(2, dim=-1)

    def norm_and_rotate(self, x: Tensor, cos_sin: Tensor | None) -> Tensor:
        """Apply QK norm and the rotary angles, where the model has them, to (B, nh, T, hs) queries or keys."""
        if self.qk_norm:  # all have the same length, so that only directions matter
            x = F.rms_norm(x, x.shape[-1:], eps=min(EPSILON, torch.finfo(x.dtype).eps))
        return x if cos_sin is None else rotate(x, cos_sin)

    def split_heads(self, x: Tensor) -> Tensor:
        """(B, T, C) -> (B, nh, T, hs): heads are one more batch axis, so they are independent of each other."""
        return x.unflatten(-1, (-1, self.head_size)).transpose(1, 2)

    @staticmethod
    def join_heads(x: Tensor) -> Tensor:
        """(B, nh, T, hs) -> (B, T, C): the outputs of the heads side by side."""
        return x.transpose(1, 2).flatten(2)
