"""Discounts: what modified Kneser-Ney takes from the counts of all n-grams, and gives to shorter contexts.

Equation 26 of Chen & Goodman 1998, for each length of n-grams. As in KenLM, where the counts of counts give no
discounts (one is 0, as for single characters) or a negative one, they are .5, 1 and 1.5 (`--discount_fallback`).
"""

from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from bukva.models.ngrams.trie import Nodes, Trie

Floats = npt.NDArray[np.float64]

CHUNK = 1 << 16  # contexts at a time: memory that is used again costs nothing
FALLBACK = (0.0, 0.5, 1.0, 1.5)


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
    """For the longest grams of a model, and for all shorter ones."""

    by_count: Smoothed
    by_continuation: Smoothed


def discounts_of(counts: Nodes) -> Floats:
    """(G,) counts of grams -> (4,) what is subtracted from a count of 0, 1, 2 and at least 3 (equation 26)."""
    pieces = (counts[start : start + CHUNK] for start in range(0, len(counts), CHUNK))
    n = sum((np.bincount(np.minimum(piece, 5), minlength=6) for piece in pieces), np.zeros(6))
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
