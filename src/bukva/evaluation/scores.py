"""Score the models of an experiment, and combine their scores with the scores of the baselines."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from bukva.config.schema import Evaluate
from bukva.core.progress import OnProgress, no_progress, progress_bar
from bukva.evaluation.accuracy import counted_accuracy
from bukva.models.base import LanguageModel
from bukva.models.bigram import Bigram
from bukva.models.folder import read_numerics
from bukva.models.ngrams.counts import count_pairs
from bukva.models.registry import count_parameters
from bukva.models.window_rule import (
    MAX_SCORED_IDS,
    Score,
    Watch,
    context_of,
    evenly_spaced,
    ids_per_batch,
    nats_of_passages,
    stride_of,
)
from bukva.project.stages import TrainedModel
from bukva.text.held_out import HeldOut, Passage
from bukva.text.ids import CharNats, Ids, Nats, bits_per_char
from bukva.text.scores import CONTEXT, Baselines
from bukva.text.tokenizers.base import Tokenizer, sum_counts

CONTEXT_CHARS = 10_000  # characters of a split on which a short context is compared with full windows
BINS = 20  # number of bins of equal width into which confidences from 0 to 1 are divided


class Calibration:
    """Count how often predictions are right, in bins of predictions with similar confidence.

    The confidence of a prediction is the probability of its most likely id. A prediction is right if this id is the
    next id of the text.

    Source: Guo, Pleiss, Sun & Weinberger 2017, "On calibration of modern neural networks".

    counts: (BINS,) number of predictions in each bin.
    confidence: (BINS,) sum of the confidences in each bin.
    right: (BINS,) number of right predictions in each bin.
    """

    def __init__(self) -> None:
        self.counts, self.confidence, self.right = np.zeros((3, BINS))

    def __call__(self, logits: Tensor, targets: Tensor) -> None:
        """Add n predictions, with vocabulary size V.

        logits: (n, V) logits of the predictions.
        targets: (n,) ids that followed in the text.
        """
        confidence, likeliest = logits.softmax(dim=-1).max(dim=-1)  # (n,), (n,)
        bin_numbers = (confidence * BINS).long().clamp(max=BINS - 1).cpu()
        self.counts += torch.bincount(bin_numbers, minlength=BINS).numpy()
        self.confidence += torch.bincount(bin_numbers, confidence.double().cpu(), BINS).numpy()
        self.right += torch.bincount(bin_numbers, (likeliest == targets).double().cpu(), BINS).numpy()

    @property
    def accuracy(self) -> float:
        """Fraction of right predictions, over all bins."""
        return float(self.right.sum() / self.counts.sum())

    def to_json(self) -> dict[str, Any]:
        """Return a dict with the expected calibration error, and with the bins that are not empty.

        The error of a bin is the absolute difference between its mean confidence and its fraction of right predictions.
        The expected calibration error is the mean error of all bins, weighted by the number of predictions in each bin.
        """
        rows = zip(self.counts, self.confidence, self.right, strict=True)
        bins = [{"predictions": int(n), "confidence": float(c / n), "right": float(r / n)} for n, c, r in rows if n]
        return {"error": float(np.abs(self.confidence - self.right).sum() / self.counts.sum()), "bins": bins}


@dataclass(frozen=True)
class Scores:
    """Results of stage evaluate.

    table: content of scores.json, without the chart.
    nats: (N,) loss in nats of each held-out character, by name of the model or baseline and then by split.
    calibration: calibration of the GPT, by split.
    """

    table: dict[str, Any]
    nats: dict[str, dict[str, CharNats]]
    calibration: dict[str, Calibration]


def evaluate(models: dict[str, LanguageModel], text: HeldOut, params: Evaluate, baselines: Baselines) -> Scores:
    """Score every model on val, on test and on the training split. Add the scores of `baselines`.

    All models use the block size and stride of the GPT. On val and test, a GPT with n-grams is also scored without its
    n-grams.

    The training split is scored as one stream, as in training: the end of a work is context for the next work. A model
    that sees only the last id is scored on the whole training split. Other models are scored on evenly spaced excerpts.
    The excerpts have as many ids as val in total, but at most MAX_SCORED_IDS. The n-gram counts of a GPT do not include
    the occurrence that is being predicted (leave-one-out).
    """
    gpt = models["gpt"]
    T, stride = gpt.block_size, stride_of(gpt.block_size)
    if gpt.ngrams:
        models = models | {"network": gpt.without_ngrams()}
    texts = {split: text.passages(split, context_of(gpt, T, stride)) for split in text.held_out_splits}
    calibrations = {name: {split: Calibration() for split in text.held_out_splits} for name in models}
    nats: dict[str, dict[str, CharNats]] = {}
    for name, model in models.items():
        id_nats = {
            split: _nats(f"{name}, {split}", model, texts[split], text.tokenizer.unit, T, calibrations[name][split])
            for split in text.held_out_splits
        }
        nats[name] = text.char_nats(id_nats)
    on_train = {name: {"train": _on_train(name, model, text, T)} for name, model in models.items() if name != "network"}
    table: dict[str, Any] = {
        **{name: on_train.get(name, {}) | _on_held_out(scored, text) for name, scored in nats.items()},
        "baselines": baselines.table,
        "best_counted": baselines.best,
        "window": {"length": T, "stride": stride, "unit": text.tokenizer.unit},
        "context": {
            split: value_of_context(gpt, nats["gpt"][split], text, split, params) for split in text.held_out_splits
        },
    }
    if text.tokenizer.unit == "character":
        for name, by_split in calibrations.items():
            for split, calibration in by_split.items():
                table[name][split]["accuracy"] = calibration.accuracy
        table["counted_accuracy"] = counted_accuracy(text, baselines.best)  # on val
    return Scores(table, nats | baselines.nats, calibrations["gpt"])


def value_of_context(
    model: LanguageModel, full_nats: CharNats, text: HeldOut, split: str, params: Evaluate
) -> dict[str, float]:
    """Compare the scores of a model with a short context and with full windows, on the same characters.

    The characters are those at the beginning of every work, about CONTEXT_CHARS in total.

    Args:
        model: model to score with the short context.
        full_nats: (N,) nats of all characters of the split, scored with full windows.
        text: all splits.
        split: name of the split to score.
        params: section `evaluate` of params.yaml.

    Returns:
        A dict with the length of the short context in ids, both scores in bits per character, their difference
        (`gain_bits_per_char`), and the number of characters.
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
    """Return the content of metrics.json: the bits per character of each model, by name of the model and then by split.

    The names are those in `models`, and "counted" for the counted baseline that has the best score on val. If
    the accuracy on val was computed for a model, it is added under the key "accuracy" next to the splits.
    """
    splits = [split for split in table["baselines"] if split != "train"]
    metrics = {}
    for name in models:
        metrics[name] = {split: table[name][split]["bits_per_char"] for split in splits}
        if "accuracy" in table[name]["val"]:
            metrics[name]["accuracy"] = table[name]["val"]["accuracy"]
    return {
        **metrics,
        "counted": {split: table["baselines"][split][table["best_counted"]] for split in splits},
    }


