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
    """Return the bits per id of the training split under each baseline, by name of the baseline.

    The baselines are counted on the same split. The first id is not scored.
    """
    pairs = count_pairs(train, vocab_size)  # (V, V)
    singles = pairs.sum(0, keepdims=True)  # (1, V)
    return {
        "uniform": bits(np.log(vocab_size)),
        "unigram": bits(cross_entropy(singles, singles)),
        "bigram_exact": bits(cross_entropy(pairs, pairs)),
    }


def scorers(train: Ids, vocab_size: int) -> dict[str, Scorer]:
    """Return scoring functions for the unigram and the exact bigram, by name.

    Each function takes the (n,) ids of a text and returns the (n - 1,) nats of all ids except the first. The
    probabilities are computed from the counts of `train`, after 1 is added to each count.
    """
    pairs = count_pairs(train, vocab_size)  # (V, V)
    singles, totals = pairs.sum(0) + 1, pairs.sum(1) + vocab_size  # (V,) each
    return {
        "unigram": lambda ids: np.log(singles.sum()) - np.log(singles[ids[1:]]),
        "bigram_exact": lambda ids: np.log(totals[ids[:-1]]) - np.log(pairs[ids[:-1], ids[1:]] + 1),
    }


def exact_bigram(train: Ids, texts: list[Ids], vocab_size: int) -> float:
    """Return the bits per id of all `texts` together under the exact bigram.

    The bigram is counted on `train`, and 1 is added to each count. The first id of each text is not scored.
    """
    seen = np.sum([count_pairs(text, vocab_size) for text in texts], axis=0)
    return bits(cross_entropy(seen, count_pairs(train, vocab_size) + 1))


def count_pairs(ids: Ids, vocab_size: int) -> PairCounts:
    """Return the number of times that each id follows each id in (N,) `ids`.

    The result is (V, V) for a vocabulary of V ids. Its entry (i, j) is the count of id j after id i.
    """
    V = vocab_size
    counts = np.zeros(V * V, np.int64)
    for start in range(0, len(ids) - 1, CHUNK):
        chunk = ids[start : start + CHUNK + 1].astype(np.int64)  # + 1 for the pair that ends in the next chunk
        counts += np.bincount(chunk[:-1] * V + chunk[1:], minlength=V * V)
    return counts.reshape(V, V)


def cross_entropy(seen: PairCounts, table: PairCounts) -> float:
    """Return the mean loss in nats of pairs of ids. `seen` contains how often each pair occurs.

    The probability of a pair is its count in `table`, divided by the sum of the counts in the same row. Both arrays are
    (R, V). They have one row for each of R contexts and one column for each of V ids.
    """
    rows, columns = np.nonzero(seen)
    probabilities = table[rows, columns] / table.sum(axis=1)[rows]
    return float(-(seen[rows, columns] * np.log(probabilities)).sum() / seen.sum())
