"""Look up n-grams in compiled loops: the probabilities of given ids, or of all ids that may come next.

Few different ids follow a context, so a loop reads only a few counts. Array operations on a whole batch take ten times
as long (docs/dev/log.md). All compiled functions for lookups are in this module, because a compiled function can only
call functions of its own module (see bukva.core.compiled).
"""

import numpy as np
import numpy.typing as npt

from bukva.core.compiled import compiled
from bukva.models.ngrams.smoothing import Floats, Smoothed, Smoothing
from bukva.models.ngrams.trie import Ints, Nodes, Trie

UNKNOWN = -1  # node of an n-gram that is not in the training split, or that would begin before the text


@compiled
def probabilities_of(ids: Ints, orders: Ints, vocab_size: int, trie: Trie, smoothing: Smoothing) -> Floats:
    """Return the probability of each id, given the ids before it, under each of R ascending orders, (R, N)."""
    K = orders[-1]
    probabilities = np.empty((len(orders), len(ids)))
    # nodes of the n-grams of each length that end just before the id, and of those that end with the id
    contexts, grams = np.full(K + 1, UNKNOWN), np.full(K + 1, UNKNOWN)
    contexts[0] = grams[0] = 0
    for i in range(len(ids)):
        shorter, r = 1 / vocab_size, 0
        for order in range(1, K + 1):
            context = contexts[order - 1]
            gram = grams[order] = _child(trie, context, ids[i])
            if order == orders[r]:
                probabilities[r, i] = _refined(shorter, trie.counts, smoothing.by_count, order, context, gram)
                r += 1
            shorter = _refined(shorter, trie.continuations, smoothing.by_continuation, order, context, gram)
        for n in range(1, K + 1):
            contexts[n] = grams[n]
    return probabilities


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
    """Fill the arrays of a `LookupResult` for the last T positions of B windows. `seen` must be 0 before.

    `KneserNey.lookup` explains the first arguments. `rows`, (B, T), has the row of `probabilities` and `seen` for each
    position, or -1 for a position that is not looked up.
    """
    (B, T), V = rows.shape, probabilities.shape[2]
    K, length = orders[-1], ids.shape[1]
    first = length - leave_out - T  # first position to look up
    ends = np.empty((length, K + 1), np.int64)  # node of the n-gram of each length that ends at each position
    p, single = np.empty(V), np.full(V, 1 / V)
    # computing the unigram probabilities of all V ids is slow, so they are computed only once
    _refine(single, trie, trie.continuations, smoothing.by_continuation, 1, 0, UNKNOWN)
    for b in range(B):
        _find_ends(trie, ids[b], ends)
        for t in range(T):
            row, with_longest, r = rows[b, t], longest.shape[1] > 0, 0
            if row < 0 and not with_longest:
                continue
            for v in range(V):
                p[v] = 1 / V
            for order in range(1, K + 1):
                context = ends[first + t, order - 1]
                gram = rare = UNKNOWN  # the node whose count, and the node whose continuation count is lowered by 1
                if leave_out and context != UNKNOWN:
                    gram = ends[first + t + 1, order]
                    longer = ends[first + t + 1, order + 1] if order < K else UNKNOWN
                    if longer == UNKNOWN or trie.counts[longer] == 1:  # no other occurrence has the same id before it
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
                if with_longest and order == K:
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
    """Fill `ends`, (S, K + 1), with the nodes of the n-grams that end at each of S positions."""
    for i in range(len(ids)):
        ends[i, 0] = 0
        for n in range(1, ends.shape[1]):
            shorter = 0 if n == 1 else ends[i - 1, n - 1] if i else UNKNOWN
            ends[i, n] = _child(trie, shorter, ids[i])


@compiled
def _child(trie: Trie, node: int, symbol: int) -> int:
    """Return the child of `node` whose last id is `symbol`, or UNKNOWN if there is no such child."""
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
    """Return the probability of the last id of `gram` given `context`, from that given the next shorter context."""
    if context == UNKNOWN or by.totals[context] == 0:
        return shorter
    discounted = 0.0 if gram == UNKNOWN else counts[gram] - by.discounts[order, min(counts[gram], 3)]
    return (discounted + by.freed[context] * shorter) / by.totals[context]


@compiled
def _refine(p: Floats, trie: Trie, counts: Nodes, by: Smoothed, order: int, context: int, left_out: int) -> None:
    """Turn probabilities given the next shorter context into probabilities given `context`, in place."""
    if context == UNKNOWN:
        return
    total, freed = by.totals[context] - (left_out != UNKNOWN), by.freed[context]
    if total == 0:
        return
    if left_out != UNKNOWN:
        n = counts[left_out]
        freed += by.discounts[order, min(n - 1, 3)] - by.discounts[order, min(n, 3)]
    for v in range(len(p)):
        p[v] *= freed / total
    for node in range(trie.firsts[context], trie.firsts[context + 1]):
        n = counts[node] - (node == left_out)
        p[trie.symbols[node]] += (n - by.discounts[order, min(n, 3)]) / total
