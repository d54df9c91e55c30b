"""The GPT: characters and their positions through a stack of blocks, and the logits of the next character.

With or without an n-gram memory (bukva.models.ngram_memory). Letters as in bukva.models.attention, and V = vocab_size.
Sources: the lecture notes; Radford et al. 2019 (GPT-2: norms before the sublayers, learned positions, residual
projections that start smaller with depth); Press & Wolf 2017 (tied weights); Zhang & Sennrich 2019 (RMSNorm); So et al.
2021, "Primer" (the squared ReLU).
"""

import copy
import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Self

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from bukva.models.attention import Attention, KVCache, LayerCache, rotary_cos_sin
from bukva.models.base import Config, Examples, HiddenLayers, Kind, LanguageModel, Losses, chosen
from bukva.models.ngram_memory import NgramFeatures, NgramMemory, ProductOfExperts
from bukva.text.ids import Ids


def relu_squared(x: Tensor) -> Tensor:
    """Return max(x, 0)^2, the activation of So et al. 2021, "Primer"."""
    return F.relu(x).square()


# bukva.config.names repeats the keys of these tables.
ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "gelu": F.gelu,
    "relu": F.relu,
    "relu2": relu_squared,
}
NORMS: dict[str, type[nn.Module]] = {"layernorm": nn.LayerNorm, "rmsnorm": nn.RMSNorm}


@dataclass(frozen=True)
class GPTConfig(Config):
    """The shape of a GPT; the numbers come from section model of params.yaml and from the vocabulary.

    The defaults are the options of the lecture notes. For those of the n-grams see bukva.models.ngram_memory.
    """

    name: ClassVar[str] = "gpt"

    vocab_size: int
    n_layer: int
    n_head: int
    n_embd: int
    block_size: int
    dropout: float
    positions: str = "learned"  # or rotary, or none
    norm: str = "layernorm"
    activation: str = "gelu"
    qk_norm: bool = False
    bias: bool = False
    proj_init: str = "scaled"  # or zero
    tie_weights: bool = False  # one matrix embeds and predicts
    ngrams: str = "none"  # logits: they are mixed with the network's predictions; input: the network also sees them
    ngram_dropout: float = 0.0  # share of the windows of a batch that are learned without the counts
    network_loss: float = 0.0  # weight of the loss of the network's own predictions
    ngram_orders: tuple[int, ...] = (8,)  # of the n-grams that are experts

    def __post_init__(self) -> None:
        object.__setattr__(self, "ngram_orders", tuple(self.ngram_orders))  # JSON has no tuples

    @property
    def head_size(self) -> int:
        """Channels of one head."""
        return self.n_embd // self.n_head

    @property
    def counts(self) -> bool:
        """Whether it has an n-gram memory."""
        return self.ngrams != "none"

    @property
    def n_before(self) -> int:
        """What the longest order needs before the first id of a window, which is in its context, too."""
        return max(0, max(self.ngram_orders) - 2) if self.counts else 0

    @property
    def activations_per_char(self) -> int:
        """A lower bound, measured; of each expert, two of its float32."""
        experts = 4 * self.vocab_size * len(self.ngram_orders) if self.counts else 0
        return 16 * self.n_layer * self.n_embd + experts


class MLP(nn.Module):
    """A hidden layer of four times the channels, computed at each position by itself."""

    def __init__(self, config: GPTConfig) -> None:
        super().__init__()
        C = config.n_embd
        self.activate, self.dropout = ACTIVATIONS[config.activation], nn.Dropout(config.dropout)
        self.fc = nn.Linear(C, 4 * C, bias=config.bias)
        self.proj = nn.Linear(4 * C, C, bias=config.bias)

    def forward(self, x: Tensor) -> Tensor:
        """(B, T, C) -> (B, T, C)."""
        return self.dropout(self.proj(self.activate(self.fc(x))))


class Block(nn.Module):
    """Communication, then computation: attention and an MLP, each added to the residual stream."""

    HIDDEN = (("attention.qkv", 3), ("attention.proj", 1), ("mlp.fc", 1), ("mlp.proj", 1))  # layers, matrices in each

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
        *,
        cos_sin: Tensor | None = None,
        cache: LayerCache | None = None,
        wanted: Tensor | None = None,
    ) -> Tensor:
        """(B, T, C) -> (B, T, C); (n, C) of the n positions that are True in `wanted`."""
        x = x + self.attention(self.ln_1(x), cos_sin=cos_sin, cache=cache)
        x = chosen(x, wanted)
        return x + self.mlp(self.ln_2(x))


class Stack(nn.ModuleList):
    """The blocks, one after the other. bukva.backends may replace it by one that computes the same faster."""

    def forward(
        self,
        x: Tensor,
        *,
        cos_sin: Tensor | None = None,
        cache: KVCache | None = None,
        wanted: Tensor | None = None,
    ) -> Tensor:
        """(B, T, C) -> (B, T, C); (n, C) of the n positions that are True in `wanted`."""
        layers = cache.layers if cache else [None] * len(self)
        for block, layer in zip(self, layers, strict=True):
            is_last = block is self[-1]  # nothing reads the other positions of its output
            x = block(x, cos_sin=cos_sin, cache=layer, wanted=wanted if is_last else None)
        return x

    def new_cache(self, size: int) -> KVCache:
        """Return an empty cache for `size` positions."""
        return KVCache(len(self), size)


