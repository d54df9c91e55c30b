"""Multi-head attention with a KV cache, built one idea at a time as in the lecture notes.

The functions come in the order of the ideas: scores, mask, weights, rotary positions, weighted averages of values. Then
come the KV cache and the layer. Shapes in all modules of this package use these letters:

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
    """Return the dot product of each query with each key, divided by the square root of the number of channels.

    The queries `q` are (..., T, hs), and the keys `k` are (..., S, hs), with hs channels. The scores are (..., T, S).
    """
    return q @ k.mT * q.shape[-1] ** -0.5  # dividing by sqrt(hs) keeps the variance of a score near 1


def causal_mask(T: int, S: int, device: torch.device | None = None) -> Tensor:
    """Return the mask of causal attention, a (T, S) boolean tensor for T queries and S keys.

    It is True where a query may attend to a key: at the query's own position and at earlier positions. The queries are
    at the last T of the S positions.
    """
    return torch.ones(T, S, dtype=torch.bool, device=device).tril(diagonal=S - T)


def attention_weights(scores: Tensor, mask: Tensor | None = None) -> Tensor:
    """Return the attention weights, which are the softmax of `scores` over the keys.

    `scores` and the weights are (..., T, S) for T queries and S keys. The weights of each query sum to 1. Where the (T,
    S) `mask` is False, the weight is 0.
    """
    if mask is not None:
        scores = scores.masked_fill(~mask, float("-inf"))
    return scores.softmax(dim=-1)


def rotate(x: Tensor, cos_sin: Tensor) -> Tensor:
    """Apply rotary positions (RoPE) to `x`, which is (..., T, hs) for T positions and hs channels.

    Each pair of channels is rotated by an angle that is proportional to the position. `cos_sin` contains the angles and
    comes from `rotary_cos_sin`. The score of a rotated query and a rotated key then depends only on the distance
    between their positions.
    """
    cos, sin = cos_sin.to(x.dtype)  # (T, hs) each
    partner = x.roll(x.shape[-1] // 2, dims=-1)  # channel i is paired with channel i + hs / 2
    return torch.addcmul(x * cos, partner, sin)


def rotary_cos_sin(start: int, stop: int, hs: int, device: torch.device | None = None) -> Tensor:
    """Return the cosines and sines with which `rotate` encodes the positions from `start` to `stop - 1`.

    The result is (2, T, hs) for T positions and hs channels. The sines of the first hs / 2 channels have the opposite
    sign. Each position has hs / 2 angles. From one position to the next, the first angle grows by 1 radian and the
    others grow by less.
    """
    frequencies = 10_000.0 ** -(torch.arange(hs // 2, device=device) / (hs // 2))  # (hs / 2,)
    angles = torch.arange(start, stop, device=device)[:, None] * frequencies  # (T, hs / 2)
    cos, sin = angles.cos(), angles.sin()
    return torch.stack([torch.cat([cos, cos], dim=-1), torch.cat([-sin, sin], dim=-1)])


# ---- kernels: two implementations of attention


class Kernel(Protocol):
    """A function that computes attention.

    The T queries `q` are (..., T, hs). The S keys `k` and S values `v` are (..., S, hs). The number of channels is hs.
    The result is (..., T, hs): for each query, the weighted average of the values.
    """

    def __call__(self, q: Tensor, k: Tensor, v: Tensor, *, causal: bool, dropout: float) -> Tensor: ...


def explain(q: Tensor, k: Tensor, v: Tensor, *, causal: bool, dropout: float = 0.0) -> tuple[Tensor, Tensor]:
    """Compute attention step by step, as in the lecture notes, and also return the attention weights.

    Args:
        q: (..., T, hs), queries at T positions with hs channels.
        k: (..., S, hs), keys at S positions.
        v: (..., S, hs), values at S positions.
        causal: whether queries attend only to their own and to earlier positions (see `causal_mask`).
        dropout: probability of setting a weight to 0.

    Returns:
        The weighted averages of the values, (..., T, hs), and the weights before dropout, (..., T, S).
    """
    mask = causal_mask(q.shape[-2], k.shape[-2], q.device) if causal else None
    weights = attention_weights(attention_scores(q, k), mask)  # (..., T, S)
    return F.dropout(weights, dropout) @ v, weights


def attend_explicit(q: Tensor, k: Tensor, v: Tensor, *, causal: bool, dropout: float = 0.0) -> Tensor:
    """Compute attention step by step. Return the weighted averages of the values, the first result of `explain`."""
    return explain(q, k, v, causal=causal, dropout=dropout)[0]


def attend_fused(q: Tensor, k: Tensor, v: Tensor, *, causal: bool, dropout: float = 0.0) -> Tensor:
    """Compute attention with the fused kernel of PyTorch, which does not store the attention weights.

    The result agrees with that of `attend_explicit`.
    """
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
    """KV cache of one layer: the keys and values of earlier positions, which need not be computed again.

    The cache contains at most `size` positions. A full cache cannot drop its oldest position, because this would change
    the numbers of all other positions, and their keys depend on these numbers. So bukva.generation.sampling clears a
    full cache and computes the keys and values of the most recent ids again.
    """

    def __init__(self, size: int) -> None:
        self.size, self.length = size, 0
        self.buffers: tuple[Tensor, Tensor] | None = None  # (B, nh, size, hs) each, allocated by the first `extend`

    def append(self, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        """Append the keys `k` and values `v` of T new positions. Return all keys and all values in the cache.

        `k` and `v` are (B, nh, T, hs), with batch, heads, positions and channels. The results are (B, nh, S, hs) for
        all S positions in the cache.

        Raises:
            ValueError: the cache is too small for the new positions.
        """
        start, (keys, values) = self.length, self.extend(k)
        stop = self.length
        keys[:, :, start:stop], values[:, :, start:stop] = k, v
        return keys[:, :, :stop], values[:, :, :stop]

    def extend(self, k: Tensor) -> tuple[Tensor, Tensor]:
        """Reserve T positions for the keys `k` and their values. Return the buffers of keys and of values.

        `k` is (B, nh, T, hs), with batch, heads, positions and channels. The caller has to write the new keys and
        values into the buffers, which are (B, nh, size, hs) each. The first call allocates the buffers.

        Raises:
            ValueError: the cache is too small for the new positions.
        """
        stop = self.length + k.shape[2]
        if stop > self.size:
            raise ValueError(f"The KV cache is too small for {stop} positions. It has room for {self.size} positions.")
        if self.buffers is None:
            shape = (*k.shape[:2], self.size, k.shape[3])
            # bf16 attention is 5x slower on CPU
            dtype = torch.promote_types(k.dtype, torch.float32) if k.device.type == "cpu" else k.dtype
            self.buffers = k.new_empty(shape, dtype=dtype), k.new_empty(shape, dtype=dtype)
        self.length = stop
        return self.buffers


class KVCache:
    """KV cache of a whole model, with one `LayerCache` for each layer."""

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

    Without the argument `memory`, `forward` computes self-attention. With `memory`, it computes cross-attention.

    Args:
        n_embd: number of channels of the input and of the output.
        n_head: number of heads, each with `n_embd / n_head` channels.
        causal: if True, each position attends to itself and to earlier positions, as in a decoder. If False, each
            position attends to all positions, as in an encoder.
        dropout: probability of setting an attention weight or an output to 0 in training.
        qk_norm: whether to scale all queries and keys to the same length, which limits the scores.
        bias: whether the linear layers have biases.
        kernel: implementation of attention, `explicit` or `fused`. To use another `Kernel`, set the attribute `attend`.
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
        """Attend from each position of `x` to the positions of `memory`, or of `x` itself if `memory` is None.

        Args:
            x: (B, T, C), with batch, positions and channels. The queries are computed from it.
            memory: (B, S, C), S positions from which the keys and values are computed. By default, they are computed
                from `x`.
            cos_sin: (2, T, hs), a result of `rotary_cos_sin` for hs channels per head; None without rotary positions.
            cache: keys and values of the positions before `x`. The keys and values of `x` are appended to the cache.

        Returns:
            The output of the layer, (B, T, C).
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
        """Compute the queries from `x`, and the keys and values from `memory`, for cross-attention.

        `x` and the queries are (B, T, C), with batch, positions and channels. The keys, the values and `memory` are (B,
        S, C). The first C rows of the weight of `qkv` are for queries, and the other 2 C rows are for keys and values.
        """
        C = x.shape[-1]
        q_weight, kv_weight = self.qkv.weight.split([C, 2 * C])
        q_bias, kv_bias = (None, None) if self.qkv.bias is None else self.qkv.bias.split([C, 2 * C])
        return F.linear(x, q_weight, q_bias), *F.linear(memory, kv_weight, kv_bias).chunk(2, dim=-1)

    def norm_and_rotate(self, x: Tensor, cos_sin: Tensor | None) -> Tensor:
        """Normalize queries or keys if `qk_norm` is set, and rotate them if `cos_sin` is not None.

        `x` and the result are (B, nh, T, hs), with batch, heads, positions and channels.
        """
        if self.qk_norm:  # gives all vectors the same length, so that only their directions matter
            x = F.rms_norm(x, x.shape[-1:], eps=min(EPSILON, torch.finfo(x.dtype).eps))
        return x if cos_sin is None else rotate(x, cos_sin)

    def split_heads(self, x: Tensor) -> Tensor:
        """Split the channels into heads, which become a batch dimension.

        The shape (batch, positions, channels) becomes (batch, heads, positions, channels of a head).
        """
        return x.unflatten(-1, (-1, self.head_size)).transpose(1, 2)

    @staticmethod
    def join_heads(x: Tensor) -> Tensor:
        """Concatenate the channels of all heads.

        The shape (batch, heads, positions, channels of a head) becomes (batch, positions, channels).
        """
        return x.transpose(1, 2).flatten(2)
