"""Interpolated modified Kneser-Ney models of all orders, computed from one exact count.

Chen & Goodman, "An empirical study of smoothing techniques for language modeling" (TR-10-98, 1998), equation 25. A
discount is subtracted from the count of every n-gram. The probability that this frees in a context is distributed by
the model of the context that is one character shorter. Below order 1, all V characters are equally likely. Each order
has three discounts, for counts of 1, 2 and at least 3.

The longest n-grams use their counts in the training split. Shorter ones use continuation counts: the number of
different characters before them. As in KenLM, the start of the text counts as a character before the first one.

Leave-one-out. To learn how reliable the counts are, a model predicts the training split, where the counts contain the
answer. With `leave_out`, the id after a position is therefore removed from the counts. The n-grams of every length that
end with this id lose one occurrence. A shorter n-gram also loses one from its continuation count if no other occurrence
has the same character before it. A window of the training split needs the K - 2 ids before it, or all from the start of
the split. The discounts do not change. Source: Ney, Essen & Kneser 1994, "On structuring probabilistic dependences in
stochastic language modelling" (leaving-one-out).
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
    """Result of `KneserNey.lookup` for T positions of B windows and R orders, of which the greatest is K.

    probabilities: (B, T, R, V) float32, probabilities of the next id.
    seen: (B, T, 2, K) float32, for each context length from 0: the number of times that the context is followed by an
        id in the training split, and the number of different ids that follow it. 0 if the window has less context.
    longest: (B, T, V) float32, probabilities of the last order; (B, 0, V) unless requested.

    For n wanted positions, the shapes of the first two are (n, R, V) and (n, 2, K).
    """

    probabilities: npt.NDArray[np.float32]
    seen: npt.NDArray[np.float32]
    longest: npt.NDArray[np.float32]


class KneserNey:
    """Kneser-Ney models of all orders up to `max_order`. An order is a length of n-grams."""

    def __init__(self, vocab_size: int, max_order: int, trie: Trie, smoothing: Smoothing) -> None:
        self.vocab_size, self.max_order, self.trie, self.smoothing = vocab_size, max_order, trie, smoothing

    @classmethod
    def count(cls, train: Ids, vocab_size: int, max_order: int) -> "KneserNey":
        """Count the n-grams of the (N,) ids of the training split.

        Raises:
            BukvaError: there are more n-grams than int32 can number.
        """
        trie = count_ngrams(train, vocab_size, max_order)
        by_count, by_continuation = (Smoothed.of(counts, trie) for counts in (trie.counts, trie.continuations))
        return cls(vocab_size, max_order, trie, Smoothing(by_count, by_continuation))

    def nats(self, ids: Ids, order: int) -> Floats:
        """Return the (N,) nats of (N,) ids, each given up to order - 1 ids before it."""
        return self.nats_by_order(ids, [order])[order]

    def nats_by_order(self, ids: Ids, orders: Iterable[int]) -> dict[int, Floats]:
        """Return the nats of (N,) ids under several orders. One call is faster than one for each order.

        An id with fewer than order - 1 ids before it is predicted from these ids with continuation counts, as any
        context that is shorter than order - 1.

        Returns:
            order -> (N,) nats.
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
        """Return the distributions of the id after each of the last positions of windows, given the ids before it.

        Args:
            ids: (B, S), the windows; NO_ID marks positions before the text. With `leave_out` the shape is (B, S + 1):
                the last id follows the last position and is not context.
            orders: orders of n-grams, ascending.
            n_positions: number of positions to look up, at the end of each window; at most S.
            leave_out: leave the id after each position out of the counts. The windows must be of the training split.
            wanted: (B, n_positions), True at the positions to look up; all by default.
            longest: also return the distributions of the last order at every position.
            n_threads: maximum number of threads, which divide the windows between them.
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
