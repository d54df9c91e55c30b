"""The GPT: embeddings, a stack of transformer blocks, and an output layer that predicts the next character.

A GPT may also have an n-gram memory (bukva.models.ngram_memory). Letters in shapes are explained in
bukva.models.attention. In addition, V is the vocab_size.

Sources: the lecture notes; Radford et al. 2019 (GPT-2: norms before the sublayers, learned positions, residual
projections that start with smaller weights in deeper models); Press & Wolf 2017 (tied weights); Zhang & Sennrich 2019
(RMSNorm); So et al. 2021, "Primer" (the squared ReLU).
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
from bukva.models.base import Config, Examples, HiddenLayers, LanguageModel, Losses, ModelKind, select_wanted
from bukva.models.ngram_memory import NgramFeatures, NgramMemory, ProductOfExperts
from bukva.text.ids import Ids


def relu_squared(x: Tensor) -> Tensor:
    """Return max(x, 0)², the activation of So et al. 2021, "Primer"."""
    return F.relu(x).square()


ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "gelu": F.gelu,
    "relu": F.relu,
    "relu2": relu_squared,
}
NORMS: dict[str, type[nn.Module]] = {"layernorm": nn.LayerNorm, "rmsnorm": nn.RMSNorm}


@dataclass(frozen=True)
class GPTConfig(Config):
    """Sizes and options of a GPT. All fields except `vocab_size` are parameters in section `model` of params.yaml.

    The defaults are the choices of the lecture notes. bukva.models.ngram_memory explains the options about n-grams.
    """

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
    # initial weights of the projections to the residual stream: `scaled` (smaller in deeper models) or `zero`
    proj_init: str = "scaled"
    tie_weights: bool = False  # use one weight matrix for both the embedding and the output layer
    # `none` (no n-grams), `logits` (mix the predictions of the network and of the n-grams), or `input` (like `logits`,
    # and the predictions of the n-grams are also an input of the network)
    ngrams: str = "none"
    ngram_dropout: float = 0.0  # fraction of the windows of a batch that are trained without n-grams
    network_loss: float = 0.0  # factor of the network's own loss in the training loss, for a GPT with n-grams
    ngram_orders: tuple[int, ...] = (8,)  # lengths of the n-grams to predict from

    def __post_init__(self) -> None:
        object.__setattr__(self, "ngram_orders", tuple(self.ngram_orders))  # JSON has no tuples

    @property
    def head_size(self) -> int:
        """Number of channels of one head."""
        return self.n_embd // self.n_head

    @property
    def counts(self) -> bool:
        """Whether the GPT has an n-gram memory."""
        return self.ngrams != "none"

    @property
    def n_before(self) -> int:
        """Number of ids before a window that the longest n-grams use as context.

        N-grams of order K predict an id from the K - 1 ids before it. For the first prediction in a window, one of
        these ids is the first id of the window. The other K - 2 ids are before the window.
        """
        return max(0, max(self.ngram_orders) - 2) if self.counts else 0


class MLP(nn.Module):
    """A feed-forward network that is applied to each position separately.

    Its input and output have C channels, and its hidden layer has 4 C channels.
    """

    def __init__(self, config: GPTConfig) -> None:
        super().__init__()
        C = config.n_embd
        self.activate, self.dropout = ACTIVATIONS[config.activation], nn.Dropout(config.dropout)
        self.fc = nn.Linear(C, 4 * C, bias=config.bias)
        self.proj = nn.Linear(4 * C, C, bias=config.bias)

    def forward(self, x: Tensor) -> Tensor:
        """Apply the MLP to the channels, which are the last dimension of `x`. The result has the shape of `x`."""
        return self.dropout(self.proj(self.activate(self.fc(x))))


class Block(nn.Module):
    """A transformer block. It adds the output of attention, and then the output of an MLP, to the residual stream."""

    # name of each linear layer, and the number of matrices that are stacked in its weight
    HIDDEN = (("attention.qkv", 3), ("attention.proj", 1), ("mlp.fc", 1), ("mlp.proj", 1))

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
        """Return the residual stream after the block. `x` is the residual stream before the block.

        `x` and the result are (B, T, C), with batch, positions and channels. With `wanted`, (B, T), the result is (n,
        C), for the n positions where `wanted` is True. `Attention.forward` explains `cos_sin` and `cache`.
        """
        x = x + self.attention(self.ln_1(x), cos_sin=cos_sin, cache=cache)
        x = select_wanted(x, wanted)
        return x + self.mlp(self.ln_2(x))


class Stack(nn.ModuleList):
    """All blocks, applied one after another.

    bukva.backends may replace this module by a faster module that returns the same result.
    """

    def forward(
        self,
        x: Tensor,
        *,
        cos_sin: Tensor | None = None,
        cache: KVCache | None = None,
        wanted: Tensor | None = None,
    ) -> Tensor:
        """Apply all blocks to the residual stream `x`. `Block.forward` explains the arguments and the result."""
        layers = cache.layers if cache else [None] * len(self)
        for block, layer in zip(self, layers, strict=True):
            is_last = block is self[-1]  # the other blocks return all positions, because the next block needs them
            x = block(x, cos_sin=cos_sin, cache=layer, wanted=wanted if is_last else None)
        return x

    def new_cache(self, size: int) -> KVCache:
        """Return an empty KV cache for at most `size` positions."""
        return KVCache(len(self), size)


class GPT(LanguageModel):
    """A decoder-only transformer that predicts the next character.

    With `causal=False`, there is no attention mask, and the GPT becomes an encoder. It cannot be trained to predict the
    next character, because every position attends to that character.
    """

    config: GPTConfig
    blocks: Stack
    cos_sin: Tensor  # (2, block_size, hs); exists only with rotary positions

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
        is_input = config.ngrams == "input"
        self.ngrams = NgramMemory(V, config.ngram_orders, is_input=is_input) if config.counts else None
        if self.ngrams:
            self.experts = ProductOfExperts(C, self.ngrams.n_features, len(config.ngram_orders))
        if is_input:
            self.ngram_embedding = nn.Linear(V, C, bias=False)  # embeds a distribution over the vocabulary
            nn.init.normal_(self.ngram_embedding.weight, std=0.02)

    def hidden_layers(self) -> list[HiddenLayers]:
        """Return the linear layers of all blocks, as one `HiddenLayers` for each name in `Block.HIDDEN`."""
        return [HiddenLayers([block.get_submodule(name) for block in self.blocks], n) for name, n in Block.HIDDEN]

    def new_cache(self) -> KVCache:
        """Return an empty KV cache for at most `block_size` positions."""
        return self.blocks.new_cache(self.block_size)

    def count(self, train: Ids, stored: Path | None = None) -> None:
        """Fill the n-gram memory with the counts of the training split `train`. Without an n-gram memory, do nothing.

        `LanguageModel.count` explains the arguments.
        """
        if self.ngrams:
            self.ngrams.count(train, stored)

    def without_ngrams(self) -> Self:
        """Return a GPT that shares the weights of this GPT but has no n-gram memory."""
        network = copy.copy(self)
        network._modules = self._modules.copy()  # otherwise replacing the blocks in one model would replace both
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
        """Return the (B, T, V) logits of the next id for B windows of T `ids` and a vocabulary of V ids.

        `LanguageModel` explains `before`, `following` and `wanted`. With `wanted`, the logits are (n, V) for n
        positions.

        If the cache is not empty, `ids` continue the cached text. `before` must then contain the cached ids if the GPT
        has n-grams. The cached positions and `ids` together must not exceed `block_size`.
        """
        if self.ngrams is None:
            return self.lm_head(self.encode(ids, cache=cache, wanted=wanted))
        counted = self.ngrams.lookup(ids, before, following, wanted)
        hidden = self.encode(ids, added=self._embed_ngrams(counted), cache=cache, wanted=wanted)  # (B, T, C) or (n, C)
        return self.experts(hidden, self.lm_head(hidden), counted)

    def examples(
        self,
        ids: Tensor,
        targets: Tensor,
        before: Tensor | None = None,
        numbers: Tensor | None = None,
        batch_size: int = 0,
    ) -> Examples:
        """Look up the n-gram predictions for windows of the training split.

        `LanguageModel.examples` explains the arguments. A fraction `ngram_dropout` of the windows gets no n-gram
        predictions, so that they train the network alone. In the result, these windows come last. They are chosen at
        equal distances in the whole batch. So the choice does not depend on how the batch is divided into micro-batches
        and processes.
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
        """Return the losses of a batch. `LanguageModel.losses` explains the argument.

        With n-grams, `nats` is the mean loss of the windows that have n-gram predictions, times `ngram_weight`.
        `minimized` is the sum of `nats` and a second loss: the loss of the network alone on all windows, times the
        option `network_loss`.
        """
        if self.ngrams is None:
            return super().losses(examples)
        ids, targets, counted, weight = examples
        hidden = self.encode(ids, added=self._embed_ngrams(counted) if counted else None)  # (B, T, C)
        logits = self.lm_head(hidden).float()  # (B, T, V)
        network = F.cross_entropy(logits.flatten(0, 1), targets.flatten())
        if counted is None:  # a loss of 0 gives all parameters a gradient, as in the processes that have n-grams
            unused = [*self.experts.parameters(), *([self.ngram_embedding.weight] if self.ngrams.is_input else [])]
            full = 0.0 * sum(parameter.sum() for parameter in unused)
            return Losses(full, full + self.config.network_loss * network)
        n = len(counted.probabilities)
        full = F.cross_entropy(self.experts(hidden[:n], logits[:n], counted).flatten(0, 1), targets[:n].flatten())
        full = weight * full
        return Losses(full, full + self.config.network_loss * network)

    def encode(
        self,
        ids: Tensor,
        *,
        added: Tensor | None = None,
        cache: KVCache | None = None,
        wanted: Tensor | None = None,
    ) -> Tensor:
        """Return the hidden states after the last block and the final norm.

        Args:
            ids: (B, T), B sequences of T ids. If the cache is not empty, they continue the cached text.
            added: (b, T, C), vectors of C channels to add to the embeddings of the first b sequences.
            cache: keys and values of the positions before `ids`. The keys and values of `ids` are appended.
            wanted: (B, T), True at the n positions to return. By default, all positions are returned.

        Returns:
            (B, T, C), or (n, C) with `wanted`.
        """
        x, cos_sin = self.embed(ids, cache.length if cache else 0, added)
        return self.ln_f(self.blocks(x, cos_sin=cos_sin, cache=cache, wanted=wanted))

    def embed(self, ids: Tensor, start: int, added: Tensor | None = None) -> tuple[Tensor, Tensor | None]:
        """Return the input of the first block, and the cosines and sines for rotary positions.

        Args:
            ids: (B, T), B sequences of T ids.
            start: number of the first position, which is 0 unless earlier positions are cached.
            added: (b, T, C), vectors of C channels to add to the embeddings of the first b sequences.

        Returns:
            The embeddings, (B, T, C), and the cosines and sines for `rotate`, (2, T, hs) with hs channels per head. The
            cosines and sines are None if the model does not use rotary positions.

        Raises:
            ValueError: the last position exceeds `block_size`.
        """
        stop = start + ids.shape[1]
        if stop > self.block_size:
            raise ValueError(
                f"The input and the KV cache together have {stop} positions, but `block_size` is {self.block_size}."
            )
        x = self.wte(ids)  # (B, T, C)
        if added is not None:
            x = torch.cat([x[: len(added)] + added, x[len(added) :]])
        if self.config.positions == "learned":
            x = x + self.wpe(torch.arange(start, stop, device=ids.device))  # (B, T, C) + (T, C)
        return self.dropout(x), self.cos_sin[:, start:stop] if self.config.positions == "rotary" else None

    def _embed_ngrams(self, counted: NgramFeatures) -> Tensor | None:
        """Return (B, T, C) embeddings of the n-gram predictions, or None if they are not an input of the network."""
        return None if counted.longest is None else self.ngram_embedding(counted.longest)


def _initialize(module: nn.Module) -> None:
    if isinstance(module, nn.Linear | nn.Embedding):
        nn.init.normal_(module.weight, std=0.02)
    if isinstance(module, nn.Linear) and module.bias is not None:
        nn.init.zeros_(module.bias)


KIND = ModelKind(GPTConfig, GPT)
