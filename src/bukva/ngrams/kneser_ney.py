"""The interpolated modified Kneser-Ney model, exact, counted once for all orders.

Chen & Goodman, "An empirical study of smoothing techniques for language modeling" (TR-10-98, 1998), equation 25: from
the count of every n-gram a discount is subtracted, and what that frees in a context is given to the context that is one
character shorter. The longest n-grams have their counts in train; shorter ones the number of different characters
before them there (continuation counts); below single characters all V are equally likely. Each order has three
discounts, for counts of 1, 2 and at least 3.

Two conventions, as in KenLM: where the counts of counts give no discounts (one is 0, as for single characters) or a
negative one, they are .5, 1 and 1.5 (`--discount_fallback`); the start of train counts as a character before the first.

Leaving one out. A model that is to learn from train how far the counts can be trusted must not see its own answers in
them. With leave_out, what follows a position is taken out of the counts as if it had not been counted: the grams of
every length that end with it lose one occurrence, and a shorter gram loses a different character before it where no
other occurrence has that character. What is before a window is not known there: a gram that begins a window loses its
character if all its occurrences have different ones. Discounts stay those of all of train. Source: Ney, Essen & Kneser
1994, "On structuring probabilistic dependences in stochastic language modelling" (leaving-one-out).

The loops over contexts are compiled by numba: a context has few followers, which array operations over all of a batch
would look up ten times as slowly (docs/log.md).
"""

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from bukva.base.compiled import compiled
from bukva.base.ids import Ids
from bukva.ngrams.trie import Ints, Nodes, Trie, count_ngrams

Floats = npt.NDArray[np.float64]

FALLBACK = (0.0, 0.5, 1.0, 1.5)
UNKNOWN = -1  # the node of a gram that train does not have, or that starts before the window


class LookUp(NamedTuple):
    """What the counts give for T positions of B windows, for R orders of at most K.

    probabilities: (B, T, R, V) float32, of the next id.
    seen: (B, T, 2, K) float32, for each length of context from 0: how often train has it with something after it, and
        by how many different ids it is followed; 0 where the window does not hold so much context.
    """

    probabilities: npt.NDArray[np.float32]
    seen: npt.NDArray[np.float32]


class Smoothed(NamedTuple):
    """What the discounts make of one kind of counts; H nodes can be contexts.

    discounts: (K + 1, 4), for grams of each length, what is subtracted from a count of 0, 1, 2 and at least 3.
    totals: (H,) the sum of the counts of what follows each context.
    freed: (H,) the sum of their discounts.
    """

    discounts: Floats
    totals: Nodes
    freed: Floats

    @classmethod
    def of(cls, counts: Nodes, trie: Trie) -> "Smoothed":
        """For the counts or the continuation counts of a trie."""
        levels = trie.levels
        discounts, totals, freed = np.zeros((len(levels) - 1, 4)), [], []
        for length in range(1, len(levels) - 1):
            parents, grams = slice(*levels[length - 1 : length + 1]), slice(*levels[length : length + 2])
            discounts[length] = discounts_of(counts[grams])
            edges = trie.firsts[parents.start : parents.stop + 1] - grams.start
            totals.append(_sums(counts[grams], edges))
            freed.append(_sums(discounts[length][np.minimum(counts[grams], 3)], edges))
        return cls(discounts, np.concatenate(totals), np.concatenate(freed))


class Smoothing(NamedTuple):
    """For the longest grams of a model, and for all shorter ones."""

    by_count: Smoothed
    by_continuation: Smoothed


class KneserNey:
    """The models of all orders up to `max_order`, from (N,) ids of train; orders are lengths of n-grams."""

    def __init__(self, train: Ids, vocab_size: int, max_order: int) -> None:
        self.vocab_size, self.max_order = vocab_size, max_order
        self.trie = count_ngrams(train, vocab_size, max_order)
        self.smoothing = Smoothing(
            by_count=Smoothed.of(self.trie.counts, self.trie),
            by_continuation=Smoothed.of(self.trie.continuations, self.trie),
        )

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
        found = _probabilities(np.asarray(ids, np.int64), np.array(wanted), self.vocab_size, self.trie, self.smoothing)
        return dict(zip(wanted, -np.log(found), strict=True))

    def recall(self, ids: Ints, orders: Sequence[int], n_positions: int, *, leave_out: bool = False) -> LookUp:
        """The distributions after the last positions of windows, given what the window holds before them.

        Args:
            ids: (B, S) windows; the last n_positions of each are asked about. With leave_out (B, S + 1): the last id of
                each is not context, but follows the last position.
            orders: ascending.
            n_positions: at most S.
            leave_out: the windows are of train; take what follows each position out of the counts.
        """
        ids, shape = np.ascontiguousarray(ids, np.int64), (len(ids), n_positions)
        probabilities = np.empty((*shape, len(orders), self.vocab_size), np.float32)
        seen = np.zeros((*shape, 2, self.max_order), np.float32)
        _recall(ids, np.asarray(orders), leave_out, self.trie, self.smoothing, probabilities, seen)
        return LookUp(probabilities, seen)


def discounts_of(counts: Nodes) -> Floats:
    """(G,) counts of grams -> (4,) what is subtracted from a count of 0, 1, 2 and at least 3 (equation 26)."""
    n = np.bincount(np.minimum(counts, 5), minlength=5).astype(float)  # how many grams have each count
    if not n[1:4].all():
        return np.array(FALLBACK)
    c = np.arange(4)
    discounts = c - (c + 1) * n[1] / (n[1] + 2 * n[2]) * n[1:5] / np.where(c, n[:4], np.inf)
    return discounts if (discounts >= 0).all() else np.array(FALLBACK)


