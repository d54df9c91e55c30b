"""The n-gram memory of a GPT predicts from counts. The GPT mixes these predictions with its network's predictions.

A network spends most of its training on regularities that counting finds in one pass. So the memory counts the n-grams
of the training split (bukva.models.ngrams), and the network learns the rest. The prediction is a product of experts
(Hinton 2002). One expert is the network. The others predict from the n-grams of one length each; this length is their
order. At each position, the network chooses the exponents: a for itself, and b_r for the n-grams of order r.

    log p(x) = a log p_network(x) + sum_r b_r log p_r(x) - log Z

Before training, a is 1, b_r is 1 for the greatest order and 0 for all others, and the network's prediction is nearly
uniform. So the untrained model is as good as counting. With `ngrams="input"`, the counts are also an input of the
network: at each position, the prediction of the greatest order is embedded and added to the embedding of the character.

Letters in shapes are explained in bukva.models.attention. In addition, V is the vocab_size, R the number of orders, and
K the greatest order. Related: Neubig & Dyer 2016, "Generalizing and hybridizing count-based and neural language models"
(a linear mixture); Grave et al. 2017 (a cache). The hashed n-gram embeddings of modded-nanogpt and of DeepSeek's Engram
(2026) learn approximately the counts that are exact here.
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

    probabilities: (B, T, R, V), probabilities of the next id under the n-grams of each order. If only n positions were
        looked up, the shape is (n, R, V).
    features: (B, T, F), or (n, F). Contains log(1 + c) of two counts c for the context of each length from 0 to K - 1:
        how often it occurs in the training split, and how many different ids follow it there.
    longest: (B, T, V), probabilities under the greatest order at all positions, which are an input of the network.
        None if the network does not have this input.
    """

    probabilities: Tensor
    features: Tensor
    longest: Tensor | None = None

    def map(self, function: Callable[[Tensor], Tensor]) -> "NgramFeatures":
        """Return a copy in which each tensor is replaced by the result of `function`."""
        longest = None if self.longest is None else function(self.longest)
        return NgramFeatures(function(self.probabilities), function(self.features), longest)

    def tensors(self) -> list[Tensor]:
        """Return `probabilities`, `features` and, unless it is None, `longest`."""
        return [self.probabilities, self.features, *(() if self.longest is None else (self.longest,))]


class NgramMemory:
    """N-gram counts of the training split. Checkpoints do not contain them, because the text can be counted again.

    Args:
        vocab_size: number of different ids.
        orders: lengths of the n-grams that are experts.
        is_input: whether the probabilities under the greatest order are also an input of the network.
    """

    def __init__(self, vocab_size: int, orders: Sequence[int], *, is_input: bool = False) -> None:
        self.vocab_size, self.orders, self.is_input = vocab_size, sorted(orders), is_input
        self.train: Ids | None = None
        self._counts: KneserNey | None = None

    def __deepcopy__(self, _: object) -> Self:
        """Return this object instead of a copy, because the counts are large and never change."""
        return self

    @property
    def n_features(self) -> int:
        """Number of features at each position, F = 2 K."""
        return 2 * self.orders[-1]

    def count(self, train: Ids, stored: Path | None = None) -> None:
        """Count the n-grams of the (N,) ids `train`, or memory-map their counts (see `counts_of`)."""
        self.train, self._counts = train, counts_of(train, self.vocab_size, self.orders[-1], stored)

    def lookup(
        self,
        ids: Tensor,
        before: Tensor | None = None,
        following: Tensor | None = None,
        wanted: Tensor | None = None,
    ) -> NgramFeatures:
        """Predict the id after each position of the windows `ids`.

        Args:
            ids: (B, T), the windows.
            before: (B, n), the ids before each window, as more context for its first positions.
            following: (B,), the id after each window. It is given only for windows of the training split. Each id is
                then predicted as if this occurrence had not been counted (leave-one-out).
            wanted: (B, T), True at the positions to look up. By default, all positions are looked up.

        Raises:
            ValueError: `count` was not called before.
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
    """A layer that mixes the predictions of the experts: of the network, and of the n-grams of each order."""

    def __init__(self, n_embd: int, n_features: int, n_orders: int) -> None:
        super().__init__()
        self.weights = nn.Linear(n_embd + n_features, n_orders + 1)
        nn.init.zeros_(self.weights.weight)
        nn.init.zeros_(self.weights.bias)
        with torch.no_grad():
            self.weights.bias[-2:] = 1  # the longest order and the network

    def forward(self, hidden: Tensor, logits: Tensor, counted: NgramFeatures) -> Tensor:
        """Return the (B, T, V) logits of the product of experts. All shapes may have (n,) instead of (B, T).

        Args:
            hidden: (B, T, C), hidden states of the network.
            logits: (B, T, V), logits of the network.
            counted: n-gram predictions at the same positions.
        """
        with torch.autocast(hidden.device.type, enabled=False):  # bf16 would round the exponents to two digits
            exponents = self.exponents(hidden, counted)[..., None]  # (B, T, R + 1, 1)
            network = logits.float().log_softmax(-1)[..., None, :]  # (B, T, 1, V)
            ngrams = counted.probabilities.clamp_min(MIN_PROBABILITY).log()  # (B, T, R, V)
            return (exponents * torch.cat([ngrams, network], dim=-2)).sum(-2)

    def exponents(self, hidden: Tensor, counted: NgramFeatures) -> Tensor:
        """Return the (B, T, R + 1) exponents of the experts for (B, T, C) `hidden`. The network is the last expert."""
        return self.weights(torch.cat([hidden.float(), counted.features], dim=-1))
