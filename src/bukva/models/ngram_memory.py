"""The n-gram memory of a GPT: n-gram counts of the training split, whose predictions improve those of the GPT.

A GPT without n-grams spends most of its training on regularities that counting finds in one pass. So they are counted
(bukva.models.ngrams), and the rest of the GPT, called the network, learns what remains. The whole GPT is a product of
experts (Hinton 2002): the network, and the n-grams of each length, called the order. The logarithm of its prediction is
a weighted sum of the logarithms of theirs:

    log p(x) = a log p_network(x) + sum_r b_r log p_r(x) - log Z

Z makes the probabilities sum to 1. The weights a and b_r are called exponents. The network computes them at each
position. Before training, a is 1, b_r is 1 for the greatest order, and b_r is 0 for the other orders. The network's
prediction is then nearly uniform, so the untrained model is as good as counting.

In shapes, V is the vocab_size, R the number of orders, and K the greatest order. Related: Neubig & Dyer 2016,
"Generalizing and hybridizing count-based and neural language models" (a linear mixture); Grave et al. 2017 (a cache).
"""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Self

import torch
from torch import Tensor, nn

from bukva.text.ids import Ids

if TYPE_CHECKING:
    from bukva.models.ngrams.kneser_ney import KneserNey

MIN_PROBABILITY = 1e-30  # lower bound of probabilities, because their logarithms must be finite in float32
WITHOUT_EVERY = 4  # every fourth window of a batch trains the network without n-grams, so that it can predict alone


class NgramFeatures(NamedTuple):
    """N-gram predictions at T positions of B windows, or at n positions, on the device of the ids."""

    # (B, T, R, V) or (n, R, V), probability of each id to be the next one under each order
    probabilities: Tensor
    # (B, T, 2 K) or (n, 2 K), log(1 + c) for two counts c of the context of each length below K: how often an id
    # follows the context in the training split, and how many different ids follow it
    features: Tensor
    # (B, T, V), probabilities under the greatest order at all positions; None if they are not an input of the network
    longest: Tensor | None = None


class NgramMemory:
    """N-gram counts of the training split, which checkpoints do not contain, because it can be counted again.

    With `is_input`, the predictions of the greatest order are also an input of the network.
    """

    def __init__(self, vocab_size: int, orders: Sequence[int], *, is_input: bool = False) -> None:
        self.vocab_size, self.orders, self.is_input = vocab_size, sorted(orders), is_input
        self._counts: KneserNey | None = None

    def __deepcopy__(self, _: object) -> Self:
        return self  # the counts are large and never change

    @property
    def n_before(self) -> int:
        """Number of ids before a window that the longest n-grams use, in addition to the first id of the window."""
        return max(0, self.orders[-1] - 2)

    @property
    def n_features(self) -> int:
        """Number of features at each position (see `NgramFeatures`)."""
        return 2 * self.orders[-1]

    def count(self, train: Ids, stored: Path | None = None) -> None:
        """Count the n-grams of the (N,) ids of the training split, or memory-map their counts (see `counts_of`)."""
        from bukva.models.ngrams.stored import counts_of  # imports numba, which a model without n-grams does not need

        self._counts = counts_of(train, self.vocab_size, self.orders[-1], stored)

    def inputs(self, windows: Tensor, numbers: Tensor, batch_size: int) -> tuple[Tensor, Tensor, Tensor]:
        """Return probabilities and features for windows of the training split, and weights of their losses, (b,).

        The windows, (b, n_before + T + 1), include the ids before each window and the id after it. `numbers`, (b,), are
        their indices in a whole batch of `batch_size` windows. They decide which windows have no n-grams, so the choice
        does not depend on how the batch is divided. Such a window has the weight 0. The mean weight of the batch is 1.
        """
        n = self.n_before
        counted = self.lookup(windows[:, n:-1], windows[:, :n], windows[:, -1])
        has_ngrams = numbers % WITHOUT_EVERY < WITHOUT_EVERY - 1
        n_with = batch_size - batch_size // WITHOUT_EVERY
        return counted.probabilities, counted.features, has_ngrams * (batch_size / n_with)

    def lookup(
        self,
        ids: Tensor,
        before: Tensor | None = None,
        following: Tensor | None = None,
        wanted: Tensor | None = None,
    ) -> NgramFeatures:
        """Return the n-gram predictions of the id after each position. `LanguageModel` explains the arguments."""
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
    """A layer that combines the predictions of the network and of the n-grams of each order in a product of experts."""

    def __init__(self, n_embd: int, n_features: int, n_orders: int) -> None:
        super().__init__()
        self.weights = nn.Linear(n_embd + n_features, n_orders + 1)
        nn.init.zeros_(self.weights.weight)
        nn.init.zeros_(self.weights.bias)
        with torch.no_grad():
            self.weights.bias[-2:] = 1  # the greatest order and the network

    def forward(self, hidden: Tensor, logits: Tensor, counted: NgramFeatures) -> Tensor:
        """Return the (B, T, V) logits of the product. With n selected positions, all shapes start with n."""
        with torch.autocast(hidden.device.type, enabled=False):  # bf16 would round the exponents to two digits
            inputs = torch.cat([hidden.float(), counted.features], dim=-1)  # (B, T, C + 2 K)
            exponents = self.weights(inputs)[..., None]  # (B, T, R + 1, 1)
            network = logits.float().log_softmax(-1)[..., None, :]  # (B, T, 1, V)
            ngrams = counted.probabilities.clamp_min(MIN_PROBABILITY).log()  # (B, T, R, V)
            return (exponents * torch.cat([ngrams, network], dim=-2)).sum(-2)
