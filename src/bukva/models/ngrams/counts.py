"""Baselines in closed form: uniform, unigram and exact bigram, counted on the training split.

The training split is scored under the counts themselves, and no other table of the same order has a lower loss on it.
For `val` and `test`, 1 is added to each count. Without it, a pair that does not occur in `train` would cost infinitely
many bits.
"""

import numpy as np
import numpy.typing as npt

from bukva.text.ids import Ids, Scorer, bits

PairCounts = npt.NDArray[np.int64]
CHUNK = 2**18  # ids counted at a time, to bound the memory


def bits_of_train(train: Ids, vocab_size: int) -> dict[str, float]:
    """Return the bits per id of the training split under its own counts, without its first id."""
    pairs = count_pairs(train, vocab_size)  # (V, V)
    singles = pairs.sum(0, keepdims=True)  # (1, V)
    return {
        "uniform": bits(np.log(vocab_size)),
        "unigram": bits(cross_entropy(singles, singles)),
        "bigram_exact": bits(cross_entropy(pairs, pairs)),
    }


def scorers(train: Ids, vocab_size: int) -> dict[str, Scorer]:
    """Return a unigram scorer and a bigram scorer, with 1 added to each count of the training split."""
    pairs = count_pairs(train, vocab_size)  # (V, V)
    singles, totals = pairs.sum(0) + 1, pairs.sum(1) + vocab_size  # (V,) each
    return {
        "unigram": lambda ids: np.log(singles.sum()) - np.log(singles[ids[1:]]),
        "bigram_exact": lambda ids: np.log(totals[ids[:-1]]) - np.log(pairs[ids[:-1], ids[1:]] + 1),
    }


def exact_bigram(train: Ids, runs: list[Ids], vocab_size: int) -> float:
    """Return the bits per id of several texts under a bigram, with 1 added to each count of the training split."""
    seen = np.sum([count_pairs(run, vocab_size) for run in runs], axis=0)
    return bits(cross_entropy(seen, count_pairs(train, vocab_size) + 1))


def count_pairs(ids: Ids, vocab_size: int) -> PairCounts:
    """Return a (V, V) table of the N - 1 pairs of (N,) ids: entry (i, j) counts how often id j follows id i."""
    V = vocab_size
    counts = np.zeros(V * V, np.int64)
    for start in range(0, len(ids) - 1, CHUNK):
        chunk = ids[start : start + CHUNK + 1].astype(np.int64)  # one more id for the pair that two chunks share
        counts += np.bincount(chunk[:-1] * V + chunk[1:], minlength=V * V)
    return counts.reshape(V, V)


def cross_entropy(seen: PairCounts, table: PairCounts) -> float:
    """Return the mean nats of the pairs counted in `seen`, (R, V), under `table`, (R, V) counts that are normalized."""
    rows, columns = np.nonzero(seen)
    probabilities = table[rows, columns] / table.sum(axis=1)[rows]
    return float(-(seen[rows, columns] * np.log(probabilities)).sum() / seen.sum())
