"""Interpolated modified Kneser-Ney models of all orders, computed from the counts of n-grams.

The smoothing is equation 25 of Chen & Goodman, "An empirical study of smoothing techniques for language modeling"
(TR-10-98, 1998). The order of a model is the length of its n-grams. A discount is subtracted from the count of every
n-gram, and the model of the next lower order distributes what this frees in each context. Below order 1, all V ids are
equally likely. The longest n-grams use their counts in the training split, and shorter n-grams the number of different
ids before them, called the continuation count. As in KenLM, the start of the text counts as such an id.

Predictions can be leave-one-out (Ney, Essen & Kneser 1994, "On structuring probabilistic dependences in stochastic
language modelling"). A GPT uses the counts to predict the training split, but they contain the answers. So the
occurrence to predict is removed from the counts. This lowers by 1 the count of the n-gram of each length that ends with
the predicted id, and its continuation count if no other occurrence of it has the same id before it. So a window needs
the K - 2 ids before it, where K is the greatest order. The discounts do not change.
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
    """Result of `KneserNey.lookup` for R orders, of which K is the greatest. With `wanted`, n replaces B, T."""

    probabilities: npt.NDArray[np.float32]  # (B, T, R, V), probabilities of the next id under each order
    # (B, T, 2, K), for the context of each length below K: how often an id follows it in the training split, and how
    # many different ids follow it; 0 if it does not occur, or would begin before the window
    seen: npt.NDArray[np.float32]
    longest: npt.NDArray[np.float32]  # (B, T, V), probabilities under order K everywhere; (B, 0, V) unless requested


class KneserNey:
    """Kneser-Ney models of all orders up to `max_order`."""

    def __init__(self, vocab_size: int, max_order: int, trie: Trie, smoothing: Smoothing) -> None:
        self.vocab_size, self.max_order, self.trie, self.smoothing = vocab_size, max_order, trie, smoothing

    @classmethod
    def count(cls, train: Ids, vocab_size: int, max_order: int) -> "KneserNey":
        """Count the n-grams of the (N,) ids `train` (see `count_ngrams`)."""
        trie = count_ngrams(train, vocab_size, max_order)
        by_count, by_continuation = (Smoothed.of(counts, trie) for counts in (trie.counts, trie.continuations))
        return cls(vocab_size, max_order, trie, Smoothing(by_count, by_continuation))

    def nats_by_order(self, ids: Ids, orders: Iterable[int]) -> dict[int, Floats]:
        """Return the (N,) losses in nats of (N,) `ids` under each order. One call is faster than one for each order.

        The model of order K predicts each id from the K - 1 ids before it. The first ids of a text have shorter
        contexts and are predicted from continuation counts.
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
        """Predict the id after each of the last `n_positions` positions of windows, under ascending orders.

        The windows, (B, S), have NO_ID before the start of the text. With `leave_out`, they are from the training
        split, (B, S + 1), and the last id is only the answer for the last position. `wanted`, (B, n_positions), is True
        at the positions to look up. With `longest`, `LookupResult.longest` has all positions, `wanted` or not.
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
