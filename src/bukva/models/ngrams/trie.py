"""All n-grams of a text, up to a length, as a trie.

A gram of n ids is the child of the gram of its first n - 1 ids; node 0 is the empty gram. Nodes are numbered by length,
then by parent, then by last id, so the children of a node are neighbours in ascending order, and four arrays hold
everything.

While counting, a gram of n ids is one int64, its code: gram a b c has ((a V + b) V + c). When the next code would not
fit, codes are replaced by their ranks among the different ones of the text, of which there are never more than the text
has ids.
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from bukva.core.compiled import compiled
from bukva.core.errors import BukvaError
from bukva.text.ids import Ids

Ints = npt.NDArray[np.int64]
Nodes = npt.NDArray[np.int32]

GREATEST = np.iinfo(np.int64).max
MOST_NODES = np.iinfo(np.int32).max


class Trie(NamedTuple):
    """The G n-grams of lengths 0 to K.

    firsts: (G + 1,) the first child of each node; its last child is before the first child of the next node.
    symbols: (G,) the last id of each gram.
    counts: (G,) how often each gram is in the text.
    continuations: (G,) before how many different ids it is, the start of the text included.
    levels: (K + 2,) the first node of each length, and G.
    """

    firsts: Nodes
    symbols: Nodes
    counts: Nodes
    continuations: Nodes
    levels: Ints


class _Level(NamedTuple):
    """The grams of one length in their order, and how many children each gram of the length before has."""

    codes: Ints
    symbols: Nodes
    counts: Nodes
    continuations: Nodes
    n_siblings: Nodes


def count_ngrams(ids: Ids, vocab_size: int, max_length: int) -> Trie:
    """The trie of all grams of (N,) ids up to a length.

    Raises:
        BukvaError: there are more grams than int32 can number; raised before longer ones are counted.
    """
    levels, n_nodes = [], 1
    for level in _levels(ids, vocab_size, max_length):
        levels.append(level)
        n_nodes += len(level.symbols)
        if max(n_nodes, len(ids)) > MOST_NODES:
            raise BukvaError(
                f"n-grams: train has {len(ids):,} ids and {n_nodes:,} different n-grams of up to {len(levels)} ids, "
                f"but at most {MOST_NODES:,} can be counted; use a shorter text, or shorter n-grams "
                "(baselines.max_order)."
            )
    last = np.zeros(len(levels[-1].symbols), np.int32)  # the longest grams have no children
    n_children = np.concatenate([*(level.n_siblings for level in levels), last])
    return Trie(
        firsts=np.cumsum(np.concatenate([[1], n_children]), dtype=np.int32),
        symbols=np.concatenate([np.zeros(1, np.int32), *(level.symbols for level in levels)]),
        counts=np.concatenate([np.array([len(ids)], np.int32), *(level.counts for level in levels)]),
        continuations=np.concatenate([np.ones(1, np.int32), *(level.continuations for level in levels)]),
        levels=np.cumsum([0, 1, *(len(level.symbols) for level in levels)]),
    )


def _levels(ids: Ids, vocab_size: int, max_length: int) -> Iterator[_Level]:
    V = vocab_size
    codes, bound = np.zeros(len(ids) + 1, np.int64), 1  # (N + 1,) of the empty gram; every code is below bound
    shorter = np.zeros(1, np.int64)  # the codes of all different grams of the length before
    keys = np.empty((2, len(ids)), np.int64)  # of this length and the one before; new memory takes as long as sorting
    for length in range(1, max_length + 1):
        codes = codes[:-1]  # the last gram has no next id
        codes *= V
        codes += ids[length - 1 :]  # (N - length + 1,) all grams of this length
        bound *= V
        level = _level(codes, ids[: max(len(ids) - length, 0)], shorter, V, keys[length % 2, : len(codes)])
        shorter = level.codes
        if bound * V * (V + 1) > GREATEST and length < max_length:  # the next id, and one before when counting
            sorting, bound = codes.argsort(), len(shorter)
            codes[sorting] = np.repeat(np.arange(bound), level.counts)
            shorter = np.arange(bound)
        yield level._replace(codes=shorter[:0])  # the codes are needed here only, and are large


def _level(codes: Ints, before: Ids, shorter: Ints, vocab_size: int, keys: Ints) -> _Level:
    """Count grams by the (M,) codes of all of them and the (M - 1,) ids before all but the first.

    keys: (M,), overwritten; the codes of the result are in it.
    """
    V = vocab_size
    np.multiply(codes, V + 1, out=keys)  # a gram and what is before it: 0 for the start of the text, otherwise 1 + id
    keys[1:] += before
    keys[1:] += 1
    keys.sort()
    counts, continuations = np.empty((2, len(keys)), np.int32)
    n = _count(keys, V + 1, counts, continuations)
    symbols, n_siblings = np.empty(n, np.int32), np.zeros(len(shorter), np.int32)
    _tell_parents(keys[:n], V, shorter, symbols, n_siblings)
    return _Level(keys[:n], symbols, counts[:n].copy(), continuations[:n].copy(), n_siblings)


@compiled
def _count(keys: Ints, n_before: int, counts: Nodes, continuations: Nodes) -> int:
    """Count each different gram of (M,) ascending keys; the (G,) codes replace the first keys. Returns G."""
    n, gram, last = 0, -1, -1
    for key in keys:
        if key != last:
            last = key
            if key // n_before != gram:
                gram = key // n_before
                keys[n], counts[n], continuations[n] = gram, 0, 0
                n += 1
            continuations[n - 1] += 1
        counts[n - 1] += 1
    return n


@compiled
def _tell_parents(codes: Ints, vocab_size: int, shorter: Ints, symbols: Nodes, n_siblings: Nodes) -> None:
    """Find the last id of (G,) ascending codes, and how many of them each of the shorter ones begins."""
    parent = 0
    for i, code in enumerate(codes):
        context = code // vocab_size
        symbols[i] = code - context * vocab_size
        while shorter[parent] != context:
            parent += 1
        n_siblings[parent] += 1
