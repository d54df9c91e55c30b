"""Attention, one idea at a time: scores, scale, mask, weighted average, heads, memory, cache.

Letters in shapes, with the same meaning in the other modules:

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

EPSILON = torch.finfo(torch.float32).eps  # of the QK norm; the default of torch.nn.RMSNorm in float32

# ---- the arithmetic: no parameters, no state


def attention_scores(q: Tensor, k: Tensor) -> Tensor:
    """Return the scaled dot product of each query with each key: (..., T, hs), (..., S, hs) -> (..., T, S)."""
    return q @ k.mT * q.shape[-1] ** -0.5  # scaling by hs, not C, keeps the variance of a score near 1


def causal_mask(T: int, S: int, device: torch.device | None = None) -> Tensor:
    """Return the (T, S) mask, True where query t may attend to key s. The queries are the last T of S positions."""
    return torch.ones(T, S, dtype=torch.bool, device=device).tril(diagonal=S - T)


def attention_weights(scores: Tensor, mask: Tensor | None = None) -> Tensor:
    """Return the weight of each value for each query: (..., T, S) scores -> (..., T, S), rows sum to 1."""
    if mask is not None:
        scores = scores.masked_fill(~mask, float("-inf"))
    return scores.softmax(dim=-1)


def rotate(x: Tensor, cos_sin: Tensor) -> Tensor:
    """Rotate each pair of channels of (..., T, hs) by the angle of its position.

    After the rotation, the score of a query and a key depends on their positions only through the distance.
    """
    cos, sin = cos_sin.to(x.dtype)  # (T, hs) each
    partner = x.roll(x.shape[-1] // 2, dims=-1)  # channel i is paired with channel i + hs / 2
    return torch.addcmul(x * cos, partner, sin)


def rotary_cos_sin(start: int, stop: int, hs: int, device: torch.device | None = None) -> Tensor:
    """Return the (2, T, hs) cosines and signed sines of the positions start to stop - 1, for `rotate`.

    Each position has hs / 2 angles. The fastest one makes a full rotation in 2 pi characters.
    """
    frequencies = 10_000.0 ** -(torch.arange(hs // 2, device=device) / (hs // 2))  # (hs / 2,)
    angles = torch.arange(start, stop, device=device)[:, None] * frequencies  # (T, hs / 2)
    cos, sin = angles.cos(), angles.sin()
    return torch.stack([torch.cat([cos, cos], dim=-1), torch.cat([-sin, sin], dim=-1)])


# ---- the kernels: two implementations of one function


class Kernel(Protocol):
    """Signature of all kernels: (..., T, hs) queries, (..., S, hs) keys and values -> (..., T, hs)."""

    def __call__(self, q: Tensor, k: Tensor, v: Tensor, *, causal: bool, dropout: float) -> Tensor: ...


def explain(q: Tensor, k: Tensor, v: Tensor, *, causal: bool, dropout: float = 0.0) -> tuple[Tensor, Tensor]:
    """Compute attention step by step, as in the lecture notes.

    Returns:
        The weighted averages of the values, (..., T, hs), and the weights, (..., T, S).
    """
    mask = causal_mask(q.shape[-2], k.shape[-2], q.device) if causal else None
    weights = attention_weights(attention_scores(q, k), mask)  # (..., T, S)
    return F.dropout(weights, dropout) @ v, weights


def attend_explicit(q: Tensor, k: Tensor, v: Tensor, *, causal: bool, dropout: float = 0.0) -> Tensor:
    """Return the weighted averages of the values. `explain` also returns the weights."""
    return explain(q, k, v, causal=causal, dropout=dropout)[0]


def attend_fused(q: Tensor, k: Tensor, v: Tensor, *, causal: bool, dropout: float = 0.0) -> Tensor:
    """Return the result of `attend_explicit`, without storing the (T, S) weights. Tests compare both."""
    T, S = q.shape[-2], k.shape[-2]
    # is_causal aligns the mask to the first key, but the queries are the last positions; a single query sees all keys
    square = causal and T == S
    mask = causal_mask(T, S, q.device) if causal and 1 < T < S else None
    with torch.autocast(q.device.type, enabled=False):
        y = F.scaled_dot_product_attention(q.to(v.dtype), k.to(v.dtype), v, mask, dropout_p=dropout, is_causal=square)
    return y.to(q.dtype)


ATTEND: dict[str, Kernel] = {"explicit": attend_explicit, "fused": attend_fused}


# ---- the layer


class LayerCache:
    """KV cache of one layer. With the cache, only the new positions of a growing text have to be computed.

    It holds at most `size` positions of (B, nh, hs). A full cache cannot drop its oldest position, because a key
    depends on its position. bukva.generation.sampling recomputes a full cache from the latest characters.
    """

    def __init__(self, size: int) -> None:
        self.size, self.length = size, 0
        self.buffers: tuple[Tensor, Tensor] | None = None  # (B, nh, size, hs) each, allocated by the first `extend`

    def append(self, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        """Add (B, nh, T, hs) new keys and values; return the keys and values of all positions, (B, nh, S, hs).

        Raises:
            ValueError: the cache is too small for the new positions.
        """
        start, (keys, values) = self.length, self.extend(k)
        stop = self.length
        keys[:, :, start:stop], values[:, :, start:stop] = k, v
        return keys[:, :, :stop], values[:, :, :stop]

    def extend(self, k: Tensor) -> tuple[Tensor, Tensor]:
        """Reserve positions for (B, nh, T, hs) new keys; return the buffers of keys and values, (B, nh, size, hs).

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
        """Remove all positions."""
        for layer in self.layers:
            layer.length = 0


