"""The transformer: characters, with their places, through a stack of blocks.

One stack serves as decoder (causal), as encoder (not causal) and as a decoder that reads a memory. Letters as in
bukva.models.attention, and V = vocab_size. Sources: the lecture notes; Radford et al. 2019 (GPT-2: norms before the
sublayers, learned positions, residual projections that start smaller with depth); Zhang & Sennrich 2019 (RMSNorm); So
et al. 2021, "Primer" (the squared ReLU).
"""

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from bukva.models.attention import Attention, LayerCache, rotary_turns
from bukva.models.kernels import Dropout, relu_squared
from bukva.models.shape import refuse_other

Positions = Literal["learned", "rotary", "none"]
Activation = Literal["gelu", "relu", "relu2"]
Norm = Literal["layernorm", "rmsnorm"]
ProjStart = Literal["scaled", "zero"]

ACTIVATE: dict[str, Callable[[Tensor], Tensor]] = {
    "gelu": F.gelu,
    "relu": F.relu,
    "relu2": relu_squared,
}
NORM: dict[str, type[nn.Module]] = {"layernorm": nn.LayerNorm, "rmsnorm": nn.RMSNorm}


@dataclass(frozen=True)
class TransformerConfig:
    """The shape of a stack; the numbers come from params.yaml, section model, and the vocabulary.

    Raises:
        ValueError: no model has this shape; names the field.
    """

    vocab_size: int
    n_layer: int
    n_head: int
    n_embd: int
    block_size: int
    dropout: float
    positions: Positions = "learned"
    norm: Norm = "layernorm"
    activation: Activation = "gelu"
    qk_norm: bool = False
    bias: bool = False
    proj_start: ProjStart = "scaled"

    def __post_init__(self) -> None:
        refuse_other(self)
        if self.n_embd % self.n_head:
            raise ValueError(f"n_head {self.n_head} does not divide n_embd {self.n_embd}")
        if self.positions == "rotary" and self.head_size % 2:
            raise ValueError(f"rotary positions turn pairs of channels, and a head has {self.head_size}")

    @property
    def head_size(self) -> int:
        """Channels of one head."""
        return self.n_embd // self.n_head


class MLP(nn.Module):
    """Each position thinks for itself about what it has heard: out to four times the channels, and back."""

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        C = config.n_embd
        self.activate, self.dropout = ACTIVATE[config.activation], Dropout(config.dropout)
        self.fc = nn.Linear(C, 4 * C, bias=config.bias)
        self.proj = nn.Linear(4 * C, C, bias=config.bias)

    def forward(self, x: Tensor) -> Tensor:
        """(B, T, C) -> (B, T, C)."""
        return self.dropout(self.proj(self.activate(self.fc(x))))


class Block(nn.Module):
    """Communication, then computation: attention and an MLP, each added to the residual stream.

    With cross=True a second attention, between the two, reads a memory.
    """

    def __init__(self, config: TransformerConfig, *, causal: bool, cross: bool = False) -> None:
        super().__init__()
        C, norm = config.n_embd, NORM[config.norm]
        attention = functools.partial(
            Attention, C, config.n_head, dropout=config.dropout, qk_norm=config.qk_norm, bias=config.bias
        )
        self.ln_1 = norm(C)
        self.attention = attention(causal=causal)
        if cross:
            self.ln_cross = norm(C)
            self.cross = attention(causal=False)
        self.ln_2 = norm(C)
        self.mlp = MLP(config)

    def forward(
        self,
        x: Tensor,
        memory: Tensor | None = None,
        *,
        turns: Tensor | None = None,
        cache: LayerCache | None = None,
    ) -> Tensor:
        """(B, T, C), and (B, S, C) to read from -> (B, T, C)."""
        x = x + self.attention(self.ln_1(x), turns=turns, cache=cache)
        if memory is not None:
            x = x + self.cross(self.ln_cross(x), memory)
        return x + self.mlp(self.ln_2(x))


class Transformer(nn.Module):
    """Characters in, one vector for each position out."""

    turns: Tensor  # (2, block_size, hs), with rotary positions

    def __init__(self, config: TransformerConfig, *, causal: bool, cross: bool = False) -> None:
        super().__init__()
        self.config = config
        V, C = config.vocab_size, config.n_embd
        self.wte = nn.Embedding(V, C)
        if config.positions == "learned":
            self.wpe = nn.Embedding(config.block_size, C)
        if config.positions == "rotary":
            self.register_buffer("turns", rotary_turns(0, config.block_size, config.head_size), persistent=False)
        self.dropout = Dropout(config.dropout)
        self.blocks = nn.ModuleList(Block(config, causal=causal, cross=cross) for _ in range(config.n_layer))
        self.ln_f = NORM[config.norm](C)
        self.apply(_initialise)
        # every sublayer adds to the residual stream: smaller steps keep its variance independent of depth; from zero
        # each adds nothing until it has learned something
        std = 0.02 * (2 * config.n_layer) ** -0.5 if config.proj_start == "scaled" else 0.0
        for name, weight in self.named_parameters():
            if name.endswith("proj.weight"):
                nn.init.normal_(weight, std=std)

    @property
    def block_size(self) -> int:
        """Greatest number of characters of context."""
        return self.config.block_size

    def new_caches(self) -> list[LayerCache]:
        """Empty caches, one for each layer, to be passed along while one text grows."""
        return [LayerCache(self.block_size) for _ in range(self.config.n_layer)]

    def encode(self, ids: Tensor, memory: Tensor | None = None, caches: list[LayerCache] | None = None) -> Tensor:
        """What the stack makes of characters.

        Args:
            ids: (B, T) ids; with caches, those that follow what the caches hold.
            memory: (B, S, C) what a stack with cross-attention reads.
            caches: of the positions before; those of ids are added.

        Returns:
            (B, T, C).

        Raises:
            ValueError: more characters than block_size.
        """
        start = caches[0].length if caches else 0
        stop = start + ids.shape[1]
        if stop > self.block_size:
            raise ValueError(f"{stop} characters do not fit block_size {self.block_size}")
        x = self.wte(ids)  # (B, T, C)
        turns = None
        if self.config.positions == "learned":
            x = x + self.wpe(torch.arange(start, stop, device=ids.device))  # (B, T, C) + (T, C)
        elif self.config.positions == "rotary":
            turns = self.turns[:, start:stop]
        x = self.dropout(x)
        for i, block in enumerate(self.blocks):
            x = block(x, memory, turns=turns, cache=caches[i] if caches else None)
        return self.ln_f(x)


def _initialise(module: nn.Module) -> None:
    if isinstance(module, nn.Linear | nn.Embedding):
        nn.init.normal_(module.weight, std=0.02)
    if isinstance(module, nn.Linear) and module.bias is not None:
        nn.init.zeros_(module.bias)
