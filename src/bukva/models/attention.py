"""Multi-head attention with a KV cache, built one idea at a time as in the lecture notes.

The functions come in the order of the ideas. Shapes in all modules of this package use these letters:

    B   sequences in the batch          nh  heads
    T   positions of the queries        hs  channels of one head, C / nh
    S   positions of the keys           C   channels of the residual stream, n_embd

Sources: the lecture notes (one head, the mask, the scale, many heads as one tensor, cross-attention); Vaswani et al.
2017, "Attention Is All You Need" (the scaled dot product, equation 1; many heads, section 3.2.2); Su et al. 2021,
"RoFormer" (rotary positions, equation 34); Henry et al. 2020, "Query-Key Normalization for Transformers".
"""

from typing import Protocol

import torch
import torch.nn.functional as F
from torch import Tensor, nn

EPSILON = torch.finfo(torch.float32).eps  # epsilon of the QK norm, the default of torch.nn.RMSNorm in float32

# ---- functions without parameters or state


def attention_scores(q: Tensor, k: Tensor) -> Tensor:
    """Return the dot product of each query, (..., T, hs), with each key, (..., S, hs), divided by sqrt(hs)."""
    return q @ k.mT * q.shape[-1] ** -0.5  # (..., T, S); dividing by sqrt(hs) keeps the variance of a score near 1


def causal_mask(T: int, S: int, device: torch.device | None = None) -> Tensor:
    """Return (T, S), True where a query may attend to a key: at its own position and at earlier positions."""
    # the queries are at the last T of the S positions
    return torch.ones(T, S, dtype=torch.bool, device=device).tril(diagonal=S - T)


def attention_weights(scores: Tensor, mask: Tensor | None = None) -> Tensor:
    """Return the softmax of `scores`, (..., T, S), over the keys. Where the (T, S) `mask` is False, the weight is 0."""
    if mask is not None:
        scores = scores.masked_fill(~mask, float("-inf"))
    return scores.softmax(dim=-1)  # the weights of each query sum to 1


