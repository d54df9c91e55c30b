"""Compute the discounts of modified Kneser-Ney smoothing, which are subtracted from the counts of n-grams.

For n-grams of each length, the discounts are computed from the number of n-grams that occur once, twice, three times
and four times (equation 26 of Chen & Goodman 1998). The equation fails if one of the first three numbers is 0, which is
usual for single characters, or if a discount would be negative. In these cases, the discounts are 0.5, 1 and 1.5, as in
KenLM (`--discount_fallback`).
"""

from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from bukva.models.ngrams.trie import Nodes, Trie

Floats = npt.NDArray[np.float64]

CHUNK = 1 << 16  # number of contexts or counts to process at a time, which limits the memory
FALLBACK = (0.0, 0.5, 1.0, 1.5)  # discounts of counts of 0, 1, 2 and at least 3


class Smoothed(NamedTuple):
    """Discounts, and two sums for each of the H contexts: n-grams shorter than the greatest length K."""

    discounts: Floats  # (K + 1, 4); row n has the discounts of n-grams of n ids, for counts of 0, 1, 2 and at least 3
    totals: Nodes  # (H,), by node of the context: sum of the counts of all n-grams that extend it by one id
    freed: Floats  # (H,), sum of the discounts of these n-grams

    @classmethod
    def of(cls, counts: Nodes, trie: Trie) -> "Smoothed":
        """Compute the discounts and sums of `trie.counts` or of `trie.continuations`."""
        levels = trie.levels.tolist()
        n_contexts = levels[-2]
        discounts, totals, freed = np.zeros((len(levels) - 1, 4)), np.empty(n_contexts, np.int32), np.empty(n_contexts)
        for length, (first, stop) in enumerate(pairwise(levels[:-1]), start=1):
            discounts[length] = discounts_of(counts[slice(*levels[length : length + 2])])
            for start in range(first, stop, CHUNK):
                parents = slice(start, min(start + CHUNK, stop))
                edges = trie.firsts[parents.start : parents.stop + 1]
                children = counts[edges[0] : edges[-1]]
                totals[parents] = _sums(children, edges - edges[0])
                freed[parents] = _sums(discounts[length][np.minimum(children, 3)], edges - edges[0])
        return cls(discounts, totals, freed)


class Smoothing(NamedTuple):
    """Smoothing of counts and of continuation counts."""

    by_count: Smoothed  # for the longest n-grams of a model
    by_continuation: Smoothed  # for all shorter n-grams


def discounts_of(counts: Nodes) -> Floats:
    """Return the (4,) discounts for n-grams of one length, from the (G,) counts of all different n-grams."""
    pieces = (counts[start : start + CHUNK] for start in range(0, len(counts), CHUNK))
    n = sum((np.bincount(np.minimum(piece, 5), minlength=6) for piece in pieces), np.zeros(6))
    if not n[1:4].all():
        return np.array(FALLBACK)
    c = np.arange(4)
    discounts = c - (c + 1) * n[1] / (n[1] + 2 * n[2]) * n[1:5] / np.where(c, n[:4], np.inf)
    return discounts if (discounts >= 0).all() else np.array(FALLBACK)


def _sums(values: npt.NDArray[Any], edges: Nodes) -> npt.NDArray[Any]:
    """Return the (H,) sums of H consecutive parts of `values`."""
    starts = edges[:-1]
    has_any = starts < edges[1:]
    sums = np.zeros(len(starts), values.dtype)
    sums[has_any] = np.add.reduceat(values, starts[has_any])
    return sums