class GPT(LanguageModel):
    """Characters so far in, logits of the next character out.

    causal=False removes the mask, so that every position sees its own target; bukva.studies shows the effect.
    """

    config: GPTConfig
    blocks: Stack
    cos_sin: Tensor  # (2, block_size, hs), with rotary positions

    def __init__(self, config: GPTConfig, *, causal: bool = True) -> None:
        super().__init__()
        self.config = config
        V, C = config.vocab_size, config.n_embd
        self.wte = nn.Embedding(V, C)
        if config.positions == "learned":
            self.wpe = nn.Embedding(config.block_size, C)
        if config.positions == "rotary":
            self.register_buffer("cos_sin", rotary_cos_sin(0, config.block_size, config.head_size), persistent=False)
        self.dropout = nn.Dropout(config.dropout)
        self.blocks = Stack(Block(config, causal=causal) for _ in range(config.n_layer))
        self.ln_f = NORMS[config.norm](C)
        self.apply(_initialise)
        # every sublayer adds to the residual stream: smaller weights keep its variance independent of depth; weights of
        # zero add nothing until they are trained
        std = 0.02 * (2 * config.n_layer) ** -0.5 if config.proj_init == "scaled" else 0.0
        for block in self.blocks:
            for layer in (block.attention.proj, block.mlp.proj):
                nn.init.normal_(layer.weight, std=std)
        self.lm_head = nn.Linear(C, V, bias=False)
        if config.tie_weights:
            self.lm_head.weight = self.wte.weight
        else:
            nn.init.normal_(self.lm_head.weight, std=0.02)
        is_shown = config.ngrams == "input"
        self.ngrams = NgramMemory(V, config.ngram_orders, is_shown=is_shown) if config.counts else None
        if self.ngrams:
            self.experts = ProductOfExperts(C, self.ngrams.n_features, len(config.ngram_orders))
        if is_shown:
            self.ngram_embedding = nn.Linear(V, C, bias=False)  # embeds a distribution, as wte a character
            nn.init.normal_(self.ngram_embedding.weight, std=0.02)

    def hidden_layers(self) -> list[HiddenLayers]:
        """The linear layers of the blocks, grouped by their place in the block: those of one place have one shape."""
        return [HiddenLayers([block.get_submodule(name) for block in self.blocks], n) for name, n in Block.HIDDEN]

    def new_cache(self) -> KVCache:
        """Return an empty KV cache, to be passed along while one text grows."""
        return self.blocks.new_cache(self.block_size)

    def count(self, train: Ids, stored: Path | None = None) -> None:
        """Fill the n-gram memory, if there is one, with the counts of (N,) ids of train."""
        if self.ngrams:
            self.ngrams.count(train, stored)

    def without_ngrams(self) -> Self:
        """Return the network without its n-grams: a plain GPT that shares the weights of this one."""
        network = copy.copy(self)
        network._modules = self._modules.copy()  # else both would have the same blocks attribute
        network.config, network.ngrams = dataclasses.replace(self.config, ngrams="none"), None
        return network

    def forward(
        self,
        ids: Tensor,
        cache: KVCache | None = None,
        before: Tensor | None = None,
        following: Tensor | None = None,
        wanted: Tensor | None = None,
    ) -> Tensor:
        """(B, T) ids -> (B, T, V) logits; T, and what the cache holds before it, at most block_size.

        `before`, (B, n), are the ids before these, in the cache or not, `following`, (B,), the ids after windows of
        train, and `wanted`, (B, T), the positions whose logits are returned, (n, V): see LanguageModel.
        """
        if self.ngrams is None:
            return self.lm_head(self.encode(ids, cache=cache, wanted=wanted))
        counted = self.ngrams.lookup(ids, before, following, wanted)
        hidden = self.encode(ids, added=self._embedded(counted), cache=cache, wanted=wanted)  # (B, T, C) or (n, C)
        return self.experts(hidden, self.lm_head(hidden), counted)

    def expert_outputs(
        self,
        ids: Tensor,
        cache: KVCache | None = None,
        before: Tensor | None = None,
        wanted: Tensor | None = None,
    ) -> tuple[Tensor, Tensor]:
        """Return what bukva.models.ngrams.adaptive mixes: the network's log-probabilities and the experts' powers.

        Args: as of `forward`; without `wanted`, n is B T.

        Returns:
            (n, V) log-probabilities of the network, and (n, R + 1) powers of the orders and, last, of the network. A
            GPT without n-grams has learned no powers: the longest order and the network start with half each.
        """
        counted = self.ngrams.lookup(ids, before, None, wanted) if self.ngrams else None
        added = self._embedded(counted) if counted else None
        hidden = self.encode(ids, added=added, cache=cache, wanted=wanted)  # (B, T, C) or (n, C)
        network = self.lm_head(hidden).float().log_softmax(-1).flatten(0, -2)
        if counted:
            with torch.autocast(hidden.device.type, enabled=False):
                return network, self.experts.powers(hidden, counted).flatten(0, -2)
        return network, torch.tensor([*[0.0] * (len(self.config.ngram_orders) - 1), 0.5, 0.5]).expand(len(network), -1)

    def examples(
        self,
        ids: Tensor,
        targets: Tensor,
        before: Tensor | None = None,
        numbers: Tensor | None = None,
        batch_size: int = 0,
    ) -> Examples:
        """Look up the n-grams of the windows. The windows that ngram_dropout takes come last and have none.

        The network alone learns from these. They are chosen in the whole batch and spread over it, so micro-batches and
        processes learn what the whole batch learns. Arguments as of LanguageModel.examples.
        """
        if self.ngrams is None:
            return super().examples(ids, targets)
        B = batch_size or len(ids)
        dropped = (torch.arange(B + 1, dtype=torch.float64) * self.config.ngram_dropout).floor().diff()  # (B,) 0 or 1
        is_dropped = dropped if numbers is None else dropped[numbers]  # (len(ids),)
        order, n = is_dropped.argsort(stable=True), len(ids) - int(is_dropped.sum())  # windows with n-grams first
        ids, targets = ids[order], targets[order]
        if not n:
            return Examples(ids, targets, None, 0.0)
        counted = self.ngrams.lookup(ids[:n], None if before is None else before[order[:n]], targets[:n, -1])
        return Examples(ids, targets, counted, (n * B) / (len(ids) * (B - int(dropped.sum()))))

    def losses(self, examples: Examples) -> Losses:
        """Return the loss of the full model, and what training minimises: with n-grams also the network's own loss."""
        if self.ngrams is None:
            return super().losses(examples)
        ids, targets, counted, weight = examples
        hidden = self.encode(ids, added=self._embedded(counted) if counted else None)  # (B, T, C)
        logits = self.lm_head(hidden).float()  # (B, T, V)
        network = F.cross_entropy(logits.flatten(0, 1), targets.flatten())
        if counted is None:  # a loss of zero, so that every process has gradients of the same parameters
            unused = [*self.experts.parameters(), *([self.ngram_embedding.weight] if self.ngrams.is_shown else [])]
            whole = 0.0 * sum(parameter.sum() for parameter in unused)
            return Losses(whole, whole + self.config.network_loss * network)
        n = len(counted.probabilities)
        whole = F.cross_entropy(self.experts(hidden[:n], logits[:n], counted).flatten(0, 1), targets[:n].flatten())
        whole = weight * whole
        return Losses(whole, whole + self.config.network_loss * network)

    def encode(
        self,
        ids: Tensor,
        *,
        added: Tensor | None = None,
        cache: KVCache | None = None,
        wanted: Tensor | None = None,
    ) -> Tensor:
        """The output of the stack at each position.

        Args:
            ids: (B, T) ids; with a cache, those after the cached positions.
            added: (B', T, C) to add to the embeddings of the first B' sequences.
            cache: keys and values of the positions before; those of ids are added.
            wanted: (B, T), the positions whose output is returned; all by default.

        Returns:
            (B, T, C), or (n, C) of the n wanted positions.
        """
        x, cos_sin = self.embed(ids, cache.length if cache else 0, added)
        return self.ln_f(self.blocks(x, cos_sin=cos_sin, cache=cache, wanted=wanted))

    def embed(self, ids: Tensor, start: int, added: Tensor | None = None) -> tuple[Tensor, Tensor | None]:
        """(B, T) ids from position `start` on -> (B, T, C), what the first block reads, and rotary angles, (2, T, hs).

        Raises:
            ValueError: more characters than block_size.
        """
        stop = start + ids.shape[1]
        if stop > self.block_size:
            raise ValueError(f"{stop} characters do not fit block_size {self.block_size}")
        x = self.wte(ids)  # (B, T, C)
        if added is not None:
            x = torch.cat([x[: len(added)] + added, x[len(added) :]])
        if self.config.positions == "learned":
            x = x + self.wpe(torch.arange(start, stop, device=ids.device))  # (B, T, C) + (T, C)
        return self.dropout(x), self.cos_sin[:, start:stop] if self.config.positions == "rotary" else None

    def _embedded(self, counted: NgramFeatures) -> Tensor | None:
        """(B, T, C) embedding of the longest order's distributions; None if the network does not see them."""
        return None if counted.longest is None else self.ngram_embedding(counted.longest)


def _initialise(module: nn.Module) -> None:
    if isinstance(module, nn.Linear | nn.Embedding):
        nn.init.normal_(module.weight, std=0.02)
    if isinstance(module, nn.Linear) and module.bias is not None:
        nn.init.zeros_(module.bias)


KIND = Kind(GPTConfig, GPT)
