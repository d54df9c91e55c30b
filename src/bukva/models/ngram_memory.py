"""The n-gram memory of a GPT: what counting knows, and how it is mixed with what the network has learned.

A network spends most of its training on learning what counting gives at once. So the memory counts train
(bukva.models.ngrams), and the network learns the rest: the prediction is a product of experts (Hinton 2002), the
network and the n-grams of several orders, each raised to a power that the network chooses at each position:

    log p(x) = a log p_network(x) + sum_r b_r log p_r(x) - log Z

Before training, b is 1 for the longest order and the network is flat, so the model starts as good as counting. The
counts may also be shown to the network: the distribution of the longest order is one more input at each position, like
the embedding of the character.

Letters as in bukva.models.attention, and V = vocab_size, R orders, K the greatest. Related: Neubig & Dyer 2016,
"Generalizing and hybridizing count-based and neural language models" (a linear mixture); Grave et al. 2017 (a cache);
the hashed n-gram embeddings of modded-nanogpt and of DeepSeek's Engram (2026) learn what is exact here.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import torch
from torch import Tensor, nn

from bukva.models.ngrams.kneser_ney import KneserNey
from bukva.models.ngrams.stored import counts_of
from bukva.text.ids import Ids

LEAST = 1e-30  # probabilities below it have no logarithm in float32


@dataclass(frozen=True)
class NgramFeatures:
    """The n-grams' predictions at T positions of B windows, on the device of the ids.

    probabilities: (B, T, R, V), of the next id under each order.
    features: (B, T, F), log(1 + n) of how often train has each context, and of how many different ids follow it.
    longest: (B, T, V), the probabilities of the longest order, to be shown to the network; None if they are not.

    Where n positions are wanted and not all, the first two are (n, R, V) and (n, F).
    """

    probabilities: Tensor
    features: Tensor
    longest: Tensor | None = None

    def map(self, function: Callable[[Tensor], Tensor]) -> "NgramFeatures":
        """Apply a function to every tensor."""
        longest = None if self.longest is None else function(self.longest)
        return NgramFeatures(function(self.probabilities), function(self.features), longest)

    def tensors(self) -> list[Tensor]:
        """All tensors, in a fixed order."""
        return [self.probabilities, self.features, *(() if self.longest is None else (self.longest,))]


class NgramMemory:
    """The counts of train; they follow from the text, so a checkpoint does not hold them.

    is_shown: the distributions of the longest order are an input, too.
    """

    def __init__(self, vocab_size: int, orders: Sequence[int], *, is_shown: bool = False) -> None:
        self.vocab_size, self.orders, self.is_shown = vocab_size, sorted(orders), is_shown
        self.train: Ids | None = None
        self._counts: KneserNey | None = None

    def __deepcopy__(self, _: object) -> Self:
        """Return itself: the counts are large and never change."""
        return self

    @property
    def n_features(self) -> int:
        """F."""
        return 2 * self.orders[-1]

    def count(self, train: Ids, stored: Path | None = None) -> None:
        """Count (N,) ids of train, or map their counts from the folder `stored` if it has them."""
        self.train, self._counts = train, counts_of(train, self.vocab_size, self.orders[-1], stored)

    def lookup(
        self,
        ids: Tensor,
        before: Tensor | None = None,
        following: Tensor | None = None,
        wanted: Tensor | None = None,
    ) -> NgramFeatures:
        """The distributions after each position of (B, T) windows, given the ids up to it, (B, n) `before` included.

        With `following`, (B,), the ids after the windows, all are of train, and what follows each position is left out
        of the counts. With `wanted`, (B, T), only the positions that are True are asked about.

        Raises:
            ValueError: nothing was counted.
        """
        if self._counts is None:
            raise ValueError("the memory is empty; count train first")
        around = (before, ids, None if following is None else following[:, None])
        windows = torch.cat([part for part in around if part is not None], dim=1)
        found = self._counts.lookup(
            windows.cpu().numpy(),
            self.orders,
            ids.shape[1],
            leave_out=following is not None,
            wanted=None if wanted is None else wanted.cpu().numpy(),
            longest=self.is_shown and wanted is not None,
            n_threads=torch.get_num_threads(),
        )
        probabilities, seen, longest = (torch.from_numpy(array).to(ids.device) for array in found)
        if wanted is None:
            longest = probabilities[:, :, -1]
        return NgramFeatures(probabilities, seen.flatten(-2).log1p_(), longest if self.is_shown else None)


class ProductOfExperts(nn.Module):
    """The product of the experts: the network and the n-grams of several orders."""

    def __init__(self, n_embd: int, n_features: int, n_orders: int) -> None:
        super().__init__()
        self.weights = nn.Linear(n_embd + n_features, n_orders + 1)
        nn.init.zeros_(self.weights.weight)
        nn.init.zeros_(self.weights.bias)
        with torch.no_grad():
            self.weights.bias[-2:] = 1  # the longest order and the network

    def forward(self, hidden: Tensor, logits: Tensor, counted: NgramFeatures) -> Tensor:
        """(B, T, C) and the logits of the network, (B, T, V) -> (B, T, V) logits of the whole; n for (B, T) will do."""
        with torch.autocast(hidden.device.type, enabled=False):  # a power in bf16 has two digits
            powers = self.powers(hidden, counted)[..., None]  # (B, T, R + 1, 1)
            network = logits.float().log_softmax(-1)[..., None, :]  # (B, T, 1, V)
            ngrams = counted.probabilities.clamp_min(LEAST).log()  # (B, T, R, V)
            return (powers * torch.cat([ngrams, network], dim=-2)).sum(-2)

    def powers(self, hidden: Tensor, counted: NgramFeatures) -> Tensor:
        """(B, T, C), what the network makes of the position -> (B, T, R + 1), of the orders and, last, the network."""
        return self.weights(torch.cat([hidden.float(), counted.features], dim=-1))
