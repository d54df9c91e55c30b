"""Score the models of an experiment, and combine their scores with the scores of the baselines."""

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from bukva.core.progress import progress_bar
from bukva.core.schema import Evaluate
from bukva.models.base import LanguageModel
from bukva.models.bigram import Bigram
from bukva.models.folder import read_numerics
from bukva.models.ngrams.counts import count_pairs
from bukva.models.ngrams.stored import counts_of
from bukva.models.registry import count_parameters
from bukva.project.stages import TrainedModel
from bukva.scoring.char_scores import CONTEXT, Baselines
from bukva.scoring.metrics import METRICS, metrics_in
from bukva.scoring.rows import NGRAM
from bukva.scoring.window_rule import (
    MAX_SCORED_IDS,
    context_of,
    evenly_spaced,
    ids_per_batch,
    nats_of_passages,
    stride_of,
)
from bukva.text.held_out import HeldOut, Passage
from bukva.text.ids import CharNats, Ids, Lengths, bits, bits_per_char
from bukva.text.tokenizers import sum_counts

CONTEXT_CHARS = 10_000  # characters of a split on which a short context is compared with full windows
AT_ONCE = 2**22  # maximum number of probabilities of counted models that are in memory at the same time


class Scores(NamedTuple):
    """Results of stage evaluate."""

    table: dict[str, Any]  # content of scores.json, without the chart
    nats: dict[str, dict[str, CharNats]]  # (N,) losses of characters in nats, by names of model or baseline and split


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
    return Scores(table | counted_scores(text, baselines), nats | baselines.nats)


class _MetricSums:
    """Sums over batches of predictions, from which the scores of METRICS are computed."""

    def __init__(self, text: HeldOut) -> None:
        of_chars = text.tokenizer.unit == "character"
        self.of_logits = {name: m.of_logits for name, m in METRICS.items() if m.of_logits and of_chars}
        self.sums: dict[str, float | Tensor] = dict.fromkeys(self.of_logits, 0.0)
        self.n = 0

    def add(self, logits: Tensor, followed: Tensor) -> None:
        self.n += len(followed)
        for name, value in self.of_logits.items():
            self.sums[name] = self.sums[name] + value(logits, followed).sum(dtype=torch.float64)

    def scores(self, nats: CharNats, chars: Lengths) -> dict[str, float]:
        """Return the scores by name, from the losses of all characters and the number of characters of each work."""
        means = {name: float(total) / self.n for name, total in self.sums.items() if self.n}
        return means | {name: metric.of_losses(nats, chars) for name, metric in METRICS.items() if metric.of_losses}


def _on_held_out(
    name: str, model: LanguageModel, text: HeldOut, split: str, passages: list[Passage], block_size: int
) -> tuple[CharNats, dict[str, float]]:
    metrics, n_ids = _MetricSums(text), sum(len(passage.scored) for passage in passages)
    with progress_bar(f"evaluate: {name}, {split}", n_ids, text.tokenizer.unit) as on_progress:
        stride = stride_of(block_size)
        id_nats = nats_of_passages(model, passages, block_size, stride, on_progress=on_progress, watch=metrics.add)
    nats = text.passage_char_nats(id_nats, passages)
    fields = _fields(float(nats.sum(dtype=np.float64)), len(nats), text.n_bytes[split])
    return nats, fields | metrics.scores(nats, text.chars[split])


def _on_train(name: str, model: LanguageModel, text: HeldOut, block_size: int) -> dict[str, float]:
    """Score the training split as one stream, as in training: the end of a work is context for the next work."""
    # The bigram is scored on the whole split. Other models are scored on evenly spaced excerpts, which have as many ids
    # as val in total, but at most MAX_SCORED_IDS.
    train, tokenizer = text.splits["train"], text.tokenizer
    if isinstance(model, Bigram):
        excerpts, nats = [Passage(0, train, 1)], nats_of_pairs(model, train)
    else:
        excerpts = evenly_spaced(train, min(len(text.splits["val"]), MAX_SCORED_IDS), model.n_before)
        n_ids, stride = sum(len(excerpt.scored) for excerpt in excerpts), stride_of(block_size)
        with progress_bar(f"evaluate: {name}, train", n_ids, tokenizer.unit) as on_progress:
            # n-grams do not count the occurrence that is being predicted (leave-one-out)
            of_train = bool(model.ngrams)
            each = nats_of_passages(model, excerpts, block_size, stride, of_train=of_train, on_progress=on_progress)
        nats = float(each.sum(dtype=np.float64))
    chars, n_bytes = (
        sum(sum_counts(counts, excerpt.scored) for excerpt in excerpts)
        for counts in (tokenizer.chars_of, tokenizer.bytes_of)
    )
    return _fields(nats, chars, n_bytes)


