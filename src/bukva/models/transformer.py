"""The transformer: characters and their positions through a stack of blocks.

One stack serves as decoder (causal), as encoder (not causal) and as a decoder that reads a memory. Letters as in
bukva.models.attention, and V = vocab_size. Sources: the lecture notes; Radford et al. 2019 (GPT-2: norms before the
sublayers, learned positions, residual projections that start smaller with depth); Zhang & Sennrich 2019 (RMSNorm); So
et al. 2021, "Primer" (the squared ReLU).
"""

import functools
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from bukva.models import position
from bukva.models.attention import Attention, Caches, LayerCache, attend_fused, rotary_cos_sin
from bukva.models.base import HiddenLayers, LanguageModel, check_fields, chosen
from bukva.models.dropout import Dropout
from bukva.models.kernels import relu_squared

# The keys of these tables are the values of model.positions and so on; config reads them here.
POSITIONS = ("learned", "rotary", "none")
PROJ_INITS = ("scaled", "zero")
ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "gelu": F.gelu,
    "relu": F.relu,
    "relu2": relu_squared,
}
NORMS: dict[str, type[nn.Module]] = {"layernorm": nn.LayerNorm, "rmsnorm": nn.RMSNorm}
CHOICES = {"positions": POSITIONS, "proj_init": PROJ_INITS, "activation": ACTIVATIONS, "norm": NORMS}


@dataclass(frozen=True)
class TransformerConfig:
    """The shape of a stack; the numbers come from section model of params.yaml and from the vocabulary.

    Raises:
        ValueError: no model has this shape; names the field.
    """

    vocab_size: int
    n_layer: int
    n_head: int
    n_embd: int
    block_size: int
    dropout: float
    positions: str = "learned"
    norm: str = "layernorm"
    activation: str = "gelu"
    qk_norm: bool = False
    bias: bool = False
    proj_init: str = "scaled"

    choices: ClassVar[Mapping[str, Collection[str]]] = CHOICES

    def __post_init__(self) -> None:
        check_fields(self, self.choices)
        if self.n_embd % self.n_head:
            raise ValueError(f"n_head {self.n_head} does not divide n_embd {self.n_embd}")
        if self.positions == "rotary" and self.head_size % 2:
            raise ValueError(f"rotary positions rotate pairs of channels, but a head has {self.head_size}")

    @property
    def head_size(self) -> int:
        """Channels of one head."""
        return self.n_embd // self.n_head

    @property
    def counts(self) -> bool:
        """Whether the model counts train."""
        return False

    @property
    def activations_per_char(self) -> int:
        """Numbers kept of each character for the backward pass, beside the logits: a lower bound, measured."""
        return 16 * self.n_layer * self.n_embd


class MLP(nn.Module):
    """A hidden layer of four times the channels, computed at each position by itself."""

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        C = config.n_embd
        self.activate, self.dropout = ACTIVATIONS[config.activation], Dropout(config.dropout)
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
        C, norm = config.n_embd, NORMS[config.norm]
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
        self.settings = position.settings_of(self.ln_1, config.activation, qk_norm=config.qk_norm)

    def forward(
        self,
        x: Tensor,
        memory: Tensor | None = None,
        *,
        cos_sin: Tensor | None = None,
        cache: LayerCache | None = None,
        wanted: Tensor | None = None,
    ) -> Tensor:
        """(B, T, C), and (B, S, C) to read from -> (B, T, C); (n, C) of the n positions that are True in `wanted`."""
        if cache is not None and memory is None and self.settings and self._is_compiled_for(x):
            return self._at_one_position(x, cos_sin, cache, self.settings)
        x = x + self.attention(self.ln_1(x), cos_sin=cos_sin, cache=cache)
        if memory is not None:
            x = x + self.cross(self.ln_cross(x), memory)
        x = chosen(x, wanted)
        return x + self.mlp(self.ln_2(x))

    def projections(self) -> list[nn.Linear]:
        """The layers whose output is added to the residual stream."""
        return [*(attention.proj for attention in self._attentions()), self.mlp.proj]

    def linear_layers(self) -> list[tuple[nn.Linear, int]]:
        """All linear layers, each with the number of matrices that are stacked in its weight."""
        attentions = [pair for attention in self._attentions() for pair in ((attention.qkv, 3), (attention.proj, 1))]
        return [*attentions, (self.mlp.fc, 1), (self.mlp.proj, 1)]

    def _attentions(self) -> list[Attention]:
        return [self.attention, self.cross] if hasattr(self, "cross") else [self.attention]

    def _is_compiled_for(self, x: Tensor) -> bool:
        """Whether (B, T, C) is one position in float32 on a CPU, without gradient, dropout or a replaced kernel."""
        plain = not (torch.is_grad_enabled() or self.training) and self.attention.attend is attend_fused
        return plain and x.numel() == x.shape[-1] and x.device.type == "cpu" and x.dtype == torch.float32

    def _at_one_position(
        self, x: Tensor, cos_sin: Tensor | None, cache: LayerCache, settings: position.Settings
    ) -> Tensor:
        """(1, 1, C) -> (1, 1, C), by bukva.models.position."""
        keys, values = cache.extend(x.view(1, self.attention.n_head, 1, -1))
        cache.weights = cache.weights or position.weights_of(
            self.ln_1, self.attention.qkv, self.attention.proj, self.ln_2, self.mlp.fc, self.mlp.proj
        )
        return position.add_block(x, keys, values, cache.length - 1, cos_sin, cache.weights, settings)


