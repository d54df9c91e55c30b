"""Compute the accuracy of baselines that count the training split: the bigram and the best n-grams.

Accuracy is the fraction of characters for which the most likely prediction is right. It is computed only with the
tokenizer `char`, because an accuracy per byte or token cannot be compared with an accuracy per character.
"""

import numpy as np
import numpy.typing as npt

from bukva.evaluation.rows import NGRAM
from bukva.models.ngrams.counts import count_pairs
from bukva.models.ngrams.stored import counts_of
from bukva.models.window_rule import MAX_SCORED_IDS
from bukva.text.held_out import HeldOut, scored_ids
from bukva.text.ids import Ids

AT_ONCE = 2**22  # maximum number of probabilities that are in memory at the same time


def counted_accuracy(text: HeldOut, best: str) -> dict[str, float]:
    """Return the accuracy on val of the counted bigram and of the n-gram baseline `best`, by name of the baseline.

    The n-gram baseline is left out if val has more than MAX_SCORED_IDS ids, because it would take minutes.

    best: name of the counted baseline with the best score on val, such as "ngram_6". It is "bigram_exact" if no n-gram
        baseline was scored. In this case, only the accuracy of the bigram is returned.
    """
    train, V = text.splits["train"], len(text.tokenizer)
    likeliest_next = count_pairs(train, V).argmax(axis=1)  # (V,), for each id, the id that follows it most often
    works = text.scored["val"]
    guesses = [likeliest_next[work.ids[work.n_context - 1 : -1]] for work in works]
    accuracy = {"bigram_exact": _fraction_right(guesses, scored_ids(works))}
    if best.startswith(NGRAM) and len(scored_ids(works)) <= MAX_SCORED_IDS:
        accuracy[best] = _ngram_accuracy(text, int(best.removeprefix(NGRAM)))
    return accuracy


def _ngram_accuracy(text: HeldOut, order: int) -> float:
    counts = counts_of(text.splits["train"], len(text.tokenizer), order, text.ngrams)
    works, guesses = text.passages("val", order - 1), []
    step = max(1, AT_ONCE // counts.vocab_size)
    for work in works:
        ids = work.ids.astype(np.int64)
        for first in range(work.n_context, len(ids), step):
            stop = min(first + step, len(ids))
            window = ids[None, max(0, first - order + 1) : stop - 1]
            guesses.append(counts.lookup(window, [order], stop - first).probabilities[0, :, 0].argmax(axis=1))
    return _fraction_right(guesses, scored_ids(works))


def _fraction_right(guesses: list[npt.NDArray[np.int64]], targets: Ids) -> float:
    return float((np.concatenate(guesses) == targets).mean())
