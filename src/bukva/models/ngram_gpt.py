"""GPTs that use n-grams of the training split, only in training or also in predictions (bukva.models.ngram_memory)."""

import copy
import dataclasses

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from bukva.models.attention import KVCache
from bukva.models.gpt import GPT, GPTConfig
from bukva.models.ngram_memory import NgramFeatures, NgramMemory, ProductOfExperts

NETWORK_LOSS = 0.5  # factor of the network's own loss in training
TEACHER_WEIGHT = 0.3  # of the n-grams in the targets of a `TaughtGPT`


class TaughtGPT(GPT):
    """A plain GPT whose targets in training are a mean of the next character and of the prediction of n-grams.

    In a short text, most contexts occur once, so the next character says little about its probability. The n-grams also
    know what follows similar contexts. They are a teacher as in Hinton et al. 2015, "Distilling the Knowledge in a
    Neural Network", and smooth the targets as the noise of Xie et al. 2017 does.
    """

    def __init__(self, config: GPTConfig) -> None:
        super().__init__(config)
        self.teacher = NgramMemory(config.vocab_size, [max(config.ngram_orders)])

    def loss(self, ids: Tensor, targets: Tensor, *ngrams: Tensor) -> Tensor:
        """Return the mean loss of the next characters, with the gradient of the loss of the mixed targets."""
        log_p = F.log_softmax(self(ids).flatten(0, 1).float(), dim=-1)  # (B T, V)
        loss = F.nll_loss(log_p, targets.flatten())
        taught = -(ngrams[0][:, :, -1].flatten(0, 1) * log_p).sum(dim=-1).mean()
        mixed = torch.lerp(loss, taught, TEACHER_WEIGHT)
        return loss.detach() + mixed - mixed.detach()


class NgramGPT(GPT):
    """A GPT with an n-gram memory. The rest of it is called the network."""

    ngrams: NgramMemory

    def __init__(self, config: GPTConfig) -> None:
        super().__init__(config)
        V, C, is_input = config.vocab_size, config.n_embd, config.ngrams == "input"
        self.ngrams = NgramMemory(V, config.ngram_orders, is_input=is_input)
        self.experts = ProductOfExperts(C, self.ngrams.n_features, len(config.ngram_orders))
        if is_input:
            self.ngram_embedding = nn.Linear(V, C, bias=False)  # embeds a distribution over the vocabulary
            nn.init.normal_(self.ngram_embedding.weight, std=0.02)

    def forward(
        self,
        ids: Tensor,
        cache: KVCache | None = None,
        before: Tensor | None = None,
        following: Tensor | None = None,
        wanted: Tensor | None = None,
    ) -> Tensor:
        """Return the logits as `GPT.forward` does. If the cache is not empty, `before` must contain the cached ids."""
        counted = self.ngrams.lookup(ids, before, following, wanted)
        added = None if counted.longest is None else self.ngram_embedding(counted.longest)  # (B, T, C)
        hidden = self.encode(ids, added, cache, wanted)  # (B, T, C) or (n, C)
        return self.experts(hidden, self.lm_head(hidden), counted)

    def loss(self, ids: Tensor, targets: Tensor, *ngrams: Tensor) -> Tensor:
        """Return the mean loss of the windows that have n-gram predictions. `ngrams` come from `NgramMemory.inputs`.

        Its gradient also contains that of a second loss: of the network alone on all windows, times NETWORK_LOSS.
        """
        probabilities, features, weights = ngrams
        added = None
        if self.ngrams.is_input:
            added = self.ngram_embedding(probabilities[:, :, -1]) * (weights > 0)[:, None, None]
        hidden = self.encode(ids, added)  # (B, T, C)
        logits, targets = self.lm_head(hidden).float(), targets.flatten()  # (B, T, V), (B T,)
        network = F.cross_entropy(logits.flatten(0, 1), targets)
        together = self.experts(hidden, logits, NgramFeatures(probabilities, features)).flatten(0, 1)
        nats = F.cross_entropy(together, targets, reduction="none").view(ids.shape)  # (B, T)
        loss = (nats * weights[:, None]).mean()
        return loss + NETWORK_LOSS * (network - network.detach())  # adds 0 to the loss, and adds to its gradient

    def without_ngrams(self) -> GPT:
        """Return a plain GPT that shares the weights of the network."""
        network: GPT = copy.copy(self)
        network.__class__, network.config = GPT, dataclasses.replace(self.config, ngrams="none")
        of_ngrams = ("experts", "ngram_embedding")
        network._modules = {name: module for name, module in self._modules.items() if name not in of_ngrams}
        del network.ngrams
        return network
