"""This module builds attention one idea at a time: scores, scale, mask, weighted average, heads, memory, cache.

These letters have the same meaning in the shapes of all modules:

    B   sequences in the batch          nh  heads
    T   positions of the queries        hs  channels of one head, C / nh
    S   positions of the keys           C   channels of the residual stream, n_embd

Sources: the lecture notes (one head, the mask, the scale, many heads as one tensor, attention to a memory); Vaswani et
al. 2017, "Attention Is All You Need" (the scaled dot product, equation 1; many heads, section 3.2.2); Su et al. 2021,
"RoFormer" (rotary positions, equation 34); Henry et al. 2020, "Query-Key Normalization for Transformers".
"""

from typing import Protocol

import torch
import torch.nn.functional as F
from torch import Tensor, nn

EPSILON = torch.finfo(torch.float32).eps  # epsilon of the QK norm, the default of torch.nn.RMSNorm in float32

# ---- the arithmetic: no parameters, no state


def attention_scores(q: Tensor, k: Tensor) -> Tensor:
    """Return the scaled dot product of each query with each key: (..., T, hs), (..., S, hs) -> (..., T, S)."""
    return q @ k.mT * q.shape[-1] ** -0.5  # scaling by hs, not C, keeps the variance of a score near 1


def causal_mask(T: int, S: int, device: torch.device | None = None) -> Tensor:
    """Return the (T, S) mask that is True where query t may attend to key s.

    The queries are at the last T of the S positions.
    """
    return torch.ones(T, S, dtype=torch.bool, device=device).tril(diagonal=S - T)


def attention_weights(scores: Tensor, mask: Tensor | None = None) -> Tensor:
    """Return the weight of each value for each query: (..., T, S) scores -> (..., T, S) weights. Each row sums to 1.

    Weights are 0 where `mask` is False.
    """
    if mask is not None:
        scores = scores.masked_fill(~mask, float("-inf"))
    return scores.softmax(dim=-1)


