"""The GPT: a decoder-only transformer over characters.

Letters as in bukva.models.attention, and V = vocab_size. Sources: the lecture notes; Radford et al. 2019
(GPT-2: pre-norm blocks, learned positions, residual projections initialised smaller with depth).
"""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from bukva.models.attention import Attention


@dataclass(frozen=True)
class GPTConfig:
    """The shape of a GPT; the numbers come from params.yaml, section model, and the vocabulary."""

    vocab_size: int
    n_layer: int
    n_head: int
    n_embd: int
    block_size: int
    dropout: float

    def __post_init__(self) -> None:
        if self.n_embd % self.n_head:
            raise ValueError(f"n_head {self.n_head} does not divide n_embd {self.n_embd}")

    @property
    def n_parameters(self) -> int:
        """Parameters by formula: embeddings, blocks (4 C^2 of attention, 8 C^2 of MLP, two norms), norm, head."""
        V, C = self.vocab_size, self.n_embd
        block = 12 * C**2 + 2 * 2 * C
        return V * C + self.block_size * C + self.n_layer * block + 2 * C + V * C


class Block(nn.Module):
    """Communication, then computation: attention and an MLP, each added to the residual stream."""

    def __init__(self, config: GPTConfig) -> None:
        super().__init__()
        C = config.n_embd
        self.ln_1 = nn.LayerNorm(C)
        self.attention = Attention(C, config.n_head, causal=True, dropout=config.dropout)
        self.ln_2 = nn.LayerNorm(C)
        self.mlp = nn.Sequential(nn.Linear(C, 4 * C, bias=False), nn.GELU(), nn.Linear(4 * C, C, bias=False))
        self.dropout = nn.Dropout(config.dropout)

    def forward(self, x: Tensor) -> Tensor:
        """(B, T, C) -> (B, T, C)."""
        x = x + self.dropout(self.attention(self.ln_1(x)))
        return x + self.dropout(self.mlp(self.ln_2(x)))


class GPT(nn.Module):
    """Characters so far in, logits of the next character out."""

    def __init__(self, config: GPTConfig) -> None:
        super().__init__()
        self.config = config
        V, C = config.vocab_size, config.n_embd
        self.wte = nn.Embedding(V, C)
        self.wpe = nn.Embedding(config.block_size, C)
        self.dropout = nn.Dropout(config.dropout)
        self.blocks = nn.ModuleList(Block(config) for _ in range(config.n_layer))
        self.ln_f = nn.LayerNorm(C)
        self.lm_head = nn.Linear(C, V, bias=False)
        self._initialise()

    @property
    def block_size(self) -> int:
        """Greatest number of characters of context."""
        return self.config.block_size

    def forward(self, ids: Tensor) -> Tensor:
        """(B, T) ids, T <= block_size -> (B, T, V) logits."""
        T = ids.shape[1]
        if self.block_size < T:
            raise ValueError(f"{T} characters do not fit block_size {self.block_size}")
        x = self.wte(ids) + self.wpe(torch.arange(T, device=ids.device))  # (B, T, C) + (T, C)
        x = self.dropout(x)
        for block in self.blocks:
            x = block(x)
        return self.lm_head(self.ln_f(x))

    def _initialise(self) -> None:
        for module in self.modules():
            if isinstance(module, nn.Linear | nn.Embedding):
                nn.init.normal_(module.weight, std=0.02)
        # each block adds twice to the residual stream: smaller steps keep its variance independent of depth
        for block in self.blocks:
            for last in (block.attention.proj, block.mlp[-1]):
                nn.init.normal_(last.weight, std=0.02 * (2 * self.config.n_layer) ** -0.5)