def rotate(x: Tensor, cos_sin: Tensor) -> Tensor:
    """Apply rotary positions (RoPE) to `x`, (..., T, hs). `cos_sin` is a result of `rotary_cos_sin`.

    Each pair of channels is rotated by an angle that is proportional to the position. The score of a rotated query and
    a rotated key then depends only on the distance between their positions.
    """
    cos, sin = cos_sin.to(x.dtype)  # (T, hs) each
    partner = x.roll(x.shape[-1] // 2, dims=-1)  # channel i is paired with channel i + hs / 2
    return torch.addcmul(x * cos, partner, sin)


def rotary_cos_sin(start: int, stop: int, hs: int, device: torch.device | None = None) -> Tensor:
    """Return the cosines and sines, (2, T, hs), with which `rotate` encodes the positions from `start` to `stop - 1`.

    Each position has hs / 2 angles. From one position to the next, the first angle grows by 1 radian and the others
    grow by less.
    """
    frequencies = 10_000.0 ** -(torch.arange(hs // 2, device=device) / (hs // 2))  # (hs / 2,)
    angles = torch.arange(start, stop, device=device)[:, None] * frequencies  # (T, hs / 2)
    cos, sin = angles.cos(), angles.sin()
    # the sines of the first hs / 2 channels have the opposite sign
    return torch.stack([torch.cat([cos, cos], dim=-1), torch.cat([-sin, sin], dim=-1)])


# ---- kernels: two implementations of attention


class Kernel(Protocol):
    """Return for each query, (..., T, hs), the weighted average of the values, (..., S, hs)."""

    def __call__(self, q: Tensor, k: Tensor, v: Tensor, *, causal: bool, dropout: float) -> Tensor: ...


def explain(q: Tensor, k: Tensor, v: Tensor, *, causal: bool, dropout: float = 0.0) -> tuple[Tensor, Tensor]:
    """Return the weighted averages of the values, and the weights before dropout, as in the lecture notes."""
    mask = causal_mask(q.shape[-2], k.shape[-2], q.device) if causal else None
    weights = attention_weights(attention_scores(q, k), mask)  # (..., T, S)
    return F.dropout(weights, dropout) @ v, weights


def attend_explicit(q: Tensor, k: Tensor, v: Tensor, *, causal: bool, dropout: float = 0.0) -> Tensor:
    """Return the weighted averages of the values, computed step by step."""
    return explain(q, k, v, causal=causal, dropout=dropout)[0]


def attend_fused(q: Tensor, k: Tensor, v: Tensor, *, causal: bool, dropout: float = 0.0) -> Tensor:
    """Compute attention with the fused kernel of PyTorch, which does not store the attention weights."""
    T, S = q.shape[-2], k.shape[-2]
    # torch's `is_causal` places the queries at the first positions, but here they are at the last positions
    square = causal and T == S
    mask = causal_mask(T, S, q.device) if causal and 1 < T < S else None  # a single query sees all keys
    with torch.autocast(q.device.type, enabled=False):
        y = F.scaled_dot_product_attention(q.to(v.dtype), k.to(v.dtype), v, mask, dropout_p=dropout, is_causal=square)
    return y.to(q.dtype)


ATTEND: dict[str, Kernel] = {"explicit": attend_explicit, "fused": attend_fused}


# ---- the layer


class LayerCache:
    """KV cache of one layer: the keys and values of at most `size` earlier positions (see evaluation/sampling.py)."""

    def __init__(self, size: int) -> None:
        self.size, self.length = size, 0
        self.last: Tensor | None = None  # (B, 3, C), the input at the last positions, for `ShortConvolution`
        self.buffers: tuple[Tensor, Tensor] | None = None  # (B, nh, size, hs) each

    def append(self, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        """Append the keys and values of T new positions, (B, nh, T, hs). Return those of all S positions."""
        start, stop = self.length, self.length + k.shape[2]
        if stop > self.size:
            raise ValueError(f"The KV cache is too small for {stop} positions. It has room for {self.size} positions.")
        if self.buffers is None:
            shape = (*k.shape[:2], self.size, k.shape[3])
            # bf16 attention is 5x slower on CPU
            dtype = torch.promote_types(k.dtype, torch.float32) if k.device.type == "cpu" else k.dtype
            self.buffers = k.new_empty(shape, dtype=dtype), k.new_empty(shape, dtype=dtype)
        (keys, values), self.length = self.buffers, stop
        keys[:, :, start:stop], values[:, :, start:stop] = k, v
        return keys[:, :, :stop], values[:, :, :stop]


class KVCache:
    """KV cache of a whole model, with one `LayerCache` for each layer."""

    def __init__(self, n_layer: int, size: int) -> None:
        self.layers = [LayerCache(size) for _ in range(n_layer)]
        self.last_ids: Tensor | None = None  # (B, n), the ids at the last positions, for `HashedNgrams`

    @property
    def length(self) -> int:
        """Number of cached positions."""
        return self.layers[0].length

    def clear(self) -> None:
        """Empty the cache of every layer. The buffers stay allocated."""
        for layer in self.layers:
            layer.length = 0


class Attention(nn.Module):
    """Multi-head attention. With `n_head=1`, it is the single head of the lecture notes.

    With `causal`, each position attends to itself and to earlier positions, as in a decoder. Otherwise, it attends to
    all positions, as in an encoder. `dropout` applies to the attention weights and to the output. With `qk_norm`, all
    queries and keys have the same length, which limits the scores. The attribute `attend` is the `Kernel`.
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
        """Attend from each position of `x`, (B, T, C), to those of `memory`, (B, S, C), or of `x` itself.

        The result is (B, T, C). `cos_sin` is a result of `rotary_cos_sin`, or None without rotary positions. The keys
        and values of `x` are appended to `cache`, which has those of the positions before `x`.
        """
        p = self.dropout if self.training else 0.0
        if memory is None:
            heads = self.split_heads(self.qkv(x))  # (B, 3 nh, T, hs), one product for queries, keys and values
            qk, v = heads.split([2 * self.n_head, self.n_head], dim=1)
            # queries and keys are processed in one call; contiguous memory makes `norm_and_rotate` faster
            q, k = self.norm_and_rotate(qk.contiguous(), cos_sin).chunk(2, dim=1)  # (B, nh, T, hs) each
        else:
            q, k, v = map(self.split_heads, self.project(x, memory))  # (B, nh, T, hs), (B, nh, S, hs) twice
            q, k = self.norm_and_rotate(q, cos_sin), self.norm_and_rotate(k, cos_sin)
        if cache is not None:
            k, v = cache.append(k, v)
        y = self.attend(q, k, v, causal=self.causal, dropout=p)  # (B, nh, T, hs)
        return F.dropout(self.proj(self.join_heads(y)), p)

    def project(self, x: Tensor, memory: Tensor) -> tuple[Tensor, ...]:
        """Compute the queries from `x`, (B, T, C), and the keys and values from `memory`, (B, S, C)."""
        C = x.shape[-1]
        q_weight, kv_weight = self.qkv.weight.split([C, 2 * C])
        q_bias, kv_bias = (None, None) if self.qkv.bias is None else self.qkv.bias.split([C, 2 * C])
        return F.linear(x, q_weight, q_bias), *F.linear(memory, kv_weight, kv_bias).chunk(2, dim=-1)

    def norm_and_rotate(self, x: Tensor, cos_sin: Tensor | None) -> Tensor:
        """Normalize queries or keys, (B, nh, T, hs), if `qk_norm` is set, and rotate them with rotary positions."""
        if self.qk_norm:  # gives all vectors the same length, so that only their directions matter
            x = F.rms_norm(x, x.shape[-1:], eps=min(EPSILON, torch.finfo(x.dtype).eps))
        return x if cos_sin is None else rotate(x, cos_sin)

    def split_heads(self, x: Tensor) -> Tensor:
        """Make the heads a batch dimension: (B, T, nh hs) -> (B, nh, T, hs)."""
        return x.unflatten(-1, (-1, self.head_size)).transpose(1, 2)

    @staticmethod
    def join_heads(x: Tensor) -> Tensor:
        """Concatenate the channels of all heads: (B, nh, T, hs) -> (B, T, nh hs)."""
        return x.transpose(1, 2).flatten(2)
