"""Reference implementation of the formulas of Chen & Goodman (1998), with dictionaries; and a text for tests."""

import math
from collections import Counter, defaultdict

import numpy as np


class Witness:
    """p(w | h) by equations 24 to 26 of the paper; grams and contexts are tuples of ids.

    The id of train at position `left_out` is not counted. As in bukva, this does not change the discounts.
    """

    def __init__(self, train, vocab_size, left_out=None):
        self.train, self.vocab_size, self.left_out = tuple(train), vocab_size, left_out

    def nats(self, ids, order):
        return [-math.log(self.distribution(ids[:i], order)[w]) for i, w in enumerate(ids)]

    def distribution(self, before, order):
        """Return the (V,) probabilities of the id after these ids."""
        return self.smoothed(tuple(before[max(len(before) - order + 1, 0) :]), order)

    def smoothed(self, h, order):
        shorter = self.smoothed(h[1:], order) if h else [1 / self.vocab_size] * self.vocab_size
        is_longest = len(h) == order - 1
        counts = self.followers(h, is_longest)
        if not counts:
            return shorter
        discount = self.discounts(self.counts(len(h) + 1, is_longest))
        freed, total = sum(map(discount, counts.values())), sum(counts.values())
        left = [counts.get(w, 0) - discount(counts.get(w, 0)) for w in range(self.vocab_size)]
        return [(count + freed * p) / total for count, p in zip(left, shorter, strict=True)]

    def followers(self, h, is_longest=True):
        """Return the count of each id after h, which is () or a tuple of ids."""
        counts = self.counts(len(h) + 1, is_longest, self.left_out)
        return {gram[-1]: count for gram, count in counts.items() if gram[:-1] == h}

    def counts(self, length, is_longest, left_out=None):
        """Return the count of each gram, or the number of different ids (or the start of train) before it."""
        counts, before = Counter(), defaultdict(set)
        for i in range(len(self.train) - length + 1):
            if i + length - 1 != left_out:
                gram = self.train[i : i + length]
                counts[gram] += 1
                before[gram].add(self.train[i - 1] if i else "start")
        return counts if is_longest else Counter({gram: len(ids) for gram, ids in before.items()})

    @staticmethod
    def discounts(counts):
        """Return the function from a count to its discount."""
        n1, n2, n3, n4 = (sum(count == c for count in counts.values()) for c in (1, 2, 3, 4))
        values = (0.5, 1, 1.5)
        if n1 and n2 and n3:
            Y = n1 / (n1 + 2 * n2)
            estimated = (1 - 2 * Y * n2 / n1, 2 - 3 * Y * n3 / n2, 3 - 4 * Y * n4 / n3)
            if all(0 <= value <= c for c, value in enumerate(estimated, start=1)):
                values = estimated
        return lambda count: values[min(count, 3) - 1] if count else 0


def skewed(n, V, seed=1):
    """Return (n,) ids. Small ids are frequent, and half of the ids repeat the id 3 positions before."""
    rng = np.random.default_rng(seed)
    ids = (V * rng.random(n) ** 3).astype(np.uint16)
    for i in range(3, n):
        if rng.random() < 0.5:
            ids[i] = ids[i - 3]
    return ids
