"""Score the baselines (counted n-grams and compressors) on the same characters as the models."""

import numpy as np

from bukva.baselines import compressors
from bukva.models.ngrams import counts
from bukva.models.ngrams.kneser_ney import KneserNey
from bukva.text.held_out import HeldOut, nats_by_last_id
from bukva.text.ids import CharNats, Ids, Nats, bits, bits_per_char
from bukva.text.scores import Baselines
from bukva.text.tokenizers.base import Tokenizer, ids_per_char
from bukva.text.tokenizers.char import CharTokenizer

ORDERS = range(3, 9)  # lengths of the n-grams with a row in the table of scores, such as ngram_6
Rows = dict[str, dict[str, float]]  # bits per character, by name of the split and name of the baseline


def compress(text: HeldOut) -> Rows:
    """Score the compressors on the held-out splits.

    Return bits per character, by name of the split and name of the compressor.
    """
    chars, n_symbols = _as_characters(text.splits, text.tokenizer)
    return compressors.scores(chars["train"], {split: chars[split] for split in text.held_out_splits}, n_symbols)


def score(text: HeldOut, ngrams: KneserNey | None, compressed: Rows) -> Baselines:
    """Score the baselines that are counted on the training split, and combine the scores with `compressed`.

    These baselines are the unigram, the exact bigram, and the n-grams of each order in ORDERS that is counted.

    Args:
        text: all splits.
        ngrams: n-gram counts of the training split. With `None`, n-grams are not scored.
        compressed: scores of the compressors, as returned by `compress`.
    """
    nats = {
        name: {split: nats_by_last_id(scorer, works) for split, works in text.scored.items()}
        for name, scorer in counts.scorers(text.splits["train"], len(text.tokenizer)).items()
    }
    if ngrams and (orders := [order for order in ORDERS if order <= ngrams.max_order]):
        nats |= _ngram_nats(ngrams, text, orders)
    candidates = [name for name in nats if name.startswith("ngram_")] or ["bigram_exact"]
    best = min(candidates, key=lambda name: float(nats[name]["val"].sum()))
    char_nats = {name: text.char_nats(scored) for name, scored in nats.items()}
    return Baselines(_table(char_nats, text, compressed), best, char_nats)


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


def _table(char_nats: dict[str, dict[str, CharNats]], text: HeldOut, compressed: Rows) -> Rows:
    train, V = text.splits["train"], len(text.tokenizer)
    fitted, per_char = counts.bits_of_train(train, V), ids_per_char(train[1:], text.tokenizer)
    result = {"train": {name: value * per_char for name, value in fitted.items()}}
    for split in text.held_out_splits:
        result[split] = {
            "uniform": bits(np.log(V)) * ids_per_char(text.splits[split], text.tokenizer),
            **{name: bits_per_char(nats[split]) for name, nats in char_nats.items()},
            **compressed[split],
        }
    return result


def _as_characters(splits: dict[str, Ids], tokenizer: Tokenizer) -> tuple[dict[str, Ids], int]:
    """Return the splits encoded with one id per character, and the number of different ids."""
    if tokenizer.alphabet is not None:
        return splits, len(tokenizer)
    texts = {split: tokenizer.decode(ids) for split, ids in splits.items()}
    characters = CharTokenizer.train(texts.values())
    return {split: characters.encode(text) for split, text in texts.items()}, len(characters)
