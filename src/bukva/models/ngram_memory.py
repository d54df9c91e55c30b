"""The n-gram memory of a GPT: predictions from counts, which are mixed with the predictions of the network.

A network spends most of its training on regularities that counting finds in one pass. So the memory counts the n-grams
of the training split (bukva.models.ngrams), and the network learns the rest. The prediction is a product of experts
(Hinton 2002). The experts are the network and the n-grams of several orders. Each one has an exponent, which the
network chooses at each position:

    log p(x) = a log p_network(x) + sum_r b_r log p_r(x) - log Z

Before training, b is 1 for the longest order, and the network's prediction is nearly uniform. So the model starts as
good as counting. The counts can also be an input of the network: the distribution of the longest order is embedded at
each position and added to the embedding of the character.

Letters are as in bukva.models.attention, and V = vocab_size, R is the number of orders, K the greatest order. Related:
Neubig & Dyer 2016, "Generalizing and hybridizing count-based and neural language models" (a linear mixture); Grave et
al. 2017 (a cache). The hashed n-gram embeddings of modded-nanogpt and of DeepSeek's Engram (2026) learn approximately
the counts that are exact here.
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

MIN_PROBABILITY = 1e-30  # lower bound of probabilities, because their logarithms must be finite in float32


@dataclass(frozen=True)
class NgramFeatures:
    """N-gram predictions at T positions of B windows, on the device of the ids.

    probabilities: (B, T, R, V), probabilities of the next id under each order.
    features: (B, T, F), log(1 + n) of two counts n for the context of each length: its occurrences in the training
        split, and the different ids that follow it there.
    longest: (B, T, V), probabilities of the longest order as an input of the network; None if they are not an input.

    For n wanted positions, the shapes of the first two are (n, R, V) and (n, F).
    """

    probabilities: Tensor
    features: Tensor
    longest: Tensor | None = None

    def map(self, function: Callable[[Tensor], Tensor]) -> "NgramFeatures":
        """Return a copy with a function applied to every tensor."""
        longest = None if self.longest is None else function(self.longest)
        return NgramFeatures(function(self.probabilities), function(self.features), longest)

    def tensors(self) -> list[Tensor]:
        """Return all tensors, in a fixed order."""
        return [self.probabilities, self.features, *(() if self.longest is None else (self.longest,))]


class NgramMemory:
    """N-gram counts of the training split. A checkpoint does not store them, because they follow from the text.

    is_input: whether the distributions of the longest order are also an input of the network.
    """

    def __init__(self, vocab_size: int, orders: Sequence[int], *, is_input: bool = False) -> None:
        self.vocab_size, self.orders, self.is_input = vocab_size, sorted(orders), is_input
        self.train: Ids | None = None
        self._counts: KneserNey | None = None

    def __deepcopy__(self, _: object) -> Self:
        """Return itself: the counts are large and never change."""
        return self

    @property
    def n_features(self) -> int:
        """Number of features of a position, F."""
        return 2 * self.orders[-1]

    def count(self, train: Ids, stored: Path | None = None) -> None:
        """Count the (N,) ids of the training split, or map their counts from the folder `stored` if it has them."""
        self.train, self._counts = train, counts_of(train, self.vocab_size, self.orders[-1], stored)

    def lookup(
        self,
        ids: Tensor,
        before: Tensor | None = None,
        following: Tensor | None = None,
        wanted: Tensor | None = None,
    ) -> NgramFeatures:
        """Return the distributions of the id after each position of windows.

        Args:
            ids: (B, T), the windows.
            before: (B, n), the ids before each window, as further context.
            following: (B,), the id after each window, for windows of the training split. The id after each position is
                then left out of the counts.
            wanted: (B, T), True at the positions to look up; all by default.

        Raises:
            ValueError: nothing was counted.
        """
        if self._counts is None:
            raise ValueError("The n-gram memory is empty. Call `count` first.")
        around = (before, ids, None if following is None else following[:, None])
        windows = torch.cat([part for part in around if part is not None], dim=1)
        arrays = self._counts.lookup(
            windows.cpu().numpy(),
            self.orders,
            ids.shape[1],
            leave_out=following is not None,
            wanted=None if wanted is None else wanted.cpu().numpy(),
            longest=self.is_input and wanted is not None,
            n_threads=torch.get_num_threads(),
        )
        probabilities, seen, longest = (torch.from_numpy(array).to(ids.device) for array in arrays)
        if wanted is None:
            longest = probabilities[:, :, -1]
        return NgramFeatures(probabilities, seen.flatten(-2).log1p_(), longest if self.is_input else None)


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
        """Return the (B, T, V) logits of the product. The leading dimensions may also be (n,).

        Args:
            hidden: (B, T, C), hidden states of the network.
            logits: (B, T, V), logits of the network.
            counted: n-gram predictions.
        """
        with torch.autocast(hidden.device.type, enabled=False):  # bf16 would round the exponents to two digits
            exponents = self.exponents(hidden, counted)[..., None]  # (B, T, R + 1, 1)
            network = logits.float().log_softmax(-1)[..., None, :]  # (B, T, 1, V)
            ngrams = counted.probabilities.clamp_min(MIN_PROBABILITY).log()  # (B, T, R, V)
            return (exponents * torch.cat([ngrams, network], dim=-2)).sum(-2)

    def exponents(self, hidden: Tensor, counted: NgramFeatures) -> Tensor:
        """Return the (B, T, R + 1) exponents of the orders and, last, of the network, from (B, T, C) hidden states."""
        return self.weights(torch.cat([hidden.float(), counted.features], dim=-1))
