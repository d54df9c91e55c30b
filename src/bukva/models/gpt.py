"""The GPT: embeddings, transformer blocks, and an output layer that predicts the next character.

Letters in shapes are explained in bukva.models.attention. In addition, V is the vocab_size.

Sources: the lecture notes; Radford et al. 2019 (GPT-2: norms before the sublayers, learned positions, residual
projections that start with smaller weights in deeper models); Press & Wolf 2017 (tied weights); Zhang & Sennrich 2019
(RMSNorm); So et al. 2021, "Primer" (the squared ReLU).
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from bukva.models.attention import Attention, KVCache, LayerCache, rotary_cos_sin
from bukva.models.base import Config, LanguageModel
from bukva.models.local import HashedNgrams, ShortConvolution


def relu_squared(x: Tensor) -> Tensor:
    """Return max(x, 0)², the activation of So et al. 2021, "Primer"."""
    return F.relu(x).square()


ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {"gelu": F.gelu, "relu": F.relu, "relu2": relu_squared}
NORMS: dict[str, type[nn.Module]] = {"layernorm": nn.LayerNorm, "rmsnorm": nn.RMSNorm}


@dataclass(frozen=True)
class GPTConfig(Config):
    """Section `model` of params.yaml, with the number of ids. The defaults are the choices of the lecture notes."""

    name: ClassVar[str] = "gpt"

    vocab_size: int
    n_layer: int
    n_head: int
    n_embd: int
    block_size: int
    dropout: float
    positions: str = "learned"  # or `rotary`, or `none`
    norm: str = "layernorm"
    activation: str = "gelu"
    qk_norm: bool = False
    bias: bool = False
    short_convolution: bool = False  # before each block, add the last three positions to each position
    hashed_ngrams: tuple[int, ...] = ()  # lengths of the n-grams that have learned embeddings
    # initial weights of the projections to the residual stream: `scaled` (smaller in deeper models) or `zero`
    proj_init: str = "scaled"
    tie_weights: bool = False  # use one weight matrix for both the embedding and the output layer
    # for bukva.models.ngram_gpt: `none` (a plain GPT), `targets` (learn from the predictions of n-grams, and predict
    # without them), `logits` (mix the predictions of the network and of n-grams), or `input` (like `logits`, and the
    # predictions of the n-grams are also an input of the network)
    ngrams: str = "none"
    ngram_orders: tuple[int, ...] = (8,)  # lengths of the n-grams to predict from

    def __post_init__(self) -> None:
        for name in ("ngram_orders", "hashed_ngrams"):
            object.__setattr__(self, name, tuple(getattr(self, name)))  # JSON has no tuples

    @property
    def head_size(self) -> int:
        """Number of channels of one head."""
        return self.n_embd // self.n_head


class MLP(nn.Module):
    """A feed-forward network that is applied to each position separately. It has 4 C hidden channels."""

    def __init__(self, config: GPTConfig) -> None:
        super().__init__()
        C = config.n_embd
        self.activate, self.dropout = ACTIVATIONS[config.activation], nn.Dropout(config.dropout)
        self.fc = nn.Linear(C, 4 * C, bias=config.bias)
        self.proj = nn.Linear(4 * C, C, bias=config.bias)

    def forward(self, x: Tensor) -> Tensor:
        return self.dropout(self.proj(self.activate(self.fc(x))))  # (..., C)


class Block(nn.Module):
    """A transformer block. It adds the output of attention, and then the output of an MLP, to the residual stream."""

    def __init__(self, config: GPTConfig, *, causal: bool) -> None:
        super().__init__()
        C, norm = config.n_embd, NORMS[config.norm]
        self.ln_1 = norm(C)
        self.attention = Attention(
            C, config.n_head, causal=causal, dropout=config.dropout, qk_norm=config.qk_norm, bias=config.bias
        )
        self.ln_2 = norm(C)
        self.mlp = MLP(config)

    def forward(
        self,
        x: Tensor,
        cos_sin: Tensor | None = None,
        cache: LayerCache | None = None,
        wanted: Tensor | None = None,
    ) -> Tensor:
        """Return the residual stream `x`, (B, T, C), after the block, or (n, C) for n positions that are `wanted`."""
        x = x + self.attention(self.ln_1(x), cos_sin=cos_sin, cache=cache)
        x = x if wanted is None else x[wanted]
        return x + self.mlp(self.ln_2(x))


class GPT(LanguageModel):
    """A decoder-only transformer that predicts the next character.

    With `causal=False`, it is an encoder. That cannot learn to predict the next character, because it attends to it.
    """

    config: GPTConfig
    cos_sin: Tensor  # (2, block_size, hs); exists only with rotary positions

    def __init__(self, config: GPTConfig, *, causal: bool = True) -> None:
        super().__init__()
        self.config = config
        V, C = config.vocab_size, config.n_embd
        self.wte = nn.Embedding(V, C)
        if config.positions == "learned":
            self.wpe = nn.Embedding(config.block_size, C)
        if config.positions == "rotary":
            # on the CPU also in an empty model: on the meta device, a division would import torch's compiler
            cos_sin = rotary_cos_sin(0, config.block_size, config.head_size, torch.device("cpu"))
            self.register_buffer("cos_sin", cos_sin, persistent=False)
        self.dropout = nn.Dropout(config.dropout)
        self.blocks = nn.ModuleList(Block(config, causal=causal) for _ in range(config.n_layer))
        if config.short_convolution:
            self.convolutions = nn.ModuleList(ShortConvolution(C) for _ in range(config.n_layer))
        if config.hashed_ngrams:
            self.hashed_ngrams = HashedNgrams(config.hashed_ngrams, C)
        self.ln_f = NORMS[config.norm](C)
        self.apply(_initialize)
        # Every sublayer adds to the residual stream. With `scaled`, the weights are smaller in deeper models, so the
        # variance of the stream does not depend on the depth. With `zero`, a sublayer adds nothing before training.
        std = 0.02 * (2 * config.n_layer) ** -0.5 if config.proj_init == "scaled" else 0.0
        for block in self.blocks:
            for layer in (block.attention.proj, block.mlp.proj):
                nn.init.normal_(layer.weight, std=std)
        self.lm_head = nn.Linear(C, V, bias=False)
        if config.tie_weights:
            self.lm_head.weight = self.wte.weight
        else:
            nn.init.normal_(self.lm_head.weight, std=0.02)

    def forward(
        self,
        ids: Tensor,
        cache: KVCache | None = None,
        before: Tensor | None = None,  # noqa: ARG002 (for n-grams)
        following: Tensor | None = None,  # noqa: ARG002
        wanted: Tensor | None = None,
    ) -> Tensor:
        """Return the (B, T, V) logits of the next id, or (n, V) with `wanted`. `ids` continue the cached text."""
        return self.lm_head(self.encode(ids, cache=cache, wanted=wanted))

    def encode(
        self,
        ids: Tensor,
        added: Tensor | None = None,
        cache: KVCache | None = None,
        wanted: Tensor | None = None,
    ) -> Tensor:
        """Return the hidden states after the last block and the final norm, (B, T, C), or (n, C) with `wanted`.

        `added`, (B, T, C), is added to the embeddings of the ids.
        """
        if self.config.hashed_ngrams:
            hashed = self.hashed_ngrams(ids, cache)  # (B, T, C)
            added = hashed if added is None else added + hashed
        x, cos_sin = self.embed(ids, cache.length if cache else 0, added)
        for i, block in enumerate(self.blocks):
            layer_cache = cache.layers[i] if cache else None
            if self.config.short_convolution:
                x = self.convolutions[i](x, layer_cache)
            # the other blocks return all positions, because the next block needs them
            x = block(x, cos_sin, layer_cache, wanted if i == len(self.blocks) - 1 else None)
        return self.ln_f(x)

    def embed(self, ids: Tensor, start: int, added: Tensor | None = None) -> tuple[Tensor, Tensor | None]:
        """Return the input of the first block, (B, T, C), and for rotary positions (2, T, hs) cosines and sines."""
        stop = start + ids.shape[1]
        if stop > self.block_size:
            raise ValueError(
                f"The input and the KV cache together have {stop} positions, but `block_size` is {self.block_size}."
            )
        x = self.wte(ids)  # (B, T, C)
        if added is not None:
            x = x + added
        if self.config.positions == "learned":
            x = x + self.wpe(torch.arange(start, stop, device=ids.device))  # (B, T, C) + (T, C)
        return self.dropout(x), self.cos_sin[:, start:stop] if self.config.positions == "rotary" else None

    def hidden_matrices(self) -> dict[nn.Parameter, int]:
        """Return the matrices of the blocks. The weight of `qkv` stacks three."""
        n_stacked = {"attention.qkv.weight": 3, "attention.proj.weight": 1, "mlp.fc.weight": 1, "mlp.proj.weight": 1}
        return {block.get_parameter(name): n for name, n in n_stacked.items() for block in self.blocks}

    def new_cache(self) -> KVCache:
        """Return an empty KV cache for at most `block_size` positions."""
        return KVCache(self.config.n_layer, self.block_size)


def _initialize(module: nn.Module) -> None:
    if isinstance(module, nn.Linear | nn.Embedding):
        nn.init.normal_(module.weight, std=0.02)
    if isinstance(module, nn.Linear) and module.bias is not None:
        nn.init.zeros_(module.bias)