class Attention(nn.Module):
    """Multi-head attention; `n_head=1` gives the single head of the lecture notes.

    With `causal=True`, as in a decoder, each position attends to itself and to earlier positions. With `causal=False`,
    as in an encoder, it attends to all. Passing a memory to `forward` makes it cross-attention. `qk_norm` bounds the
    scores. The attribute `attend` is the kernel; it may be replaced by any other Kernel.
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
        """Attend from each position of `x` to the positions of `memory`, or to those of `x` if it is None.

        Args:
            x: (B, T, C), the input of the queries.
            memory: (B, S, C), the input of keys and values; `x` if None.
            cos_sin: (2, T, hs) of `rotary_cos_sin`, to rotate queries and keys; None without rotary positions.
            cache: keys and values of the positions before `x`. The keys and values of `x` are appended.

        Returns:
            (B, T, C).
        """
        p = self.dropout if self.training else 0.0
        if memory is None:  # self-attention needs one product for all three, and one call for queries and keys
            heads = self.split_heads(self.qkv(x))  # (B, 3 nh, T, hs)
            qk, v = heads.split([2 * self.n_head, self.n_head], dim=1)
            # contiguous memory makes each pass of `norm_and_rotate` faster
            q, k = self.norm_and_rotate(qk.contiguous(), cos_sin).chunk(2, dim=1)  # (B, nh, T, hs) each
        else:
            q, k, v = map(self.split_heads, self.project(x, memory))  # (B, nh, T, hs), (B, nh, S, hs) twice
            q, k = self.norm_and_rotate(q, cos_sin), self.norm_and_rotate(k, cos_sin)
        if cache is not None:
            k, v = cache.append(k, v)
        y = self.attend(q, k, v, causal=self.causal, dropout=p)  # (B, nh, T, hs)
        return F.dropout(self.proj(self.join_heads(y)), p)

    def project(self, x: Tensor, memory: Tensor) -> tuple[Tensor, ...]:
        """Return the (B, T, C) queries of `x` and the (B, S, C) keys and values of `memory`, for cross-attention.

        The rows of `qkv` are split between two products.
        """
        C = x.shape[-1]
        q_weight, kv_weight = self.qkv.weight.split([C, 2 * C])
        q_bias, kv_bias = (None, None) if self.qkv.bias is None else self.qkv.bias.split([C, 2 * C])
        return F.linear(x, q_weight, q_bias), *F.linear(memory, kv_weight, kv_bias).chunk(2, dim=-1)

    def norm_and_rotate(self, x: Tensor, cos_sin: Tensor | None) -> Tensor:
        """Apply QK norm and the rotary angles, where the model has them, to (B, nh, T, hs) queries or keys."""
        if self.qk_norm:  # vectors of equal length: only their directions matter
            x = F.rms_norm(x, x.shape[-1:], eps=min(EPSILON, torch.finfo(x.dtype).eps))
        return x if cos_sin is None else rotate(x, cos_sin)

    def split_heads(self, x: Tensor) -> Tensor:
        """Reshape (B, T, C) to (B, nh, T, hs). Heads become a batch axis: they are independent of each other."""
        return x.unflatten(-1, (-1, self.head_size)).transpose(1, 2)

    @staticmethod
    def join_heads(x: Tensor) -> Tensor:
        """Concatenate the outputs of the heads: (B, nh, T, hs) -> (B, T, C)."""
        return x.transpose(1, 2).flatten(2)
