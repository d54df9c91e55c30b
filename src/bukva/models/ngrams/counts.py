"""Baselines that are counted: uniform, unigram and exact bigram, in closed form.

Counted on train. On train the counts are used as they are (no table of that order has a lower loss); on val and test
one is added to each, because a pair that train lacks has infinitely many bits without it.
"""

import numpy as np
import numpy.typing as npt

from bukva.text.ids import Ids, Scorer, bits

PairCounts = npt.NDArray[np.int64]
CHUNK = 2**18  # ids counted at a time, to bound the memory


def fitted_to_train(train: Ids, vocab_size: int) -> dict[str, float]:
    """Bits per character of train under its own counts, over all its characters but the first."""
    pairs = count_pairs(train, vocab_size)  # (V, V)
    singles = pairs.sum(0, keepdims=True)  # (1, V)
    return {
        "uniform": bits(np.log(vocab_size)),
        "unigram": bits(cross_entropy(singles, singles)),
        "bigram_exact": bits(cross_entropy(pairs, pairs)),
    }


def scorers(train: Ids, vocab_size: int) -> dict[str, Scorer]:
    """The tables of unigrams and of pairs, with one added to each count of train, as functions of text."""
    pairs = count_pairs(train, vocab_size)  # (V, V)
    singles, totals = pairs.sum(0) + 1, pairs.sum(1) + vocab_size  # (V,) each
    return {
        "unigram": lambda ids: np.log(singles.sum()) - np.log(singles[ids[1:]]),
        "bigram_exact": lambda ids: np.log(totals[ids[:-1]]) - np.log(pairs[ids[:-1], ids[1:]] + 1),
    }


def exact_bigram(train: Ids, runs: list[Ids], vocab_size: int) -> float:
    """Bits per character of runs of text under the pairs of train, one added to each."""
    seen = np.sum([count_pairs(run, vocab_size) for run in runs], axis=0)
    return bits(cross_entropy(seen, count_pairs(train, vocab_size) + 1))


def count_pairs(ids: Ids, vocab_size: int) -> PairCounts:
    """(N,) ids -> (V, V), how often id j follows id i; N - 1 pairs in all."""
    V = vocab_size
    counts = np.zeros(V * V, np.int64)
    for start in range(0, len(ids) - 1, CHUNK):
        chunk = ids[start : start + CHUNK + 1].astype(np.int64)  # one more, so that no pair falls between chunks
        counts += np.bincount(chunk[:-1] * V + chunk[1:], minlength=V * V)
    return counts.reshape(V, V)


def cross_entropy(seen: PairCounts, table: PairCounts) -> float:
    """Mean nats of (R, V) pairs seen, under a (R, V) table of counts whose rows are normalised."""
    rows, columns = np.nonzero(seen)
    shares = table[rows, columns] / table.sum(axis=1)[rows]
    return float(-(seen[rows, columns] * np.log(shares)).sum() / seen.sum())