def _fields(nats: float, chars: int, n_bytes: int) -> dict[str, float]:
    """Return the fields of scores.json for a text with a total loss of `nats`."""
    own = bits(nats / chars)
    return {
        "nats_per_char": nats / chars,
        "bits_per_char": own,
        "bits_per_byte": own * chars / n_bytes,
        "chars": chars,
    }


def counted_scores(text: HeldOut, baselines: Baselines) -> dict[str, dict[str, float]]:
    """Return the scores of METRICS on val for baselines: `counted_METRIC` -> name of the baseline -> score.

    The baselines are the counted bigram and the best n-grams. If val has more than MAX_SCORED_IDS ids, the predictions
    of the n-grams would take minutes, so they have only scores that are computed from losses.
    """
    table: dict[str, dict[str, float]] = {}
    for name in dict.fromkeys(["bigram_exact", baselines.best]):
        metrics, order = _MetricSums(text), int(name.removeprefix(NGRAM)) if name.startswith(NGRAM) else 2
        if metrics.of_logits and (name == "bigram_exact" or len(baselines.nats[name]["val"]) <= MAX_SCORED_IDS):
            for logits, followed in _counted_predictions(text, order):
                metrics.add(logits, followed)
        for metric, score in metrics.scores(baselines.nats[name]["val"], text.chars["val"]).items():
            table.setdefault(f"counted_{metric}", {})[name] = score
    return table


def _counted_predictions(text: HeldOut, order: int) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield the (n, V) logits of n-grams for ids of val, and these (n,) ids. Order 2 is the exact bigram."""
    train, V = text.splits["train"], len(text.tokenizer)
    n = max(1, AT_ONCE // V)
    if order > 2:
        counts = counts_of(train, V, order, text.ngrams)
    else:
        pairs = torch.from_numpy(count_pairs(train, V) + 1).double().log()  # (V, V), with add-one smoothing
    for passage in text.passages("val", order - 1):
        ids = passage.ids.astype(np.int64)
        for first in range(passage.n_context, len(ids), n):
            followed = ids[first : first + n]
            before = ids[max(0, first - order + 1) : first + len(followed) - 1]
            if order > 2:
                found = counts.lookup(before[None], [order], len(followed)).probabilities[0, :, 0]
                logits = torch.from_numpy(found).double().log()
            else:
                logits = pairs[before]
            yield logits, torch.from_numpy(followed)


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

    The names are those in `models`, and "counted" for the best counted baseline. Models also have METRICS on val.
    """
    splits = [split for split in table["baselines"] if split != "train"]
    metrics = {
        name: {split: table[name][split]["bits_per_char"] for split in splits} | metrics_in(table[name]["val"])
        for name in models
    }
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


@torch.inference_mode()
def nats_of_pairs(model: Bigram, ids: Ids) -> float:
    """Return the total loss in nats of (N,) ids except the first, under a model that predicts from the last id alone.

    The loss of each pair of adjacent ids is computed once, and multiplied by the number of occurrences of the pair.
    """
    V, nats = model.config.vocab_size, 0.0
    counts = count_pairs(ids, V)  # (V, V)
    n_rows = ids_per_batch(model)
    for start in range(0, V, n_rows):
        lasts = torch.arange(start, min(start + n_rows, V), device=next(model.parameters()).device)
        log_probs = model(lasts[:, None])[:, 0].float().log_softmax(dim=1).cpu().numpy()  # (R, V)
        rows = counts[start : start + n_rows]
        occurs = rows > 0
        nats -= float((rows[occurs] * log_probs[occurs]).sum(dtype=np.float64))
    return nats