def sampled(scores: Scores, text: HeldOut) -> str:
    """Return a line about the scores that samples of the splits suffice for, or "" if everything was scored."""
    train = scores.table["gpt"]["train"]["chars"], sum_counts(text.tokenizer.chars_of, text.splits["train"][1:])
    contexts = [(split, scores.table["context"][split]["chars"], int(text.chars[split].sum())) for split in text.chars]
    of_context = ", ".join(f"{n:,} of {whole:,} of {split}" for split, n, whole in contexts if n < whole)
    parts = [f"the score on train ({train[0]:,} of {train[1]:,} characters; split.val)"] if train[0] < train[1] else []
    parts += [f"the gain from context ({of_context})"] if of_context else []
    what = " and ".join(text.held_out_splits)
    return f"all of {what} is scored; samples suffice for {' and '.join(parts)}" if parts else ""


def describe(
    text: HeldOut,
    models: dict[str, LanguageModel],
    trained: dict[str, TrainedModel],
    calibration: dict[str, Calibration],
) -> dict[str, Any]:
    """Return the content of about.json, the file that describes the scores in data/scores (see bukva.text.scores)."""
    T = models["gpt"].block_size
    return {
        "calibration": {split: of_split.to_json() for split, of_split in calibration.items()},
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
    """Return the score of a model on `excerpts` from the training split.

    A model with n-grams does not count the occurrence that is being predicted (leave-one-out).
    """
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


def _nats(
    label: str, model: LanguageModel, texts: list[Passage], unit: str, block_size: int, watch: Watch | None
) -> Nats:
    """Return the loss in nats of each of the (n,) scored ids of `texts`. Show a progress bar with `label`."""
    n_ids = sum(len(passage.scored) for passage in texts)
    with progress_bar(f"evaluate: {label}", n_ids, unit) as on_progress:
        return nats_of_passages(model, texts, block_size, stride_of(block_size), on_progress=on_progress, watch=watch)


def _on_held_out(nats: dict[str, CharNats], text: HeldOut) -> dict[str, dict[str, float]]:
    return {split: _fields(Score.of(of_split, len(of_split)), text.n_bytes[split]) for split, of_split in nats.items()}


def _on_train(name: str, model: LanguageModel, text: HeldOut, block_size: int) -> dict[str, float]:
    train = text.splits["train"]
    if isinstance(model, Bigram):
        excerpts, scored = [Passage(0, train, 1)], score_pairs(model, train, text.tokenizer)
    else:
        excerpts = evenly_spaced(train, min(len(text.splits["val"]), MAX_SCORED_IDS), model.n_before)
        with progress_bar(
            f"evaluate: {name}, train", sum(len(excerpt.scored) for excerpt in excerpts), text.tokenizer.unit
        ) as on_progress:
            scored = score(model, excerpts, text.tokenizer, block_size, stride_of(block_size), on_progress)
    return _fields(scored, sum(sum_counts(text.tokenizer.bytes_of, excerpt.scored) for excerpt in excerpts))


def _fields(score: Score, n_bytes: int) -> dict[str, float]:
    return {
        "nats_per_char": score.nats_per_char,
        "bits_per_char": score.bits_per_char,
        "bits_per_byte": score.bits_per_char * score.chars / n_bytes,
        "chars": score.chars,
    }
