"""Compute interpolated modified Kneser-Ney models of all orders from the counts of n-grams.

The smoothing is equation 25 of Chen & Goodman, "An empirical study of smoothing techniques for language modeling"
(TR-10-98, 1998). The order of a model is the length of its n-grams. A discount is subtracted from the count of every
n-gram. This frees some probability in each context. The model of the next lower order, whose context is one id shorter,
distributes the freed probability. Below order 1, all V ids are equally likely. Each order has three discounts, for
counts of 1, 2 and at least 3.

The longest n-grams use their counts in the training split. Shorter n-grams use continuation counts. The continuation
count of an n-gram is the number of different ids before it. As in KenLM, the start of the text counts as an id before
the first id.

Predictions can be leave-one-out. To learn how reliable the counts are, a GPT uses the counts to predict the training
split. But the counts of this split contain the answers. With `leave_out`, the occurrence to predict is therefore
removed from the counts. This lowers the count of the n-gram of each length that ends with the predicted id by 1. The
continuation count of a shorter n-gram is also lowered by 1, if no other occurrence of it has the same id before it. To
know the ids before, a window of the training split needs the K - 2 ids before it, where K is the greatest order. Near
the start of the split, it needs all ids before it. The discounts do not change. Source: Ney, Essen & Kneser 1994, "On
structuring probabilistic dependences in stochastic language modelling" (leaving-one-out).
"""

from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from bukva.models.ngrams.lookup import lookup_into, probabilities_of
from bukva.models.ngrams.smoothing import Floats, Smoothed, Smoothing
from bukva.models.ngrams.trie import Ints, Trie, count_ngrams
from bukva.text.ids import Ids


class LookupResult(NamedTuple):
    """Result of `KneserNey.lookup` for T positions of B windows, R orders, and a vocabulary of V ids.

    K is the greatest order. With `wanted`, n positions were looked up, and n replaces B and T in the first two shapes.

    probabilities: (B, T, R, V) float32, probabilities of the next id under each order.
    seen: (B, T, 2, K) float32, two counts for the context of each length from 0 to K - 1. The first count is how often
        an id follows the context in the training split. The second is how many different ids follow it. Both are 0 if
        the context does not occur there, or if it would begin before the window.
    longest: (B, T, V) float32, probabilities of the next id under order K at all positions; (B, 0, V) unless requested.
    """

    probabilities: npt.NDArray[np.float32]
    seen: npt.NDArray[np.float32]
    longest: npt.NDArray[np.float32]


class KneserNey:
    """Kneser-Ney models of all orders up to `max_order`. The order of a model is the length of its n-grams."""

    def __init__(self, vocab_size: int, max_order: int, trie: Trie, smoothing: Smoothing) -> None:
        self.vocab_size, self.max_order, self.trie, self.smoothing = vocab_size, max_order, trie, smoothing

    @classmethod
    def count(cls, train: Ids, vocab_size: int, max_order: int) -> "KneserNey":
        """Count the n-grams of the (N,) ids `train`, and return the models.

        Raises:
            BukvaError: the text has more ids, or more different n-grams, than an int32 can number.
        """
        trie = count_ngrams(train, vocab_size, max_order)
        by_count, by_continuation = (Smoothed.of(counts, trie) for counts in (trie.counts, trie.continuations))
        return cls(vocab_size, max_order, trie, Smoothing(by_count, by_continuation))

    def nats(self, ids: Ids, order: int) -> Floats:
        """Return the (N,) losses in nats of (N,) `ids` under the model of one order (see `nats_by_order`)."""
        return self.nats_by_order(ids, [order])[order]

    def nats_by_order(self, ids: Ids, orders: Iterable[int]) -> dict[int, Floats]:
        """Return the losses in nats of `ids` under the models of several orders, as a dict with the orders as keys.

        The values are (N,) losses for (N,) `ids`. The model of order K predicts each id from the K - 1 ids before it.
        The first ids of a text have shorter contexts and are predicted from continuation counts. One call for several
        orders is faster than one call for each order.
        """
        wanted = sorted(set(orders))
        probabilities = probabilities_of(
            np.asarray(ids, np.int64), np.array(wanted), self.vocab_size, self.trie, self.smoothing
        )
        return dict(zip(wanted, -np.log(probabilities), strict=True))

    def lookup(
        self,
        ids: Ints,
        orders: Sequence[int],
        n_positions: int,
        *,
        leave_out: bool = False,
        wanted: npt.NDArray[np.bool_] | None = None,
        longest: bool = False,
        n_threads: int = 1,
    ) -> LookupResult:
        """Predict the id after each of the last `n_positions` positions of each window.

        Args:
            ids: (B, S), B windows of S ids, with NO_ID at positions before the start of the text. With `leave_out`, the
                shape is (B, S + 1). The last id is then only the answer for the last position.
            orders: orders of the models, ascending.
            n_positions: number of positions to look up at the end of each window; at most S.
            leave_out: whether to remove the id after each position from the counts before it is predicted
                (leave-one-out). The windows must then be from the training split.
            wanted: (B, n_positions), True at the positions to look up. By default, all positions are looked up.
            longest: whether to also return the probabilities under the greatest order at every position, even where
                `wanted` is False.
            n_threads: maximum number of threads. Each thread looks up some of the windows.
        """
        ids, shape, V = np.ascontiguousarray(ids, np.int64), (len(ids), n_positions), self.vocab_size
        is_wanted = np.ones(shape, np.bool_) if wanted is None else wanted
        rows = np.where(is_wanted, is_wanted.cumsum().reshape(shape) - 1, -1)
        n = int(is_wanted.sum())
        probabilities: npt.NDArray[np.float32] = np.empty((n, len(orders), V), np.float32)
        seen: npt.NDArray[np.float32] = np.zeros((n, 2, orders[-1]), np.float32)
        last_order = np.empty((len(ids), n_positions if longest else 0, V), np.float32)

        def fill(part: slice) -> None:
            counts, outputs = (self.trie, self.smoothing), (probabilities, seen, last_order[part])
            lookup_into(ids[part], np.asarray(orders), leave_out, *counts, rows[part], *outputs)

        size = max(1, -(-len(ids) // n_threads))
        parts = [slice(first, first + size) for first in range(0, len(ids), size)]
        if len(parts) < 2:
            fill(slice(None))
        else:
            with ThreadPoolExecutor(len(parts)) as threads:  # compiled loops release the GIL
                list(threads.map(fill, parts))
        if wanted is None:
            probabilities, seen = (array.reshape(*shape, *array.shape[1:]) for array in (probabilities, seen))
        return LookupResult(probabilities, seen, last_order)
