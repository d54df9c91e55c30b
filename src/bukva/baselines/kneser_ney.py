"""The interpolated modified Kneser-Ney model, exact, counted once for all orders.

Chen & Goodman, "An empirical study of smoothing techniques for language modeling" (TR-10-98, 1998), equation 25: from
the count of every n-gram a discount is subtracted, and what that frees in a context is given to the context that is one
character shorter. The longest n-grams have their counts in train; shorter ones the number of different characters
before them there (continuation counts); below single characters all V are equally likely. Each order has three
discounts, for counts of 1, 2 and at least 3.

Two conventions, as in KenLM: where the counts of counts give no discounts (one is 0, as for single characters) or a
negative one, they are .5, 1 and 1.5 (`--discount_fallback`); the start of train counts as a character before the first.

A gram of n ids is one int64, its code: gram a b c has ((a V + b) V + c). When the next code would not fit, codes are
replaced by their ranks among the different ones of train, of which there are never more than train has characters.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from bukva.base.ids import Ids

Ints = npt.NDArray[np.int64]
Counts = npt.NDArray[np.unsignedinteger]
Floats = npt.NDArray[np.float64]

GREATEST = np.iinfo(np.int64).max
FALLBACK = (0.0, 0.5, 1.0, 1.5)


class KneserNey:
    """The models of all orders up to `max_order`, from (N,) ids of train; orders are lengths of n-grams."""

    def __init__(self, train: Ids, vocab_size: int, max_order: int) -> None:
        V = self.vocab_size = vocab_size
        self._grams: list[_Grams] = []  # one object for each length, from 1
        self._ranked: set[int] = set()  # lengths after which ranks take the place of codes
        codes, bound = np.zeros(len(train) + 1, np.int64), 1  # (N + 1,) of the empty gram; every code is below bound
        for length in range(1, max_order + 1):
            codes = codes[:-1]  # the last gram has no next id
            codes *= V
            codes += train[length - 1 :]  # (N - length + 1,) all grams of this length
            bound *= V
            grams = _Grams.count(codes, train[: max(len(train) - length, 0)], V)
            self._grams.append(grams)
            if bound * V * (V + 1) > GREATEST and length < max_order:  # the next id, and one before when counting
                self._ranked.add(length)
                sorting = codes.argsort()
                codes[sorting] = np.searchsorted(grams.codes, codes[sorting])
                bound = len(grams.codes)

    def nats(self, ids: Ids, order: int) -> Floats:
        """(N,) ids -> (N,) nats of each, given up to order - 1 ids before it."""
        return self.nats_by_order(ids, [order])[order]

    def nats_by_order(self, ids: Ids, orders: Iterable[int]) -> dict[int, Floats]:
        """The nats of several orders, for less than one call each: they share what is shorter.

        An id with fewer than order - 1 ids before it is scored as the shorter context scores inside a longer one.

        Returns:
            order -> (N,) nats.
        """
        orders = set(orders)
        result = {}
        shorter = np.full(len(ids), 1 / self.vocab_size)  # (N,) probabilities given shorter contexts
        codes = np.zeros(len(ids) + 1, np.int64)  # (N + 1,) of the empty gram
        for length, grams in enumerate(self._grams[: max(orders)], start=1):
            codes = codes[:-1] * self.vocab_size + ids[length - 1 :]  # (N - length + 1,)
            sorting = codes.argsort()  # sorted keys are looked up several times as fast
            found = grams.find(codes[sorting])
            if length in orders:
                result[length] = -np.log(_refined(shorter, sorting, found, grams.by_count))
            if length < max(orders):
                shorter = _refined(shorter, sorting, found, grams.by_continuation)
                if length in self._ranked:
                    codes[sorting] = found[0]
        return result


@dataclass(frozen=True)
class _Smoothed:
    """What one kind of counts makes of the grams and contexts of one length.

    shares: (G,) the discounted count of each gram, as a share of its context's sum.
    freed: (H,) the share of each context that goes to the shorter context.
    """

    shares: Floats
    freed: Floats


@dataclass(frozen=True)
class _Grams:
    """The G different grams of one length in train.

    codes: (G,) of the grams, ascending.
    counts: (G,) how often each is in train.
    continuations: (G,) before how many different characters, the start of train included.
    vocab_size: V.
    """

    codes: Ints
    counts: Counts
    continuations: Counts
    vocab_size: int

    @classmethod
    def count(cls, codes: Ints, before: Ids, vocab_size: int) -> "_Grams":
        """Count grams by the (M,) codes of all of them and the (M - 1,) ids before all but the first."""
        keys = codes * (vocab_size + 1)  # (M,) a gram and what is before it: 0 for the start of train, otherwise 1 + id
        keys[1:] += before
        keys[1:] += 1
        keys.sort()
        starts = _starts(keys)  # (P,) of the pairs of a gram and what is before it
        keys = keys[starts] // (vocab_size + 1)  # (P,) the gram of each pair
        firsts = _starts(keys)  # (G,) the first pair of each gram
        dtype = np.min_scalar_type(len(codes))
        return cls(
            codes=keys[firsts],
            counts=np.diff(starts[firsts], append=len(codes)).astype(dtype),
            continuations=np.diff(firsts, append=len(keys)).astype(dtype),
            vocab_size=vocab_size,
        )

    def find(self, codes: Ints) -> tuple[Ints, Ints]:
        """(M,) ascending codes -> (M,) the gram and (M,) the context of each, -1 where train has none."""
        return _find(self.codes, codes), _find(self.contexts, codes // self.vocab_size)

    @cached_property
    def contexts(self) -> Ints:
        """(H,) codes of the grams without their last id, ascending."""
        return self.codes[self._firsts] // self.vocab_size

    @cached_property
    def by_count(self) -> _Smoothed:
        return self._smoothed(self.counts)

    @cached_property
    def by_continuation(self) -> _Smoothed:
        return self._smoothed(self.continuations)

    @cached_property
    def _firsts(self) -> Ints:
        """(H,) the first gram of each context."""
        return _starts(self.codes // self.vocab_size)

    def _smoothed(self, counts: Counts) -> _Smoothed:
        sizes = np.diff(self._firsts, append=len(counts))  # (H,) grams of each context
        discounts = discounts_of(counts)[np.minimum(counts, 3)]  # (G,)
        sums = np.add.reduceat(counts, self._firsts, dtype=np.int64)  # (H,)
        return _Smoothed(
            shares=(counts - discounts) / np.repeat(sums, sizes),
            freed=np.add.reduceat(discounts, self._firsts) / sums,
        )


def discounts_of(counts: Counts) -> Floats:
    """(G,) counts of grams -> (4,) what is subtracted from a count of 0, 1, 2 and at least 3 (equation 26)."""
    n = np.bincount(np.minimum(counts, 5), minlength=5).astype(float)  # how many grams have each count
    if not n[1:4].all():
        return np.array(FALLBACK)
    c = np.arange(4)
    discounts = c - (c + 1) * n[1] / (n[1] + 2 * n[2]) * n[1:5] / np.where(c, n[:4], np.inf)
    return discounts if (discounts >= 0).all() else np.array(FALLBACK)


def _refined(shorter: Floats, sorting: Ints, found: tuple[Ints, Ints], smoothed: _Smoothed) -> Floats:
    """(N,) probabilities given shorter contexts -> given contexts one longer, for the last M, whose order is given."""
    gram, context = found  # (M,) in ascending order of codes
    result = shorter.copy()
    last = result[len(result) - len(sorting) :]  # (M,) a view
    known = context >= 0
    places, gram, context = sorting[known], gram[known], context[known]
    share = np.where(gram >= 0, smoothed.shares[gram], 0)
    last[places] = share + smoothed.freed[context] * last[places]
    return result


def _starts(ascending: Ints) -> Ints:
    """(M,) ascending values -> where each different one is first."""
    is_first = np.ones(len(ascending), np.bool_)
    np.not_equal(ascending[1:], ascending[:-1], out=is_first[1:])
    return np.flatnonzero(is_first)


def _find(ascending: Ints, keys: Ints) -> Ints:
    """(M,) keys -> (M,) where each is in ascending values, -1 where it is not."""
    if not len(ascending):
        return np.full(len(keys), -1)
    places = np.searchsorted(ascending, keys)
    places[places == len(ascending)] = 0
    return np.where(ascending[places] == keys, places, -1)
