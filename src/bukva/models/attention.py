"""Attention, one idea at a time: scores, scaling, mask, weighted average, heads.

Letters in the shape comments, here and nowhere redefined:

    B   sequences in the batch          nh  heads
    T   positions that ask (queries)    hs  channels of one head, C / nh
    S   positions that answer (keys)    C   channels of the residual stream, n_embd

Sources: the lecture notes (one head, the mask, the scale, many heads as one tensor); Vaswani et al. 2017,
"Attention Is All You Need" (the scaled dot product, equation 1; many heads, section 3.2.2).
"""

from typing import Protocol

import torch
import torch.nn.functional as F
from torch import Tensor, nn


def causal_mask(T: int, S: int, device: torch.device | None = None) -> Tensor:
    """(T, S), True where query t may look at key s; the T queries are the last T of the S positions."""
    return torch.ones(T, S, dtype=torch.bool, device=device).tril(diagonal=S - T)


def attention_weights(q: Tensor, k: Tensor, may_look: Tensor | None = None) -> Tensor:
    """How much each query looks at each key: (..., T, hs), (..., S, hs) -> (..., T, S); rows sum to 1."""
    scores = q @ k.mT  # (..., T, S): how well does this query match that key?
    scores = scores * q.shape[-1] ** -0.5  # hs, not C: keeps the variance of a score near 1
    if may_look is not None:
        scores = scores.masked_fill(~may_look, float("-inf"))
    return scores.softmax(dim=-1)


class Kernel(Protocol):
    """What both ways to attend have in common: (..., T, hs), two of (..., S, hs) -> (..., T, hs)."""

    def __call__(self, q: Tensor, k: Tensor, v: Tensor, *, causal: bool, dropout: float) -> Tensor: ...


def attend_explicit(q: Tensor, k: Tensor, v: Tensor, *, causal: bool, dropout: float = 0.0) -> Tensor:
    """The lecture's attention, every step in sight: a weighted average of the values."""
    may_look = causal_mask(q.shape[-2], k.shape[-2], q.device) if causal else None
    weights = F.dropout(attention_weights(q, k, may_look), dropout)  # (..., T, S)
    return weights @ v


def attend_fused(q: Tensor, k: Tensor, v: Tensor, *, causal: bool, dropout: float = 0.0) -> Tensor:
    """The same function without storing the (T, S) weights; equal to attend_explicit by test."""
    T, S = q.shape[-2], k.shape[-2]
    if q.device.type == "cpu" and q.dtype == torch.bfloat16:
        # on CPU the fused kernel's backward takes three times as long in bf16 as in fp32 (docs/log.md)
        q, k, v = q.float(), k.float(), v.float()
    with torch.autocast(q.device.type, enabled=False):
        if causal and T != S:  # is_causal would align its triangle to the first key; our queries are the last ones
            return F.scaled_dot_product_attention(q, k, v, causal_mask(T, S, q.device), dropout_p=dropout)
        return F.scaled_dot_product_attention(q, k, v, dropout_p=dropout, is_causal=causal)


ATTEND: dict[str, Kernel] = {"explicit": attend_explicit, "fused": attend_fused}


class Attention(nn.Module):
    """Multi-head self-attention with dropout on the weights and an output projection.

    n_head = 1 is the lecture's single head; causal=True is the decoder's mask.
    """

    def __init__(self, n_embd: int, n_head: int, *, causal: bool, dropout: float, kernel: str = "fused") -> None:
        super().__init__()
        self.n_head, self.causal, self.dropout, self.kernel = n_head, causal, dropout, kernel
        self.qkv = nn.Linear(n_embd, 3 * n_embd, bias=False)  # rows: all queries, all keys, all values
        self.proj = nn.Linear(n_embd, n_embd, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """(B, T, C) -> (B, T, C)."""
        q, k, v = (self.split_heads(part) for part in self.qkv(x).chunk(3, dim=-1))  # each (B, nh, T, hs)
        dropout = self.dropout if self.training else 0.0
        y = ATTEND[self.kernel](q, k, v, causal=self.causal, dropout=dropout)  # (B, nh, T, hs)
        return self.proj(self.join_heads(y))

    def split_heads(self, x: Tensor) -> Tensor:
        """(B, T, C) -> (B, nh, T, hs): heads are one more batch axis, so they never talk either."""
        return x.unflatten(-1, (self.n_head, -1)).transpose(1, 2)

    @staticmethod
    def join_heads(x: Tensor) -> Tensor:
        """(B, nh, T, hs) -> (B, T, C): the heads' answers side by side."""
        return x.transpose(1, 2).flatten(2)
