"""The scores of the models and the baselines, and the nats of every held-out character."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import torch
from torch import Tensor

from bukva.config.schema import Evaluate
from bukva.core.progress import OnProgress, counting, no_progress
from bukva.evaluation import adaptive
from bukva.evaluation.accuracy import counted_accuracy
from bukva.evaluation.rows import LEARNING_ON, STREAM
from bukva.models.base import LanguageModel
from bukva.models.folder import read_numerics
from bukva.models.ngrams.counts import count_pairs
from bukva.models.registry import count_parameters, kind_of
from bukva.models.window_rule import (
    MOST_SCORED,
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
from bukva.text.tokenizers.base import Tokenizer, total

if TYPE_CHECKING:
    from bukva.models.gpt import GPT

BINS = 20  # of confidence, equally wide


class Calibration:
    """Is a model as often right as it is sure? In bins of confidence, which is the probability of the likeliest id.

    Source: Guo, Pleiss, Sun & Weinberger 2017, "On calibration of modern neural networks".

    counts: (BINS,) predictions.
    confidence: (BINS,) the sum of their confidences.
    right: (BINS,) those whose likeliest id followed.
    """

    def __init__(self) -> None:
        self.counts, self.confidence, self.right = np.zeros((3, BINS))

    def __call__(self, logits: Tensor, followed: Tensor) -> None:
        """Add (n, V) logits and the (n,) ids that followed."""
        sure, likeliest = logits.softmax(dim=-1).max(dim=-1)  # (n,), (n,)
        number = (sure * BINS).long().clamp(max=BINS - 1).cpu()
        self.counts += torch.bincount(number, minlength=BINS).numpy()
        self.confidence += torch.bincount(number, sure.double().cpu(), BINS).numpy()
        self.right += torch.bincount(number, (likeliest == followed).double().cpu(), BINS).numpy()

    @property
    def accuracy(self) -> float:
        """The share of predictions whose likeliest id followed."""
        return float(self.right.sum() / self.counts.sum())

    def to_json(self) -> dict[str, Any]:
        """The expected calibration error, and the bins that are not empty.

        The error is how far confidence is from the share that is right, on average.
        """
        rows = zip(self.counts, self.confidence, self.right, strict=True)
        bins = [{"predictions": int(n), "confidence": float(c / n), "right": float(r / n)} for n, c, r in rows if n]
        return {"error": float(np.abs(self.confidence - self.right).sum() / self.counts.sum()), "bins": bins}


@dataclass(frozen=True)
class Scores:
    """What stage evaluate finds.

    table: the content of scores.json.
    nats: model or baseline -> split -> (N,) of the held-out characters.
    calibration: split -> how sure and how right the GPT is.
    """

    table: dict[str, Any]
    nats: dict[str, dict[str, CharNats]]
    calibration: dict[str, Calibration]


def evaluate(models: dict[str, LanguageModel], text: HeldOut, params: Evaluate, baselines: Baselines) -> Scores:
    """Score every model, with the GPT's block size and stride, on all of val and test, beside the baselines.

    On train, a model that sees one id is scored on everything; any other on as much as val has, but at most on
    MOST_SCORED ids, in runs spread evenly.
    Train is scored as models see it, as one stream; what the GPT has counted there is left out where it is predicted.
    The network of a GPT with n-grams is scored by itself, too, on val and test, and so is the GPT while it learns on.
    """
    gpt = models["gpt"]
    T, stride = gpt.block_size, stride_of(gpt.block_size)
    if gpt.counts:
        models = models | {"network": gpt.without_ngrams()}
    texts = {split: text.passages(split, context_of(gpt, T, stride)) for split in text.names}
    watched = {name: {split: Calibration() for split in text.names} for name in models}
    nats: dict[str, dict[str, CharNats]] = {}
    for name, model in models.items():
        found = {
            split: _nats(f"{name}, {split}", model, texts[split], text.tokenizer.unit, T, watched[name][split])
            for split in text.names
        }
        nats[name] = text.of_chars(found)
    if params.adaptive:
        adapted = {split: adaptive.read(cast("GPT", gpt), text, split) for split in text.names}
        nats |= {row: text.of_chars({split: adapted[split][row] for split in adapted}) for row in LEARNING_ON}
    on_train = {name: {"train": _on_train(name, model, text, T)} for name, model in models.items() if name != "network"}
    table: dict[str, Any] = {
        **{name: on_train.get(name, {}) | _on_held_out(scored, text) for name, scored in nats.items()},
        "baselines": baselines.table,
        "best_counted": baselines.best,
        "window": {"length": T, "stride": stride, "unit": text.tokenizer.unit},
        "context": {split: value_of_context(gpt, nats["gpt"][split], text, split, params) for split in text.names},
    }
    if text.tokenizer.unit == "character":
        for name, of_splits in watched.items():
            for split, seen in of_splits.items():
                table[name][split]["accuracy"] = seen.accuracy
        table["counted_accuracy"] = counted_accuracy(text, baselines.best)  # on val
    nats.pop(STREAM, None)  # its works are no independent units of a comparison
    return Scores(table, nats | baselines.nats, watched["gpt"])


def value_of_context(
    model: LanguageModel, whole: CharNats, text: HeldOut, split: str, params: Evaluate
) -> dict[str, float]:
    """Bits per character with a short context and with whole windows, over the same characters of every work.

    `whole` is (N,), the nats of the split by whole windows.
    """
    share = min(1.0, params.context_chars / total(text.tokenizer.chars_of, text.splits[split]))
    texts = text.passages(split, params.short_context, share)
    # stride 1 gives every id exactly short_context ids of context, which the counts do not see beyond either
    short = text.chars_of_nats(nats_of_passages(model, texts, params.short_context, 1, beyond=False), texts)
    chars, starts = text.chars[split], np.cumsum(text.chars[split]) - text.chars[split]  # (n_works,) each
    in_work = np.arange(len(whole)) - np.repeat(starts, chars)  # (N,) the place of each character
    full = whole[in_work < np.repeat(text.chars_of_works(split, texts), chars)]
    of_short, of_full = bits_per_char(short), bits_per_char(full)
    return {
        "short_context": params.short_context,
        "short_bits_per_char": of_short,
        "full_bits_per_char": of_full,
        "gain_bits_per_char": of_short - of_full,
        "chars": len(full),
    }


def headline(table: dict[str, Any], models: Iterable[str]) -> dict[str, dict[str, float]]:
    """The content of metrics.json: bits per character by held-out split, and the accuracy on val where it is known.

    Of these models, of what learns on, if it was scored, and of what counts best.
    """
    splits = [split for split in table["baselines"] if split != "train"]
    found = {}
    for name in [*models, *(row for row in LEARNING_ON if row in table)]:
        found[name] = {split: table[name][split]["bits_per_char"] for split in splits}
        if "accuracy" in table[name]["val"]:
            found[name]["accuracy"] = table[name]["val"]["accuracy"]
    return {
        **found,
        "counted": {split: table["baselines"][split][table["best_counted"]] for split in splits},
    }


def left_out(scores: Scores, text: HeldOut) -> Iterator[str]:
    """Yield a line for each score that covers only a part of a split, with the parameter that decides its size."""
    scored, whole = scores.table["gpt"]["train"]["chars"], total(text.tokenizer.chars_of, text.splits["train"][1:])
    if scored < whole:
        yield f"scored the GPT on {scored:,} of {whole:,} characters of train (split.val, at most {MOST_SCORED:,} ids)"
    for split in text.names:
        scored, whole = scores.table["context"][split]["chars"], int(text.chars[split].sum())
        if scored < whole:
            used = f"{scored:,} of {whole:,} characters of {split}"
            yield f"measured the gain from longer context on {used} (evaluate.context_chars)"


def describe(
    text: HeldOut,
    models: dict[str, LanguageModel],
    trained: dict[str, TrainedModel],
    calibration: dict[str, Calibration],
) -> dict[str, Any]:
    """The content of about.json (bukva.text.scores)."""
    T = models["gpt"].block_size
    return {
        "calibration": {split: found.to_json() for split, found in calibration.items()},
        "window": {"length": T, "stride": stride_of(T), "context": CONTEXT},
        **text.describe(),
        "models": {
            name: {"parameters": count_parameters(model.config), "numerics": read_numerics(trained[name].folder)}
            for name, model in models.items()
        },
    }


def score(
    model: LanguageModel,
    runs: list[Passage],
    tokenizer: Tokenizer,
    block_size: int,
    stride: int,
    on_progress: OnProgress = no_progress,
) -> Score:
    """The score over several runs of train together."""
    nats = nats_of_passages(model, runs, block_size, stride, of_train=model.counts, on_progress=on_progress)
    return Score.of(nats, sum(total(tokenizer.chars_of, run.scored) for run in runs))


@torch.inference_mode()
def score_pairs(model: LanguageModel, ids: Ids, tokenizer: Tokenizer) -> Score:
    """The score over (N,) ids of a model that sees the last id alone: the nats of each pair, times its count."""
    V, nats = len(tokenizer), 0.0
    seen = count_pairs(ids, V)  # (V, V)
    n_rows = ids_per_batch(model)
    for start in range(0, V, n_rows):
        lasts = torch.arange(start, min(start + n_rows, V), device=next(model.parameters()).device)
        log_probs = model(lasts[:, None])[:, 0].float().log_softmax(dim=1).cpu().numpy()  # (R, V)
        pairs = seen[start : start + n_rows]
        is_seen = pairs > 0
        nats -= float((pairs[is_seen] * log_probs[is_seen]).sum(dtype=np.float64))
    chars = total(tokenizer.chars_of, ids[1:])
    return Score(nats / chars, chars)


def _nats(
    what: str, model: LanguageModel, texts: list[Passage], unit: str, block_size: int, watch: Watch | None
) -> Nats:
    """(n,) nats of the scored ids by the window rule; the progress has the name of the model."""
    n_ids = sum(len(passage.scored) for passage in texts)
    with counting(f"evaluate: {what}", n_ids, unit) as on_progress:
        return nats_of_passages(model, texts, block_size, stride_of(block_size), on_progress=on_progress, watch=watch)


def _on_held_out(nats: dict[str, CharNats], text: HeldOut) -> dict[str, dict[str, float]]:
    """split -> the fields of a score."""
    return {split: _fields(Score.of(found, len(found)), text.n_bytes[split]) for split, found in nats.items()}


def _on_train(name: str, model: LanguageModel, text: HeldOut, block_size: int) -> dict[str, float]:
    train = text.splits["train"]
    if kind_of(model.config.name).sees_one_id:
        runs, found = [Passage(0, train, 1)], score_pairs(model, train, text.tokenizer)
    else:
        runs = evenly_spaced(train, min(len(text.splits["val"]), MOST_SCORED), model.config.n_before)
        with counting(
            f"evaluate: {name}, train", sum(len(run.scored) for run in runs), text.tokenizer.unit
        ) as on_progress:
            found = score(model, runs, text.tokenizer, block_size, stride_of(block_size), on_progress)
    return _fields(found, sum(total(text.tokenizer.bytes_of, run.scored) for run in runs))


def _fields(score: Score, n_bytes: int) -> dict[str, float]:
    return {
        "nats_per_char": score.nats_per_char,
        "bits_per_char": score.bits_per_char,
        "bits_per_byte": score.bits_per_char * score.chars / n_bytes,
        "chars": score.chars,
    }