def rotate(x: Tensor, cos_sin: Tensor) -> Tensor:
    """Rotate each pair of channels of (..., T, hs) `x` by an angle that is proportional to the position.

    `cos_sin` is a result of `rotary_cos_sin`. The score of a rotated query and a rotated key depends on the distance
    between their positions, but not on the positions themselves.
    """
    cos, sin = cos_sin.to(x.dtype)  # (T, hs) each
    partner = x.roll(x.shape[-1] // 2, dims=-1)  # channel i is paired with channel i + hs / 2
    return torch.addcmul(x * cos, partner, sin)


def rotary_cos_sin(start: int, stop: int, hs: int, device: torch.device | None = None) -> Tensor:
    """Return the (2, T, hs) cosines and signed sines of the angles at positions start to stop - 1, for `rotate`.

    Each position has hs / 2 angles. The fastest angle makes a full rotation in 2 pi positions, the others in more.
    """
    frequencies = 10_000.0 ** -(torch.arange(hs // 2, device=device) / (hs // 2))  # (hs / 2,)
    angles = torch.arange(start, stop, device=device)[:, None] * frequencies  # (T, hs / 2)
    cos, sin = angles.cos(), angles.sin()
    return torch.stack([torch.cat([cos, cos], dim=-1), torch.cat([-sin, sin], dim=-1)])


# ---- the kernels: two implementations of one function


class Kernel(Protocol):
    """Signature of a kernel: (..., T, hs) queries, (..., S, hs) keys and (..., S, hs) values -> (..., T, hs)."""

    def __call__(self, q: Tensor, k: Tensor, v: Tensor, *, causal: bool, dropout: float) -> Tensor: ...


def explain(q: Tensor, k: Tensor, v: Tensor, *, causal: bool, dropout: float = 0.0) -> tuple[Tensor, Tensor]:
    """Compute attention step by step, as in the lecture notes.

    Returns:
        The (..., T, hs) weighted averages of the values, and the (..., T, S) weights before dropout.
    """
    mask = causal_mask(q.shape[-2], k.shape[-2], q.device) if causal else None
    weights = attention_weights(attention_scores(q, k), mask)  # (..., T, S)
    return F.dropout(weights, dropout) @ v, weights


def attend_explicit(q: Tensor, k: Tensor, v: Tensor, *, causal: bool, dropout: float = 0.0) -> Tensor:
    """Return the (..., T, hs) weighted averages of the values, computed by `explain`."""
    return explain(q, k, v, causal=causal, dropout=dropout)[0]


def attend_fused(q: Tensor, k: Tensor, v: Tensor, *, causal: bool, dropout: float = 0.0) -> Tensor:
    """Return the same result as `attend_explicit`, but without storing the (T, S) weights."""
    T, S = q.shape[-2], k.shape[-2]
    # `is_causal` would align the mask to the first key, but the queries are at the last positions
    square = causal and T == S
    mask = causal_mask(T, S, q.device) if causal and 1 < T < S else None  # a single query sees all keys
    with torch.autocast(q.device.type, enabled=False):
        y = F.scaled_dot_product_attention(q.to(v.dtype), k.to(v.dtype), v, mask, dropout_p=dropout, is_causal=square)
    return y.to(q.dtype)


ATTEND: dict[str, Kernel] = {"explicit": attend_explicit, "fused": attend_fused}


# ---- the layer


class LayerCache:
    """KV cache of one layer. While a text grows, the layer has to compute only the new positions.

    The cache contains at most `size` positions. When it is full, the oldest position cannot simply be dropped, because
    keys depend on the number of their position. bukva.generation.sampling then clears the cache and computes the latest
    characters again.
    """

    def __init__(self, size: int) -> None:
        self.size, self.length = size, 0
        self.buffers: tuple[Tensor, Tensor] | None = None  # (B, nh, size, hs) each, allocated by the first `extend`

    def append(self, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        """Append keys `k` and values `v`, (B, nh, T, hs) each. Return all keys and all values, (B, nh, S, hs) each.

        Raises:
            ValueError: the cache is too small for the new positions.
        """
        start, (keys, values) = self.length, self.extend(k)
        stop = self.length
        keys[:, :, start:stop], values[:, :, start:stop] = k, v
        return keys[:, :, :stop], values[:, :, :stop]

    def extend(self, k: Tensor) -> tuple[Tensor, Tensor]:
        """Reserve T positions, without writing the (B, nh, T, hs) keys `k`. Return the buffers of keys and values.

        Both buffers are (B, nh, size, hs). They are allocated by the first call.

        Raises:
            ValueError: the cache is too small for the new positions.
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
    """KV cache of all layers, for generating one text character by character."""

    def __init__(self, n_layer: int, size: int) -> None:
        self.layers = [LayerCache(size) for _ in range(n_layer)]

    @property
    def length(self) -> int:
        """Number of cached positions."""
        return self.layers[0].length

    def clear(self) -> None:
        """Empty the cache of every layer, to start a new text. The buffers stay allocated."""
        for layer in self.layers:
            layer.length = 0


class Attention(nn.Module):
    """Multi-head attention. With `n_head=1`, it is the single head of the lecture notes.

    With `causal=True`, as in a decoder, each position attends to itself and to earlier positions. With `causal=False`,
    as in an encoder, each position attends to all positions. With an argument `memory`, `forward` computes
    cross-attention. `qk_norm=True` normalizes queries and keys, which bounds the scores. `kernel` is a key of ATTEND.
    The attribute `attend` may later be set to any other `Kernel`.
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
        self.qkv = nn.Linear(n_embd, 3 * n_embd, bias=bias)  # rows: first the queries, then keys, then values
        self.proj = nn.Linear(n_embd, n_embd, bias=bias)

    def forward(
        self,
        x: Tensor,
        memory: Tensor | None = None,
        *,
        cos_sin: Tensor | None = None,
        cache: LayerCache | None = None,
    ) -> Tensor:
        """Attend from each position of `x` to the positions of `memory`, or to the positions of `x` by default.

        Args:
            x: (B, T, C), the input of the queries.
            memory: (B, S, C), the input of keys and values. By default, `x` is also the input of keys and values.
            cos_sin: (2, T, hs), a result of `rotary_cos_sin`. None if the model does not use rotary positions.
            cache: keys and values of the positions before `x`. The keys and values of `x` are appended.

        Returns:
            (B, T, C).
        """
        p = self.dropout if self.training else 0.0
        if memory is None:
            heads = self.split_heads(self.qkv(x))  # (B, 3 nh, T, hs), one product for queries, keys and values
            qk, v = heads.split([2 * self.n_head, self.n_head], dim=1)
            # one call for queries and keys; contiguous memory makes each pass of `norm_and_rotate` faster
            q, k = self.norm_and_rotate(qk.contiguous(), cos_sin).chunk(2, dim=1)  # (B, nh, T, hs) each
        else:
            q, k, v = map(self.split_heads, self.project(x, memory))  # (B, nh, T, hs), (B, nh, S, hs) twice
            q, k = self.norm_and_rotate(q, cos_sin), self.norm_and_rotate(k, cos_sin)
        if cache is not None:
            k, v = cache.append(k, v)
        y = self.attend(q, k, v, causal=self.causal, dropout=p)  # (B, nh, T, hs)
        return F.dropout(self.proj(self.join_heads(y)), p)

    def project(self, x: Tensor, memory: Tensor) -> tuple[Tensor, ...]:
        """Return (B, T, C) queries from `x`, and (B, S, C) keys and (B, S, C) values from `memory`.

        `x` is multiplied by the first C rows of the weight of `qkv`, and `memory` by the other rows.
        """
        C = x.shape[-1]
        q_weight, kv_weight = self.qkv.weight.split([C, 2 * C])
        q_bias, kv_bias = (None, None) if self.qkv.bias is None else self.qkv.bias.split([C, 2 * C])
        return F.linear(x, q_weight, q_bias), *F.linear(memory, kv_weight, kv_bias).chunk(2, dim=-1)

    def norm_and_rotate(self, x: Tensor, cos_sin: Tensor | None) -> Tensor:
        """Normalize (B, nh, T, hs) queries or keys if `qk_norm` is set, and rotate them if `cos_sin` is not None."""
        if self.qk_norm:  # makes all vectors equally long, so only their directions matter
            x = F.rms_norm(x, x.shape[-1:], eps=min(EPSILON, torch.finfo(x.dtype).eps))
        return x if cos_sin is None else rotate(x, cos_sin)

    def split_heads(self, x: Tensor) -> Tensor:
        """Reshape (B, T, C) to (B, nh, T, hs). The independent heads become a batch dimension."""
        return x.unflatten(-1, (-1, self.head_size)).transpose(1, 2)

    @staticmethod
    def join_heads(x: Tensor) -> Tensor:
        """Concatenate the outputs of the heads: (B, nh, T, hs) -> (B, T, C)."""
        return x.transpose(1, 2).flatten(2)
