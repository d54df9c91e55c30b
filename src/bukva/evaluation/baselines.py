"""Score the baselines (counted n-grams and compressors) on the same characters as the models."""

import numpy as np

from bukva.evaluation import compressors
from bukva.models.ngrams import counts
from bukva.models.ngrams.kneser_ney import KneserNey
from bukva.scoring.char_scores import Baselines
from bukva.text.held_out import HeldOut, nats_by_last_id
from bukva.text.ids import Nats, bits, bits_per_char
from bukva.text.tokenizers import CharTokenizer, ids_per_char

ORDERS = range(3, 9)  # lengths of the n-grams with a row in the table of scores, such as ngram_6
Rows = dict[str, dict[str, float]]  # bits per character, by name of the split and name of the baseline


def compress(text: HeldOut) -> Rows:
    """Return the scores of the compressors on the held-out splits. They do not depend on the tokenizer."""
    splits, n_symbols = text.splits, len(text.tokenizer)
    if text.tokenizer.alphabet is None:  # ids are not characters
        texts = {split: text.tokenizer.decode(ids) for split, ids in splits.items()}
        characters = CharTokenizer.train(texts.values())
        splits, n_symbols = {split: characters.encode(each) for split, each in texts.items()}, len(characters)
    return compressors.scores(splits["train"], {split: splits[split] for split in text.held_out_splits}, n_symbols)


def score(text: HeldOut, ngrams: KneserNey | None, compressed: Rows) -> Baselines:
    """Score the unigram, the exact bigram and the n-grams of each order in ORDERS that is counted.

    `ngrams` are counted on the training split; with None, they are not scored. The scores are combined with
    `compressed`, a result of `compress`.
    """
    train, V = text.splits["train"], len(text.tokenizer)
    nats = {
        name: {split: nats_by_last_id(scorer, works) for split, works in text.scored.items()}
        for name, scorer in counts.scorers(train, V).items()
    }
    if ngrams and (orders := [order for order in ORDERS if order <= ngrams.max_order]):
        nats |= _ngram_nats(ngrams, text, orders)
    candidates = [name for name in nats if name.startswith("ngram_")] or ["bigram_exact"]
    best = min(candidates, key=lambda name: float(nats[name]["val"].sum()))
    char_nats = {name: text.char_nats(scored) for name, scored in nats.items()}
    per_char = ids_per_char(train[1:], text.tokenizer)
    table = {"train": {name: value * per_char for name, value in counts.bits_of_train(train, V).items()}}
    for split in text.held_out_splits:
        uniform = bits(np.log(V)) * ids_per_char(text.splits[split], text.tokenizer)
        of_counts = {name: bits_per_char(scored[split]) for name, scored in char_nats.items()}
        table[split] = {"uniform": uniform, **of_counts, **compressed[split]}
    return Baselines(table, best, char_nats)


def _ngram_nats(model: KneserNey, text: HeldOut, orders: list[int]) -> dict[str, dict[str, Nats]]:
    """Return the losses in nats of all scored ids, by name of the baseline and name of the split."""
    result: dict[str, dict[str, Nats]] = {f"ngram_{order}": {} for order in orders}
    for split in text.held_out_splits:
        works = text.passages(split, max(orders) - 1)
        scored = [model.nats_by_order(work.ids, orders) for work in works]
        for order in orders:
            pairs = zip(works, scored, strict=True)
            nats = [by_order[order][work.n_context :] for work, by_order in pairs]
            result[f"ngram_{order}"][split] = np.concatenate(nats)
    return result
