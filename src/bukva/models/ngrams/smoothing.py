"""Discounts of modified Kneser-Ney smoothing, which are subtracted from counts and passed to shorter contexts.

The discounts of each length of n-grams follow from the counts of counts (equation 26 of Chen & Goodman 1998). The
equation fails where a count of counts is 0, as for single characters, or where a discount would be negative. Then the
discounts are .5, 1 and 1.5, as in KenLM (`--discount_fallback`).
"""

from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from bukva.models.ngrams.trie import Nodes, Trie

Floats = npt.NDArray[np.float64]

CHUNK = 1 << 16  # number of contexts or counts that are processed together, so that their memory is reused
FALLBACK = (0.0, 0.5, 1.0, 1.5)


class Smoothed(NamedTuple):
    """Discounts of one kind of counts, and sums over the followers of each of the H nodes that can be contexts.

    discounts: (K + 1, 4), for grams of each length, the discounts of a count of 0, 1, 2 and at least 3.
    totals: (H,) sum of the counts of the grams that extend each context by one id.
    freed: (H,) sum of the discounts of the same grams.
    """

    discounts: Floats
    totals: Nodes
    freed: Floats

    @classmethod
    def of(cls, counts: Nodes, trie: Trie) -> "Smoothed":
        """Compute the discounts and sums of `counts`, the counts or the continuation counts of a trie."""
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
    """Smoothed counts of the longest grams of a model, and smoothed continuation counts of all shorter grams."""

    by_count: Smoothed
    by_continuation: Smoothed


def discounts_of(counts: Nodes) -> Floats:
    """Return the (4,) discounts of a count of 0, 1, 2 and at least 3, from the (G,) counts of grams (equation 26)."""
    pieces = (counts[start : start + CHUNK] for start in range(0, len(counts), CHUNK))
    n = sum((np.bincount(np.minimum(piece, 5), minlength=6) for piece in pieces), np.zeros(6))
    if not n[1:4].all():
        return np.array(FALLBACK)
    c = np.arange(4)
    discounts = c - (c + 1) * n[1] / (n[1] + 2 * n[2]) * n[1:5] / np.where(c, n[:4], np.inf)
    return discounts if (discounts >= 0).all() else np.array(FALLBACK)


def _sums(values: npt.NDArray[Any], edges: Nodes) -> npt.NDArray[Any]:
    """Return the (H,) sums of the (G,) values between consecutive edges, which are (H + 1,) and ascending."""
    starts = edges[:-1]
    has_any = starts < edges[1:]
    sums = np.zeros(len(starts), values.dtype)
    sums[has_any] = np.add.reduceat(values, starts[has_any])
    return sums
