"""Baselines that are counted: uniform, unigram and exact bigram, in closed form.

Counted on train. On train the counts are used as they are (no table of that order has a lower loss); on val and test
one is added to each, because a pair that train lacks has infinitely many bits without it.
"""

import numpy as np
import numpy.typing as npt

from bukva.base.ids import Ids
from bukva.base.units import bits

PairCounts = npt.NDArray[np.int64]
CHUNK = 2**18  # ids counted at a time, to bound the memory


def baselines(splits: dict[str, Ids], vocab_size: int) -> dict[str, dict[str, float]]:
    """Bits per character of every split under three tables, over all its characters but the first.

    Returns:
        split -> {"uniform": log2 V, "unigram": by frequency, "bigram_exact": by the character before}.
    """
    trained = count_pairs(splits["train"], vocab_size)  # (V, V)
    result = {}
    for split, ids in splits.items():
        pairs, smoothing = (trained, 0) if split == "train" else (count_pairs(ids, vocab_size), 1)
        result[split] = {
            "uniform": bits(np.log(vocab_size)),
            "unigram": bits(cross_entropy(pairs.sum(0, keepdims=True), trained.sum(0, keepdims=True) + smoothing)),
            "bigram_exact": bits(cross_entropy(pairs, trained + smoothing)),
        }
    return result


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