def _sums(values: npt.NDArray[Any], edges: Nodes) -> npt.NDArray[Any]:
    """(G,) values -> (H,) the sum of those between each two of (H + 1,) ascending edges."""
    starts = edges[:-1]
    has_any = starts < edges[1:]
    sums = np.zeros(len(starts), values.dtype)
    sums[has_any] = np.add.reduceat(values, starts[has_any])
    return sums


@compiled
def _probabilities(ids: Ints, orders: Ints, vocab_size: int, trie: Trie, smoothing: Smoothing) -> Floats:
    """(N,) ids, R ascending orders -> (R, N), the probability of each id."""
    K = orders[-1]
    found = np.empty((len(orders), len(ids)))
    contexts, grams = np.full(K + 1, UNKNOWN), np.full(K + 1, UNKNOWN)  # the grams that end before an id, and with it
    contexts[0] = grams[0] = 0
    for i in range(len(ids)):
        shorter, r = 1 / vocab_size, 0
        for order in range(1, K + 1):
            context = contexts[order - 1]
            gram = grams[order] = _child(trie, context, ids[i])
            if order == orders[r]:
                found[r, i] = _refined(shorter, trie.counts, smoothing.by_count, order, context, gram)
                r += 1
            shorter = _refined(shorter, trie.continuations, smoothing.by_continuation, order, context, gram)
        contexts[:] = grams
    return found


@compiled
def _recall(
    ids: Ints,
    orders: Ints,
    leave_out: bool,
    trie: Trie,
    smoothing: Smoothing,
    probabilities: npt.NDArray[np.float32],
    seen: npt.NDArray[np.float32],
) -> None:
    """Fill (B, T, R, V) probabilities and (B, T, 2, K) counts of contexts, for the last T positions of windows."""
    B, T, _, V = probabilities.shape
    K, length = orders[-1], ids.shape[1]
    first = length - leave_out - T  # the first position that is asked about
    ends = np.empty((length, K + 1), np.int64)  # the gram of each length that ends at each position
    p = np.empty(V)
    for b in range(B):
        _find_ends(trie, ids[b], ends)
        for t in range(T):
            p[:] = 1 / V
            r = 0
            for order in range(1, K + 1):
                context = ends[first + t, order - 1]
                gram = rare = UNKNOWN  # which grams lose one of their count, and of their continuation count
                if leave_out and context != UNKNOWN:
                    gram = ends[first + t + 1, order]
                    longer = ends[first + t + 1, order + 1] if order < K else UNKNOWN
                    # at the start of a window the character before is not known: it goes if all such are different
                    if longer == UNKNOWN:
                        is_alone = trie.counts[gram] == trie.continuations[gram]
                    else:
                        is_alone = trie.counts[longer] == 1
                    if is_alone:  # no other place has the character before it
                        rare = gram
                if context != UNKNOWN:
                    seen[b, t, 0, order - 1] = smoothing.by_count.totals[context] - (gram != UNKNOWN)
                    n_followers = trie.firsts[context + 1] - trie.firsts[context]
                    seen[b, t, 1, order - 1] = n_followers - (gram != UNKNOWN and trie.counts[gram] == 1)
                if order == orders[r]:
                    probabilities[b, t, r] = p
                    _refine(probabilities[b, t, r], trie, trie.counts, smoothing.by_count, order, context, gram)
                    r += 1
                _refine(p, trie, trie.continuations, smoothing.by_continuation, order, context, rare)


@compiled
def _find_ends(trie: Trie, ids: Ints, ends: Ints) -> None:
    """Fill (S, K + 1): for each of (S,) ids, the gram of each length that ends with it."""
    ends[:, 0] = 0
    for i in range(len(ids)):
        for n in range(1, ends.shape[1]):
            shorter = 0 if n == 1 else ends[i - 1, n - 1] if i else UNKNOWN
            ends[i, n] = _child(trie, shorter, ids[i])


@compiled
def _child(trie: Trie, node: int, symbol: int) -> int:
    """The child of a node with this last id, by bisection."""
    if node == UNKNOWN:
        return UNKNOWN
    low, stop = trie.firsts[node], trie.firsts[node + 1]
    high = stop
    while low < high:
        middle = (low + high) // 2
        if trie.symbols[middle] < symbol:
            low = middle + 1
        else:
            high = middle
    return low if low < stop and trie.symbols[low] == symbol else UNKNOWN


@compiled
def _refined(shorter: float, counts: Nodes, by: Smoothed, order: int, context: int, gram: int) -> float:
    """The probability of one id given a context, from that given a shorter one; `gram` is context and id."""
    if context == UNKNOWN or by.totals[context] == 0:
        return shorter
    share = 0.0 if gram == UNKNOWN else counts[gram] - by.discounts[order, min(counts[gram], 3)]
    return (share + by.freed[context] * shorter) / by.totals[context]


@compiled
def _refine(p: Floats, trie: Trie, counts: Nodes, by: Smoothed, order: int, context: int, less: int) -> None:
    """Turn (V,) probabilities given a shorter context into those given this one; gram `less` counts one less."""
    if context == UNKNOWN:
        return
    total, freed = by.totals[context] - (less != UNKNOWN), by.freed[context]
    if total == 0:
        return
    if less != UNKNOWN:
        n = counts[less]
        freed += by.discounts[order, min(n - 1, 3)] - by.discounts[order, min(n, 3)]
    p *= freed / total
    for node in range(trie.firsts[context], trie.firsts[context + 1]):
        n = counts[node] - (node == less)
        p[trie.symbols[node]] += (n - by.discounts[order, min(n, 3)]) / total
