"""The n-gram memory of a GPT: n-gram counts of the training split, whose predictions improve those of the GPT.

A GPT without n-grams spends most of its training on regularities that counting finds in one pass. So the n-gram memory
counts the n-grams of the training split (bukva.models.ngrams), and the rest of the GPT, called the network, learns what
remains. The prediction of the whole GPT is a product of experts (Hinton 2002). One expert is the network. Each other
expert predicts from n-grams of one length, called the order. The logarithm of the prediction is a weighted sum of the
logarithms of the experts' predictions:

    log p(x) = a log p_network(x) + sum_r b_r log p_r(x) - log Z

Here p_r is the prediction of the n-grams of order r, and Z makes the probabilities sum to 1. The weights a and b_r are
called exponents. The network computes them at each position.

Before training, a is 1, b_r is 1 for the greatest order, and b_r is 0 for the other orders. The network's prediction is
then nearly uniform, so the untrained model is as good as counting. With `ngrams="input"`, the counts are also an input
of the network: at each position, the prediction of the greatest order is embedded and added to the embedding of the id.

Letters in shapes are explained in bukva.models.attention. In addition, V is the vocab_size, R the number of orders, and
K the greatest order. Related: Neubig & Dyer 2016, "Generalizing and hybridizing count-based and neural language models"
(a linear mixture); Grave et al. 2017 (a cache). The hashed n-gram embeddings of modded-nanogpt and of DeepSeek's Engram
(2026) learn an approximation of such counts. Here, the counts are exact.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple, Self

import torch
from torch import Tensor, nn

from bukva.models.ngrams.kneser_ney import KneserNey
from bukva.models.ngrams.stored import counts_of
from bukva.text.ids import Ids

MIN_PROBABILITY = 1e-30  # lower bound of probabilities, because their logarithms must be finite in float32
ALONE = 4  # every fourth window of a batch trains the network without n-grams, so that it can also predict alone


class NgramFeatures(NamedTuple):
    """N-gram predictions at T positions of B windows, on the device of the ids.

    If only n positions were looked up, `probabilities` and `features` have the dimension n instead of B and T.

    probabilities: (B, T, R, V), probability of each of V ids to be the next one, under the n-grams of each of R orders.
    features: (B, T, 2 K), inputs of the layer that computes the exponents, where K is the greatest order. There are two
        numbers log(1 + c) for the context of each length below K. One c counts how often the context is followed by an
        id in the training split. The other c counts the different ids that follow it.
    longest: (B, T, V), probabilities under the greatest order at all positions, which are an input of the network. None
        if the network does not have this input.
    """

    probabilities: Tensor
    features: Tensor
    longest: Tensor | None = None


class NgramMemory:
    """N-gram counts of the training split, and lookup of their predictions.

    Checkpoints do not contain the counts, because the text can be counted again.

    Args:
        vocab_size: number of different ids.
        orders: lengths of the n-grams to predict from. The n-grams of each length are one expert.
        is_input: whether the predictions of the greatest order are also an input of the network.
    """

    def __init__(self, vocab_size: int, orders: Sequence[int], *, is_input: bool = False) -> None:
        self.vocab_size, self.orders, self.is_input = vocab_size, sorted(orders), is_input
        self.train: Ids | None = None
        self._counts: KneserNey | None = None

    def __deepcopy__(self, _: object) -> Self:
        """Return this object instead of a copy, because the counts are large and never change."""
        return self

    @property
    def n_before(self) -> int:
        """Number of ids before a window that the longest n-grams use as context.

        N-grams of order K predict an id from the K - 1 ids before it. For the first prediction in a window, one of
        these ids is the first id of the window. The other K - 2 ids are before the window.
        """
        return max(0, self.orders[-1] - 2)

    @property
    def n_features(self) -> int:
        """Number of features at each position: two for each length of a context (see `NgramFeatures`)."""
        return 2 * self.orders[-1]

    def count(self, train: Ids, stored: Path | None = None) -> None:
        """Count the n-grams of the training split, or memory-map saved counts.

        Args:
            train: (N,), the ids of the training split.
            stored: folder of saved counts, which are used if they are the counts of `train` (see `counts_of`).
        """
        self.train, self._counts = train, counts_of(train, self.vocab_size, self.orders[-1], stored)

    def inputs(self, windows: Tensor, numbers: Tensor, batch_size: int) -> tuple[Tensor, Tensor, Tensor]:
        """Return the n-gram predictions that `NgramGPT.loss` needs for b windows of the training split.

        Args:
            windows: (b, n_before + T + 1), each window with the ids before it and the id after it.
            numbers: (b,), index of each window in its whole batch. The windows without n-grams are chosen by it, so the
                choice does not depend on how the batch is divided into micro-batches and processes.
            batch_size: number of windows in the whole batch.

        Returns:
            `NgramFeatures.probabilities`, `NgramFeatures.features`, and (b,) weights of the losses of the windows. The
            weight of a window without n-grams is 0. In the whole batch, the mean weight is 1.
        """
        n = self.n_before
        counted = self.lookup(windows[:, n:-1], windows[:, :n], windows[:, -1])
        weights = (numbers % ALONE < ALONE - 1) * (batch_size / (batch_size - batch_size // ALONE))
        return counted.probabilities, counted.features, weights

    def lookup(
        self,
        ids: Tensor,
        before: Tensor | None = None,
        following: Tensor | None = None,
        wanted: Tensor | None = None,
    ) -> NgramFeatures:
        """Return the n-gram predictions of the id after each position.

        Args:
            ids: (B, T), B windows of T ids.
            before: (B, M), the M ids before each window. They are context for its first positions.
            following: (B,), the id after each window. Pass it only for windows of the training split. Each id is then
                predicted as if this occurrence had not been counted (leave-one-out).
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
    """A layer that combines the predictions of the network and of the n-grams of each order in a product of experts.

    It computes the weight of each expert, called the exponent (see the top of this module).
    """

    def __init__(self, n_embd: int, n_features: int, n_orders: int) -> None:
        super().__init__()
        self.weights = nn.Linear(n_embd + n_features, n_orders + 1)
        nn.init.zeros_(self.weights.weight)
        nn.init.zeros_(self.weights.bias)
        with torch.no_grad():
            self.weights.bias[-2:] = 1  # the greatest order and the network

    def forward(self, hidden: Tensor, logits: Tensor, counted: NgramFeatures) -> Tensor:
        """Return the (B, T, V) logits of the product of experts, for batch, positions and ids of the vocabulary.

        If the arguments contain only n selected positions, all shapes start with n instead of B, T.

        Args:
            hidden: (B, T, C), hidden states of the network, with C channels.
            logits: (B, T, V), logits of the network.
            counted: n-gram predictions at the same positions.
        """
        with torch.autocast(hidden.device.type, enabled=False):  # bf16 would round the exponents to two digits
            exponents = self.exponents(hidden, counted)[..., None]  # (B, T, R + 1, 1)
            network = logits.float().log_softmax(-1)[..., None, :]  # (B, T, 1, V)
            ngrams = counted.probabilities.clamp_min(MIN_PROBABILITY).log()  # (B, T, R, V)
            return (exponents * torch.cat([ngrams, network], dim=-2)).sum(-2)

    def exponents(self, hidden: Tensor, counted: NgramFeatures) -> Tensor:
        """Return the exponents, which are the weights of the experts in the product.

        They are (B, T, R + 1) for the n-grams of R orders and for the network, which is the last expert. They are
        computed from the hidden states of the network, (B, T, C) with batch, positions and channels, and from the
        features of the n-grams.
        """
        return self.weights(torch.cat([hidden.float(), counted.features], dim=-1))
