"""The GPT: a decoder-only transformer over characters, with or without an n-gram memory.

Sources: the lecture notes; Radford et al. 2018 and 2019; Press & Wolf 2017 (tied weights); bukva.models.ngram_memory.
"""

import copy
import dataclasses
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from bukva.models.attention import Caches
from bukva.models.base import Kind, Losses
from bukva.models.ngram_memory import NgramMemory, ProductOfExperts, Recall
from bukva.models.transformer import CHOICES, Transformer, TransformerConfig
from bukva.text.ids import Ids

# none: the plain GPT; logits: the counts are mixed with its predictions; input: it sees them, too
NGRAMS = ("none", "logits", "input")


@dataclass(frozen=True)
class GPTConfig(TransformerConfig):
    """The shape of a GPT.

    tie_weights: one matrix embeds and predicts.
    ngrams: none, logits or input.
    ngram_dropout: the share of the windows of a batch that are learned without the counts.
    network_loss: the weight of the loss of the network's own predictions.
    ngram_orders: of the n-grams that are experts.
    """

    name: ClassVar[str] = "gpt"

    tie_weights: bool = False
    ngrams: str = "none"
    ngram_dropout: float = 0.0
    network_loss: float = 0.0
    ngram_orders: tuple[int, ...] = (8,)

    choices: ClassVar[Mapping[str, Collection[str]]] = {**CHOICES, "ngrams": NGRAMS}

    @property
    def counts(self) -> bool:
        """Whether it has an n-gram memory."""
        return self.ngrams != "none"

    @property
    def activations_per_char(self) -> int:
        """Numbers kept of each character for the backward pass, beside the logits; two of each expert's float32."""
        experts = 4 * self.vocab_size * len(self.ngram_orders) if self.counts else 0
        return super().activations_per_char + experts

    def __post_init__(self) -> None:
        orders: Any = self.ngram_orders
        if isinstance(orders, list):  # JSON has no tuples
            orders = tuple(orders)
            object.__setattr__(self, "ngram_orders", orders)
        super().__post_init__()
        if not orders or len(set(orders)) < len(orders):
            raise ValueError(f"ngram_orders cannot be {orders!r}")


class GPT(Transformer):
    """Characters so far in, logits of the next character out.

    causal=False removes the mask, so that every position sees its own target: bukva.interpret.leak shows the effect.
    """

    config: GPTConfig

    def __init__(self, config: GPTConfig, *, causal: bool = True) -> None:
        super().__init__(config, causal=causal)
        V, C = config.vocab_size, config.n_embd
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
            self.shown = nn.Linear(V, C, bias=False)  # embeds a distribution, as wte a character
            nn.init.normal_(self.shown.weight, std=0.02)

    def count(self, train: Ids) -> None:
        """Fill the n-gram memory, if there is one, with the counts of (N,) ids of train."""
        if self.ngrams:
            self.ngrams.count(train)

    def forward(
        self,
        ids: Tensor,
        caches: Caches | None = None,
        following: Tensor | None = None,
        wanted: Tensor | None = None,
    ) -> Tensor:
        """(B, T) ids -> (B, T, V) logits; T, and what the caches hold before it, at most block_size.

        `following`, (B,), are the ids after windows of train, and `wanted`, (B, T), the positions whose logits are
        returned, (n, V): see LanguageModel.
        """
        if self.ngrams is None:
            return self.lm_head(self.encode(ids, caches=caches, wanted=wanted))
        text = caches.with_text(ids, self.ngrams.n_context) if caches else ids
        recall = self.ngrams.recall(text, ids.shape[1], following, wanted)
        hidden = self.encode(ids, added=self._embedded(recall), caches=caches, wanted=wanted)  # (B, T, C) or (n, C)
        return self.experts(hidden, self.lm_head(hidden), recall)

    def losses(self, ids: Tensor, targets: Tensor) -> Losses:
        """Of the whole model, and of its network alone (see Losses).

        With ngram_dropout, some windows are learned by the network alone, which does not see counts. They are spread
        over the batch, so that micro-batches and processes choose as the whole batch does, if each has a multiple of
        1 / ngram_dropout windows.
        """
        if self.ngrams is None:
            return super().losses(ids, targets)
        B = len(ids)
        alone = (torch.arange(B + 1, dtype=torch.float64) * self.config.ngram_dropout).floor().diff()  # (B,), 0 or 1
        order, n = alone.argsort(stable=True), B - int(alone.sum())  # first those with counts
        ids, targets = ids[order], targets[order]
        recall = self.ngrams.recall(ids[:n], ids.shape[1], targets[:n, -1])
        hidden = self.encode(ids, added=self._embedded(recall))  # (B, T, C)
        logits = self.lm_head(hidden).float()  # (B, T, V)
        whole = F.cross_entropy(self.experts(hidden[:n], logits[:n], recall).flatten(0, 1), targets[:n].flatten())
        network = F.cross_entropy(logits.flatten(0, 1), targets.flatten())
        return Losses(whole, whole + self.config.network_loss * network)

    def alone(self) -> Self:
        """The network without its n-grams: a plain GPT, with the weights of this one."""
        network = copy.copy(self)
        network.config, network.ngrams = dataclasses.replace(self.config, ngrams="none"), None
        return network

    def _embedded(self, recall: Recall) -> Tensor | None:
        """(B, T, C), the distributions of the longest order as input; None if they are not shown."""
        return None if recall.longest is None else self.shown(recall.longest)


KIND = Kind(GPTConfig, GPT)