class Transformer(LanguageModel):
    """Characters in, one vector for each position out."""

    cos_sin: Tensor  # (2, block_size, hs), with rotary positions

    def __init__(self, config: TransformerConfig, *, causal: bool, cross: bool = False) -> None:
        super().__init__()
        self.config = config
        V, C = config.vocab_size, config.n_embd
        self.wte = nn.Embedding(V, C)
        if config.positions == "learned":
            self.wpe = nn.Embedding(config.block_size, C)
        if config.positions == "rotary":
            self.register_buffer("cos_sin", rotary_cos_sin(0, config.block_size, config.head_size), persistent=False)
        self.dropout = Dropout(config.dropout)
        self.blocks = nn.ModuleList(Block(config, causal=causal, cross=cross) for _ in range(config.n_layer))
        self.ln_f = NORMS[config.norm](C)
        self.apply(_initialise)
        # every sublayer adds to the residual stream: smaller weights keep its variance independent of depth; weights of
        # zero add nothing until they are trained
        std = 0.02 * (2 * config.n_layer) ** -0.5 if config.proj_init == "scaled" else 0.0
        for block in self.blocks:
            for layer in block.projections():
                nn.init.normal_(layer.weight, std=std)

    def hidden_layers(self) -> list[HiddenLayers]:
        """The linear layers of the blocks, grouped by their place in the block: those of one place have one shape."""
        return [
            HiddenLayers([layer for layer, _ in same], n_stacked=same[0][1])
            for same in zip(*(block.linear_layers() for block in self.blocks), strict=True)
        ]

    def new_caches(self) -> Caches:
        """Empty caches, to be passed along while one text grows."""
        return Caches(self.config.n_layer, self.block_size)

    def encode(
        self,
        ids: Tensor,
        memory: Tensor | None = None,
        *,
        added: Tensor | None = None,
        caches: Caches | None = None,
        wanted: Tensor | None = None,
    ) -> Tensor:
        """The output of the stack at each position.

        Args:
            ids: (B, T) ids; with caches, those after the cached positions.
            memory: (B, S, C), for a stack with cross-attention.
            added: (B', T, C) to add to the embeddings of the first B' sequences.
            caches: keys and values of the positions before; those of ids are added.
            wanted: (B, T), the positions whose output is returned; all by default.

        Returns:
            (B, T, C), or (n, C) of the n wanted positions.

        Raises:
            ValueError: more characters than block_size.
        """
        start = caches.length if caches else 0
        stop = start + ids.shape[1]
        if stop > self.block_size:
            raise ValueError(f"{stop} characters do not fit block_size {self.block_size}")
        x = self.wte(ids)  # (B, T, C)
        if added is not None:
            x = torch.cat([x[: len(added)] + added, x[len(added) :]])
        cos_sin = None
        if self.config.positions == "learned":
            x = x + self.wpe(torch.arange(start, stop, device=ids.device))  # (B, T, C) + (T, C)
        elif self.config.positions == "rotary":
            cos_sin = self.cos_sin[:, start:stop]
        x = self.dropout(x)
        for i, block in enumerate(self.blocks):
            last = i + 1 == len(self.blocks)  # nothing reads the other positions of its output
            cache = caches.layers[i] if caches else None
            x = block(x, memory, cos_sin=cos_sin, cache=cache, wanted=wanted if last else None)
        return self.ln_f(x)


def _initialise(module: nn.Module) -> None:
    if isinstance(module, nn.Linear | nn.Embedding):
        nn.init.normal_(module.weight, std=0.02)
    if isinstance(module, nn.Linear) and module.bias is not None:
        nn.init.zeros_(module.bias)
