"""A trie of all n-grams of a text up to a length. A gram is an n-gram of any length.

A gram of n ids is the child of the gram of its first n - 1 ids. Node 0 is the empty gram. Nodes are numbered by length,
then by parent, then by last id. So the children of a node are consecutive and ascending, and four arrays hold all
nodes.

During counting, each gram is represented by an int64 code. The code of the gram a b c is (a V + b) V + c. Before a code
would overflow, codes are replaced by their ranks among the different codes of the text. There are never more ranks than
ids in the text.
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

MAX_CODE = np.iinfo(np.int64).max
MAX_NODES = np.iinfo(np.int32).max


class Trie(NamedTuple):
    """The G grams of lengths 0 to K.

    firsts: (G + 1,) first child of each node. Its children end before the first child of the next node.
    symbols: (G,) last id of each gram.
    counts: (G,) number of occurrences of each gram in the text.
    continuations: (G,) number of different ids before each gram. The start of the text counts as an id.
    levels: (K + 2,) first node of each length, and G.
    """

    firsts: Nodes
    symbols: Nodes
    counts: Nodes
    continuations: Nodes
    levels: Ints


class _Level(NamedTuple):
    """The grams of one length, ascending, and the number of children of each gram that is one id shorter."""

    codes: Ints
    symbols: Nodes
    counts: Nodes
    continuations: Nodes
    n_per_parent: Nodes


def count_ngrams(ids: Ids, vocab_size: int, max_length: int) -> Trie:
    """Return the trie of all grams of (N,) ids up to max_length.

    Raises:
        BukvaError: there are more grams than int32 can number. It is raised before longer grams are counted.
    """
    levels, n_nodes = [], 1
    for level in _levels(ids, vocab_size, max_length):
        levels.append(level)
        n_nodes += len(level.symbols)
        if max(n_nodes, len(ids)) > MAX_NODES:
            raise BukvaError(
                f"n-grams: train has {len(ids):,} ids and {n_nodes:,} different n-grams of up to {len(levels)} ids. "
                f"At most {MAX_NODES:,} of each can be counted. Use a shorter text or a smaller baselines.max_order."
            )
    last = np.zeros(len(levels[-1].symbols), np.int32)  # the longest grams have no children
    n_children = np.concatenate([*(level.n_per_parent for level in levels), last])
    return Trie(
        firsts=np.cumsum(np.concatenate([[1], n_children]), dtype=np.int32),
        symbols=np.concatenate([np.zeros(1, np.int32), *(level.symbols for level in levels)]),
        counts=np.concatenate([np.array([len(ids)], np.int32), *(level.counts for level in levels)]),
        continuations=np.concatenate([np.ones(1, np.int32), *(level.continuations for level in levels)]),
        levels=np.cumsum([0, 1, *(len(level.symbols) for level in levels)]),
    )


def _levels(ids: Ids, vocab_size: int, max_length: int) -> Iterator[_Level]:
    V = vocab_size
    codes, bound = np.zeros(len(ids) + 1, np.int64), 1  # (N + 1,) codes of the empty gram; all codes are below bound
    shorter = np.zeros(1, np.int64)  # codes of all different grams that are one id shorter
    # two buffers, for this length and the previous one: allocating memory takes as long as sorting
    keys = np.empty((2, len(ids)), np.int64)
    for length in range(1, max_length + 1):
        codes = codes[:-1]  # no id follows the last gram
        codes *= V
        codes += ids[length - 1 :]  # (N - length + 1,), one for each occurrence of a gram
        bound *= V
        level = _level(codes, ids[: max(len(ids) - length, 0)], shorter, V, keys[length % 2, : len(codes)])
        shorter = level.codes
        if bound * V * (V + 1) > MAX_CODE and length < max_length:  # the next keys would overflow
            sorting, bound = codes.argsort(), len(shorter)
            codes[sorting] = np.repeat(np.arange(bound), level.counts)
            shorter = np.arange(bound)
        yield level._replace(codes=shorter[:0])  # drop the codes, which are large and not needed further


def _level(codes: Ints, before: Ids, shorter: Ints, vocab_size: int, keys: Ints) -> _Level:
    """Count the grams of one length.

    codes: (M,), code of each occurrence of a gram in the text.
    before: (M - 1,), the id before each occurrence, except the first one.
    keys: (M,), a buffer. The codes of the result are a view of it.
    """
    V = vocab_size
    np.multiply(codes, V + 1, out=keys)  # a key is a code and the id before it: 0 for the start of the text, or 1 + id
    keys[1:] += before
    keys[1:] += 1
    keys.sort()
    counts, continuations = np.empty((2, len(keys)), np.int32)
    n = _count(keys, V + 1, counts, continuations)
    symbols, n_per_parent = np.empty(n, np.int32), np.zeros(len(shorter), np.int32)
    _find_parents(keys[:n], V, shorter, symbols, n_per_parent)
    return _Level(keys[:n], symbols, counts[:n].copy(), continuations[:n].copy(), n_per_parent)


@compiled
def _count(keys: Ints, n_before: int, counts: Nodes, continuations: Nodes) -> int:
    """Count each different gram of (M,) ascending keys, overwrite the first G keys by the codes, and return G."""
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
def _find_parents(codes: Ints, vocab_size: int, shorter: Ints, symbols: Nodes, n_per_parent: Nodes) -> None:
    """Fill the last id of each of (G,) ascending codes, and the number of codes that extend each shorter gram."""
    parent = 0
    for i, code in enumerate(codes):
        context = code // vocab_size
        symbols[i] = code - context * vocab_size
        while shorter[parent] != context:
            parent += 1
        n_per_parent[parent] += 1
