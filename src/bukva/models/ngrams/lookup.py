"""The loops over contexts, compiled: the probability of one id, and distributions with one occurrence left out.

A context has few followers, which array operations over all of a batch would look up ten times as slowly
(docs/dev/log.md). All compiled functions are here, because their machine code is kept by the content of their module.
"""

import numpy as np
import numpy.typing as npt

from bukva.core.compiled import compiled
from bukva.models.ngrams.smoothing import Floats, Smoothed, Smoothing
from bukva.models.ngrams.trie import Ints, Nodes, Trie

UNKNOWN = -1  # the node of a gram that train does not have, or that begins before the text does


@compiled
def probabilities_of(ids: Ints, orders: Ints, vocab_size: int, trie: Trie, smoothing: Smoothing) -> Floats:
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
        for n in range(1, K + 1):
            contexts[n] = grams[n]
    return found


@compiled
def lookup_into(
    ids: Ints,
    orders: Ints,
    leave_out: bool,
    trie: Trie,
    smoothing: Smoothing,
    rows: Ints,
    probabilities: npt.NDArray[np.float32],
    seen: npt.NDArray[np.float32],
    longest: npt.NDArray[np.float32],
) -> None:
    """Fill what is asked about the last T positions of B windows.

    rows: (B, T), the row of `probabilities` and `seen` for each position, or -1 for none.
    probabilities: (n, R, V), of the next id under each order.
    seen: (n, 2, K), counts of contexts.
    longest: (B, T, V), the probabilities under the last order at every position; or (B, 0, V).
    """
    (B, T), V = rows.shape, probabilities.shape[2]
    K, length = orders[-1], ids.shape[1]
    first = length - leave_out - T  # the first position that is asked about
    ends = np.empty((length, K + 1), np.int64)  # the gram of each length that ends at each position
    p, single = np.empty(V), np.full(V, 1 / V)
    _refine(single, trie, trie.continuations, smoothing.by_continuation, 1, 0, UNKNOWN)  # has all of V to refine
    for b in range(B):
        _find_ends(trie, ids[b], ends)
        for t in range(T):
            row, is_shown, r = rows[b, t], longest.shape[1] > 0, 0
            if row < 0 and not is_shown:
                continue
            for v in range(V):
                p[v] = 1 / V
            for order in range(1, K + 1):
                context = ends[first + t, order - 1]
                gram = rare = UNKNOWN  # which grams lose one of their count, and of their continuation count
                if leave_out and context != UNKNOWN:
                    gram = ends[first + t + 1, order]
                    longer = ends[first + t + 1, order + 1] if order < K else UNKNOWN
                    if longer == UNKNOWN or trie.counts[longer] == 1:  # no other place has what is before it
                        rare = gram
                if row >= 0 and context != UNKNOWN:
                    seen[row, 0, order - 1] = smoothing.by_count.totals[context] - (gram != UNKNOWN)
                    n_followers = trie.firsts[context + 1] - trie.firsts[context]
                    seen[row, 1, order - 1] = n_followers - (gram != UNKNOWN and trie.counts[gram] == 1)
                if row >= 0 and order == orders[r]:
                    for v in range(V):
                        probabilities[row, r, v] = p[v]
                    _refine(probabilities[row, r], trie, trie.counts, smoothing.by_count, order, context, gram)
                    r += 1
                if is_shown and order == K:
                    for v in range(V):
                        longest[b, t, v] = p[v]
                    _refine(longest[b, t], trie, trie.counts, smoothing.by_count, order, context, gram)
                if order == 1 and rare == UNKNOWN:
                    for v in range(V):
                        p[v] = single[v]
                elif order < K:
                    _refine(p, trie, trie.continuations, smoothing.by_continuation, order, context, rare)


@compiled
def _find_ends(trie: Trie, ids: Ints, ends: Ints) -> None:
    """Fill (S, K + 1): for each of (S,) ids, the gram of each length that ends with it."""
    for i in range(len(ids)):
        ends[i, 0] = 0
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
    for v in range(len(p)):
        p[v] *= freed / total
    for node in range(trie.firsts[context], trie.firsts[context + 1]):
        n = counts[node] - (node == less)
        p[trie.symbols[node]] += (n - by.discounts[order, min(n, 3)]) / total
