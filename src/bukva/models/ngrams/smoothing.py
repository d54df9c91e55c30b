"""Discounts: what modified Kneser-Ney takes from the counts of all n-grams, and gives to shorter contexts.

Equation 26 of Chen & Goodman 1998, for each length of n-grams. As in KenLM, where the counts of counts give no
discounts (one is 0, as for single characters) or a negative one, they are .5, 1 and 1.5 (`--discount_fallback`).
"""

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from bukva.models.ngrams.trie import Nodes, Trie

Floats = npt.NDArray[np.float64]

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
