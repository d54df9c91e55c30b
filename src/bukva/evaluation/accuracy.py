"""Accuracy: the share of characters whose likeliest guess is right.

Only of characters: the share of bytes or tokens cannot be compared with it, so there is none with these tokenizers.
"""

import numpy as np
import numpy.typing as npt

from bukva.evaluation.rows import NGRAM
from bukva.models.ngrams.counts import count_pairs
from bukva.models.ngrams.stored import counts_of
from bukva.models.window_rule import MOST_SCORED
from bukva.text.held_out import HeldOut, scored_ids
from bukva.text.ids import Ids

AT_ONCE = 2**22  # probabilities that are computed together


def counted_accuracy(text: HeldOut, best: str) -> dict[str, float]:
    """Return the accuracy on val of the counted bigram and of the best n-grams, by their keys in scores.json.

    The n-grams of a val with more than MOST_SCORED ids are left out, because they take minutes.
    """
    train, V = text.splits["train"], len(text.tokenizer)
    after = count_pairs(train, V).argmax(axis=1)  # (V,) the likeliest follower of each id
    works = text.scored["val"]
    guesses = [after[work.ids[work.n_context - 1 : -1]] for work in works]
    found = {"bigram_exact": _share_right(guesses, scored_ids(works))}
    if best.startswith(NGRAM) and len(scored_ids(works)) <= MOST_SCORED:
        found[best] = _of_ngrams(text, int(best.removeprefix(NGRAM)))
    return found


def _of_ngrams(text: HeldOut, order: int) -> float:
    counts = counts_of(text.splits["train"], len(text.tokenizer), order, text.ngrams)
    works, guesses = text.passages("val", order - 1), []
    step = max(1, AT_ONCE // counts.vocab_size)
    for work in works:
        ids = work.ids.astype(np.int64)
        for first in range(work.n_context, len(ids), step):
            stop = min(first + step, len(ids))
            window = ids[None, max(0, first - order + 1) : stop - 1]
            guesses.append(counts.lookup(window, [order], stop - first).probabilities[0, :, 0].argmax(axis=1))
    return _share_right(guesses, scored_ids(works))


def _share_right(guesses: list[npt.NDArray[np.int64]], followed: Ids) -> float:
    return float((np.concatenate(guesses) == followed).mean())
