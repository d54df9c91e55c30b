"""Build a trie of all n-grams of a text up to a maximum length.

Each node is an n-gram. The parent of an n-gram is the n-gram without the last id. Node 0, the root, is the empty
n-gram. Nodes are numbered by length, then by parent, then by last id. So the children of a node have consecutive
numbers and are sorted by last id. This allows storing the trie in a few arrays.

During counting, each n-gram is represented by an int64 code. The code of the n-gram a b c is (a V + b) V + c, where V
is the vocabulary size. Before a code would overflow, codes are replaced by their ranks among the different codes of the
text. A rank is always smaller than the number of ids in the text.
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
    """The G n-grams of lengths 0 to K in a text. Arrays of length G are indexed by the node of the n-gram."""

    firsts: Nodes  # (G + 1,); the children of node i are the nodes from firsts[i] to firsts[i + 1] - 1
    symbols: Nodes  # (G,), last id of each n-gram
    counts: Nodes  # (G,), number of occurrences of each n-gram in the text
    continuations: Nodes  # (G,), number of different ids before each n-gram; the start of the text counts as an id
    levels: Ints  # (K + 2,); the n-grams of n ids are the nodes from levels[n] to levels[n + 1] - 1


class _Level(NamedTuple):
    """The different n-grams of one length, in ascending order of their codes (see `Trie`)."""

    codes: Ints
    symbols: Nodes
    counts: Nodes
    continuations: Nodes
    n_per_parent: Nodes  # number of children of each n-gram that is one id shorter


def count_ngrams(ids: Ids, vocab_size: int, max_length: int) -> Trie:
    """Return the trie of all n-grams of (N,) `ids` that have at most `max_length` ids.

    Raises:
        BukvaError: the text has more ids, or more different n-grams, than an int32 can number.
    """
    levels, n_nodes = [], 1
    for level in _levels(ids, vocab_size, max_length):
        levels.append(level)
        n_nodes += len(level.symbols)
        if max(n_nodes, len(ids)) > MAX_NODES:
            raise BukvaError(
                f"The training split has {len(ids):,} ids and {n_nodes:,} different n-grams of up to {len(levels)} "
                f"ids. At most {MAX_NODES:,} ids and {MAX_NODES:,} n-grams can be counted. Use a shorter text or a "
                "smaller `baselines.max_order`."
            )
    last = np.zeros(len(levels[-1].symbols), np.int32)  # the longest n-grams have no children
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
    codes, bound = np.zeros(len(ids) + 1, np.int64), 1  # (N + 1,) codes of the empty n-gram; all codes are below bound
    shorter = np.zeros(1, np.int64)  # codes of all different n-grams that are one id shorter
    # two buffers, for this length and the previous one, because allocating new memory takes as long as sorting
    keys = np.empty((2, len(ids)), np.int64)
    for length in range(1, max_length + 1):
        codes = codes[:-1]  # no id follows the last n-gram
        codes *= V
        codes += ids[length - 1 :]  # (N - length + 1,), one for each occurrence of an n-gram
        bound *= V
        level = _level(codes, ids[: max(len(ids) - length, 0)], shorter, V, keys[length % 2, : len(codes)])
        shorter = level.codes
        if bound * V * (V + 1) > MAX_CODE and length < max_length:  # the next keys would overflow
            sorting, bound = codes.argsort(), len(shorter)
            codes[sorting] = np.repeat(np.arange(bound), level.counts)
            shorter = np.arange(bound)
        yield level._replace(codes=shorter[:0])  # drop the codes, which are large and not needed further


def _level(codes: Ints, before: Ids, shorter: Ints, vocab_size: int, keys: Ints) -> _Level:
    """Count the n-grams of one length."""
    V = vocab_size
    # a key combines a code with 1 + the id before it, or with 0 at the start of the text
    np.multiply(codes, V + 1, out=keys)
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
    """Count the G different n-grams in (M,) ascending `keys`, and return G."""
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
    """Fill `symbols` and `n_per_parent` for the n-grams with the ascending `codes`, (G,)."""
    parent = 0
    for i, code in enumerate(codes):
        context = code // vocab_size
        symbols[i] = code - context * vocab_size
        while shorter[parent] != context:
            parent += 1
        n_per_parent[parent] += 1
