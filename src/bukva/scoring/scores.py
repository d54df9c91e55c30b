"""Score the models of an experiment, and combine their scores with the scores of the baselines."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from bukva.core.progress import OnProgress, no_progress, progress_bar
from bukva.core.schema import Evaluate
from bukva.models.base import LanguageModel
from bukva.models.bigram import Bigram
from bukva.models.folder import read_numerics
from bukva.models.ngrams.counts import count_pairs
from bukva.models.ngrams.stored import counts_of
from bukva.models.registry import count_parameters
from bukva.project.stages import TrainedModel
from bukva.scoring.char_scores import CONTEXT, Baselines
from bukva.scoring.rows import NGRAM
from bukva.scoring.window_rule import (
    MAX_SCORED_IDS,
    Score,
    context_of,
    evenly_spaced,
    ids_per_batch,
    nats_of_passages,
    stride_of,
)
from bukva.text.held_out import HeldOut, Passage, scored_ids
from bukva.text.ids import CharNats, Ids, bits_per_char
from bukva.text.tokenizers import Tokenizer, sum_counts

CONTEXT_CHARS = 10_000  # characters of a split on which a short context is compared with full windows
AT_ONCE = 2**22  # maximum number of probabilities of n-grams that are in memory at the same time


@dataclass(frozen=True)
class Scores:
    """Results of stage evaluate.

    table: content of scores.json, without the chart.
    nats: (N,) loss in nats of each held-out character, by name of the model or baseline and then by split.
    """

    table: dict[str, Any]
    nats: dict[str, dict[str, CharNats]]


def evaluate(models: dict[str, LanguageModel], text: HeldOut, params: Evaluate, baselines: Baselines) -> Scores:
    """Score every model on val, on test and on the training split. Add the scores of `baselines`.

    All models use the block size and stride of the GPT. On val and test, a GPT with n-grams is also scored without its
    n-grams.
    """
    gpt = models["gpt"]
    T, stride, splits = gpt.block_size, stride_of(gpt.block_size), text.held_out_splits
    passages = {split: text.passages(split, context_of(gpt, T, stride)) for split in splits}
    table: dict[str, Any] = {name: {"train": _on_train(name, model, text, T)} for name, model in models.items()}
    if gpt.ngrams:
        models, table["network"] = models | {"network": gpt.without_ngrams()}, {}
    nats: dict[str, dict[str, CharNats]] = {name: {} for name in models}
    for name, model in models.items():
        for split in splits:
            nats[name][split], table[name][split] = _on_held_out(name, model, text, split, passages[split], T)
    table |= {"baselines": baselines.table, "best_counted": baselines.best}
    table["window"] = {"length": T, "stride": stride, "unit": text.tokenizer.unit}
    table["context"] = {split: value_of_context(gpt, nats["gpt"][split], text, split, params) for split in splits}
    if text.tokenizer.unit == "character":
        table["counted_accuracy"] = counted_accuracy(text, baselines.best)  # on val
    return Scores(table, nats | baselines.nats)


def _on_held_out(
    name: str, model: LanguageModel, text: HeldOut, split: str, passages: list[Passage], block_size: int
) -> tuple[CharNats, dict[str, float]]:
    n_ids, right = sum(len(passage.scored) for passage in passages), torch.zeros((), dtype=torch.int64)

    def count_right(logits: Tensor, followed: Tensor) -> None:
        nonlocal right
        right = right.to(logits.device) + (logits.argmax(dim=-1) == followed).sum()

    with progress_bar(f"evaluate: {name}, {split}", n_ids, text.tokenizer.unit) as on_progress:
        stride = stride_of(block_size)
        id_nats = nats_of_passages(model, passages, block_size, stride, on_progress=on_progress, watch=count_right)
    nats = text.passage_char_nats(id_nats, passages)
    fields = _fields(Score.of(nats, len(nats)), text.n_bytes[split])
    # an accuracy per byte or token cannot be compared with an accuracy per character
    return nats, fields | ({"accuracy": int(right) / n_ids} if text.tokenizer.unit == "character" else {})


def _on_train(name: str, model: LanguageModel, text: HeldOut, block_size: int) -> dict[str, float]:
    """Score the training split as one stream, as in training: the end of a work is context for the next work."""
    # The bigram is scored on the whole split. Other models are scored on evenly spaced excerpts, which have as many ids
    # as val in total, but at most MAX_SCORED_IDS.
    train = text.splits["train"]
    if isinstance(model, Bigram):
        excerpts, scored = [Passage(0, train, 1)], score_pairs(model, train, text.tokenizer)
    else:
        excerpts = evenly_spaced(train, min(len(text.splits["val"]), MAX_SCORED_IDS), model.n_before)
        n_ids = sum(len(excerpt.scored) for excerpt in excerpts)
        with progress_bar(f"evaluate: {name}, train", n_ids, text.tokenizer.unit) as on_progress:
            scored = score(model, excerpts, text.tokenizer, block_size, stride_of(block_size), on_progress)
    return _fields(scored, sum(sum_counts(text.tokenizer.bytes_of, excerpt.scored) for excerpt in excerpts))


def _fields(score: Score, n_bytes: int) -> dict[str, float]:
    return {
        "nats_per_char": score.nats_per_char,
        "bits_per_char": score.bits_per_char,
        "bits_per_byte": score.bits_per_char * score.chars / n_bytes,
        "chars": score.chars,
    }


def counted_accuracy(text: HeldOut, best: str) -> dict[str, float]:
    """Return the accuracy on val of the counted bigram and of the n-gram baseline `best`, by name of the baseline.

    Accuracy is the fraction of characters for which the most likely prediction is right. The n-grams are left out if
    val has more than MAX_SCORED_IDS ids, because they would take minutes, and if `best` is "bigram_exact".
    """
    train, V, works = text.splits["train"], len(text.tokenizer), text.scored["val"]
    targets = scored_ids(works)
    likeliest_next = count_pairs(train, V).argmax(axis=1)  # (V,), for each id, the id that follows it most often
    guesses = [likeliest_next[work.ids[work.n_context - 1 : -1]] for work in works]
    accuracy = {"bigram_exact": float((np.concatenate(guesses) == targets).mean())}
    if best.startswith(NGRAM) and len(targets) <= MAX_SCORED_IDS:
        order = int(best.removeprefix(NGRAM))
        counts, step, guesses = counts_of(train, V, order, text.ngrams), max(1, AT_ONCE // V), []
        for work in text.passages("val", order - 1):
            ids = work.ids.astype(np.int64)
            for first in range(work.n_context, len(ids), step):
                stop = min(first + step, len(ids))
                window = ids[None, max(0, first - order + 1) : stop - 1]
                guesses.append(counts.lookup(window, [order], stop - first).probabilities[0, :, 0].argmax(axis=1))
        accuracy[best] = float((np.concatenate(guesses) == targets).mean())
    return accuracy


def value_of_context(
    model: LanguageModel, full_nats: CharNats, text: HeldOut, split: str, params: Evaluate
) -> dict[str, float]:
    """Compare the scores of a model with a short context and with full windows, on the same characters.

    The characters are those at the beginning of every work, about CONTEXT_CHARS in total. `full_nats`, (N,), are the
    losses of all characters of the split in full windows.
    """
    fraction = min(1.0, CONTEXT_CHARS / sum_counts(text.tokenizer.chars_of, text.splits[split]))
    texts = text.passages(split, params.short_context, fraction)
    # With stride 1, each id has exactly short_context ids of context. The last argument hides earlier ids from n-grams.
    short = text.passage_char_nats(
        nats_of_passages(model, texts, params.short_context, 1, ngrams_see_before_window=False), texts
    )
    chars, starts = text.chars[split], np.cumsum(text.chars[split]) - text.chars[split]  # each (n_works,)
    position = np.arange(len(full_nats)) - np.repeat(starts, chars)  # (N,), position of each character within its work
    full = full_nats[position < np.repeat(text.chars_of_works(split, texts), chars)]
    short_bits, full_bits = bits_per_char(short), bits_per_char(full)
    return {
        "short_context": params.short_context,
        "short_bits_per_char": short_bits,
        "full_bits_per_char": full_bits,
        "gain_bits_per_char": short_bits - full_bits,
        "chars": len(full),
    }


def headline(table: dict[str, Any], models: Iterable[str]) -> dict[str, dict[str, float]]:
    """Return the content of metrics.json: the bits per character, by name of the model and then by split.

    The names are those in `models`, and "counted" for the best counted baseline. Accuracy on val is next to the splits.
    """
    splits = [split for split in table["baselines"] if split != "train"]
    metrics = {}
    for name in models:
        metrics[name] = {split: table[name][split]["bits_per_char"] for split in splits}
        if "accuracy" in table[name]["val"]:
            metrics[name]["accuracy"] = table[name]["val"]["accuracy"]
    return metrics | {"counted": {split: table["baselines"][split][table["best_counted"]] for split in splits}}


def sampled(scores: Scores, text: HeldOut) -> str:
    """Return a line about the scores that samples of the splits suffice for, or "" if everything was scored."""
    train = scores.table["gpt"]["train"]["chars"], sum_counts(text.tokenizer.chars_of, text.splits["train"][1:])
    contexts = [(split, scores.table["context"][split]["chars"], int(text.chars[split].sum())) for split in text.chars]
    of_context = ", ".join(f"{n:,} of {whole:,} of {split}" for split, n, whole in contexts if n < whole)
    parts = [f"the score on train ({train[0]:,} of {train[1]:,} characters; split.val)"] if train[0] < train[1] else []
    parts += [f"the gain from context ({of_context})"] if of_context else []
    what = " and ".join(text.held_out_splits)
    return f"all of {what} is scored; samples suffice for {' and '.join(parts)}" if parts else ""


def describe(text: HeldOut, models: dict[str, LanguageModel], trained: dict[str, TrainedModel]) -> dict[str, Any]:
    """Return the content of about.json, which describes the scores in data/scores (char_scores.py)."""
    T = models["gpt"].block_size
    return {
        "window": {"length": T, "stride": stride_of(T), "context": CONTEXT},
        **text.describe(),
        "models": {
            name: {"parameters": count_parameters(model.config), "numerics": read_numerics(trained[name].folder)}
            for name, model in models.items()
        },
    }


def score(
    model: LanguageModel,
    excerpts: list[Passage],
    tokenizer: Tokenizer,
    block_size: int,
    stride: int,
    on_progress: OnProgress = no_progress,
) -> Score:
    """Return the score of a model on `excerpts` from the training split."""
    # n-grams do not count the occurrence that is being predicted (leave-one-out)
    nats = nats_of_passages(model, excerpts, block_size, stride, of_train=bool(model.ngrams), on_progress=on_progress)
    return Score.of(nats, sum(sum_counts(tokenizer.chars_of, excerpt.scored) for excerpt in excerpts))


@torch.inference_mode()
def score_pairs(model: LanguageModel, ids: Ids, tokenizer: Tokenizer) -> Score:
    """Return the score of a model on (N,) ids. The model must predict the next id from the last id alone.

    The loss of each pair of adjacent ids is computed once, and multiplied by the number of occurrences of the pair.
    """
    V, nats = len(tokenizer), 0.0
    counts = count_pairs(ids, V)  # (V, V)
    n_rows = ids_per_batch(model)
    for start in range(0, V, n_rows):
        lasts = torch.arange(start, min(start + n_rows, V), device=next(model.parameters()).device)
        log_probs = model(lasts[:, None])[:, 0].float().log_softmax(dim=1).cpu().numpy()  # (R, V)
        rows = counts[start : start + n_rows]
        occurs = rows > 0
        nats -= float((rows[occurs] * log_probs[occurs]).sum(dtype=np.float64))
    chars = sum_counts(tokenizer.chars_of, ids[1:])
    return Score(nats / chars, chars)
