"""The interpolated modified Kneser-Ney model, exact, counted once for all orders.

Chen & Goodman, "An empirical study of smoothing techniques for language modeling" (TR-10-98, 1998), equation 25: from
the count of every n-gram a discount is subtracted, and what that frees in a context is given to the context that is one
character shorter. The longest n-grams have their counts in train; shorter ones the number of different characters
before them there (continuation counts); below single characters all V are equally likely. Each order has three
discounts, for counts of 1, 2 and at least 3.

As in KenLM, the start of train counts as a character before the first.

Leaving one out. A model that is to learn from train how far the counts can be trusted must not see its own answers in
them. With leave_out, what follows a position is taken out of the counts as if it had not been counted: the grams of
every length that end with it lose one occurrence, and a shorter gram loses a different character before it where no
other occurrence has that character. A window of train comes after the ids before it: K - 2, or all from the start of
train. Discounts stay those of all of train. Source: Ney, Essen & Kneser 1994, "On structuring probabilistic dependences
in stochastic language modelling" (leaving-one-out).
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


class LookUp(NamedTuple):
    """What the counts give for T positions of B windows, for R orders, of which the greatest is K.

    probabilities: (B, T, R, V) float32, of the next id.
    seen: (B, T, 2, K) float32, for each length of context from 0: how often train has it with something after it, and
        by how many different ids it is followed; 0 where the window does not hold so much context.
    longest: (B, T, V) float32, the probabilities of the last order; (B, 0, V) unless asked for.

    Where n positions are wanted and not all, the first two are (n, R, V) and (n, 2, K).
    """

    probabilities: npt.NDArray[np.float32]
    seen: npt.NDArray[np.float32]
    longest: npt.NDArray[np.float32]


class KneserNey:
    """The models of all orders up to `max_order`; orders are lengths of n-grams."""

    def __init__(self, vocab_size: int, max_order: int, trie: Trie, smoothing: Smoothing) -> None:
        self.vocab_size, self.max_order, self.trie, self.smoothing = vocab_size, max_order, trie, smoothing

    @classmethod
    def count(cls, train: Ids, vocab_size: int, max_order: int) -> "KneserNey":
        """Count (N,) ids of train.

        Raises:
            BukvaError: there are more n-grams than int32 can number.
        """
        trie = count_ngrams(train, vocab_size, max_order)
        by_count, by_continuation = (Smoothed.of(counts, trie) for counts in (trie.counts, trie.continuations))
        return cls(vocab_size, max_order, trie, Smoothing(by_count, by_continuation))

    def nats(self, ids: Ids, order: int) -> Floats:
        """(N,) ids -> (N,) nats of each, given up to order - 1 ids before it."""
        return self.nats_by_order(ids, [order])[order]

    def nats_by_order(self, ids: Ids, orders: Iterable[int]) -> dict[int, Floats]:
        """The nats of several orders, for less than one call each: they share what is shorter.

        An id with fewer than order - 1 ids before it is scored as the shorter context scores inside a longer one.

        Returns:
            order -> (N,) nats.
        """
        wanted = sorted(set(orders))
        found = probabilities_of(
            np.asarray(ids, np.int64), np.array(wanted), self.vocab_size, self.trie, self.smoothing
        )
        return dict(zip(wanted, -np.log(found), strict=True))

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
    ) -> LookUp:
        """The distributions after the last positions of windows, given what the window holds before them.

        Args:
            ids: (B, S) windows; the last n_positions of each are asked about. With leave_out (B, S + 1): the last id of
                each is not context, but follows the last position. NO_ID, before all others, is no id.
            orders: ascending.
            n_positions: at most S.
            leave_out: the windows are of train; take what follows each position out of the counts.
            wanted: (B, n_positions), which of them are asked about; all by default.
            longest: ask about the last order at every position, too.
            n_threads: at most as many look up windows at the same time.
        """
        ids, shape, V = np.ascontiguousarray(ids, np.int64), (len(ids), n_positions), self.vocab_size
        is_wanted = np.ones(shape, np.bool_) if wanted is None else wanted
        rows = np.where(is_wanted, is_wanted.cumsum().reshape(shape) - 1, -1)
        n = int(is_wanted.sum())
        probabilities: npt.NDArray[np.float32] = np.empty((n, len(orders), V), np.float32)
        seen: npt.NDArray[np.float32] = np.zeros((n, 2, orders[-1]), np.float32)
        of_last = np.empty((len(ids), n_positions if longest else 0, V), np.float32)

        def fill(share: slice) -> None:
            counts, found = (self.trie, self.smoothing), (probabilities, seen, of_last[share])
            lookup_into(ids[share], np.asarray(orders), leave_out, *counts, rows[share], *found)

        size = max(1, -(-len(ids) // n_threads))
        shares = [slice(first, first + size) for first in range(0, len(ids), size)]
        if len(shares) < 2:
            fill(slice(None))
        else:
            with ThreadPoolExecutor(len(shares)) as threads:  # compiled loops let other threads run
                list(threads.map(fill, shares))
        if wanted is None:
            probabilities, seen = (found.reshape(*shape, *found.shape[1:]) for found in (probabilities, seen))
        return LookUp(probabilities, seen, of_last)
