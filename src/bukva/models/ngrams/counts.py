"""Compute three baselines without training: uniform, unigram and exact bigram.

The unigram and the bigram are counted on the training split. On this split, no other unigram or bigram probabilities
have a lower loss. To score `val` and `test`, 1 is added to each count. Otherwise a pair that does not occur in `train`
would have the probability 0 and an infinite loss.
"""

import numpy as np
import numpy.typing as npt

from bukva.text.ids import Ids, Scorer, bits

PairCounts = npt.NDArray[np.int64]
CHUNK = 2**18  # number of ids to count at a time, which limits the memory


def bits_of_train(train: Ids, vocab_size: int) -> dict[str, float]:
    """Return the bits per id of the training split, except its first id, by name of the baseline."""
    pairs = count_pairs(train, vocab_size)  # (V, V)
    singles = pairs.sum(0, keepdims=True)  # (1, V)
    return {
        "uniform": bits(np.log(vocab_size)),
        "unigram": bits(cross_entropy(singles, singles)),
        "bigram_exact": bits(cross_entropy(pairs, pairs)),
    }


def scorers(train: Ids, vocab_size: int) -> dict[str, Scorer]:
    """Return scoring functions for the unigram and the exact bigram of `train`, by name. Counts are increased by 1."""
    pairs = count_pairs(train, vocab_size)  # (V, V)
    singles, totals = pairs.sum(0) + 1, pairs.sum(1) + vocab_size  # (V,) each
    return {
        "unigram": lambda ids: np.log(singles.sum()) - np.log(singles[ids[1:]]),
        "bigram_exact": lambda ids: np.log(totals[ids[:-1]]) - np.log(pairs[ids[:-1], ids[1:]] + 1),
    }


def count_pairs(ids: Ids, vocab_size: int) -> PairCounts:
    """Return (V, V) counts of the pairs in (N,) `ids`. Entry (i, j) is the count of id j after id i."""
    V = vocab_size
    counts = np.zeros(V * V, np.int64)
    for start in range(0, len(ids) - 1, CHUNK):
        chunk = ids[start : start + CHUNK + 1].astype(np.int64)  # + 1 for the pair that ends in the next chunk
        counts += np.bincount(chunk[:-1] * V + chunk[1:], minlength=V * V)
    return counts.reshape(V, V)


def cross_entropy(seen: PairCounts, table: PairCounts) -> float:
    """Return the mean loss in nats of the pairs that `seen`, (R, V), counts. `table`, (R, V), predicts by its rows."""
    rows, columns = np.nonzero(seen)
    probabilities = table[rows, columns] / table.sum(axis=1)[rows]
    return float(-(seen[rows, columns] * np.log(probabilities)).sum() / seen.sum())
