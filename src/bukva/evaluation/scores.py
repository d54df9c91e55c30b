"""The scores of the models and the baselines, and the nats of every held-out character."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from bukva.baselines import compressors, counts
from bukva.config.schema import Evaluate
from bukva.core.progress import Read, counting, unread
from bukva.evaluation.calibration import Calibration
from bukva.evaluation.characters import CONTEXT, CharNats, text_digest
from bukva.evaluation.held_out import HeldOut, mean
from bukva.models.base import LanguageModel
from bukva.models.folder import read_numerics
from bukva.models.ngrams.kneser_ney import KneserNey
from bukva.models.registry import count_parameters, kind_of
from bukva.models.window_rule import Score, evenly_spaced, ids_per_batch, nats_of
from bukva.planning.memory import check_counting
from bukva.project.stages import TrainedModel
from bukva.text.ids import Ids, Nats
from bukva.text.tokenizers.base import Tokenizer, count_bytes, count_chars
from bukva.text.tokenizers.char import CharTokenizer
from bukva.text.units import bits


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


def evaluate(models: dict[str, LanguageModel], text: HeldOut, params: Evaluate) -> Scores:
    """Score every model and baseline, with the GPT's block size and stride, on all of val and test.

    On train, a model that sees one id is scored on everything; any other on as much as val has, in runs spread evenly.
    Train is scored as models see it, as one stream; what the GPT has counted there is left out where it is predicted.
    The network of a GPT with n-grams is scored by itself, too.

    Raises:
        BukvaError: the n-grams of train do not fit the memory; raised before anything is scored.
    """
    if params.ngram_orders:
        check_counting(len(text.splits["train"]), "evaluate.ngram_orders []")
    gpt = models["gpt"]
    if gpt.counts:
        models = models | {"network": gpt.alone()}
    calibration = {split: Calibration() for split in text.names}
    watched = {"gpt": calibration}
    learned = {name: text.nats_of_model(name, model, watched.get(name)) for name, model in models.items()}
    counted = _counted(text, params.ngram_orders)
    ngrams = [name for name in counted if name.startswith("ngram_")] or ["bigram_exact"]
    best = min(ngrams, key=lambda name: float(counted[name]["val"].sum()))
    nats = {name: text.of_chars(scored) for name, scored in (learned | counted).items()}
    table = {
        **{name: _model_scores(name, model, nats[name], text) for name, model in models.items()},
        "baselines": _baseline_scores({name: nats[name] for name in counted}, text),
        "best_counted": best,
        "window": {"length": text.block_size, "stride": text.stride, "unit": text.tokenizer.unit},
        "context": {split: text.value_of_context(gpt, nats["gpt"][split], split, params) for split in text.names},
    }
    return Scores(table, nats, calibration)


def headline(table: dict[str, Any], models: Iterable[str]) -> dict[str, dict[str, float]]:
    """The content of metrics.json: bits per character of these models, and of what counts best, by held-out split."""
    splits = [split for split in table["baselines"] if split != "train"]
    return {
        **{name: {split: table[name][split]["bits_per_char"] for split in splits} for name in models},
        "counted": {split: table["baselines"][split][table["best_counted"]] for split in splits},
    }


def describe(
    text: HeldOut,
    models: dict[str, LanguageModel],
    trained: dict[str, TrainedModel],
    calibration: dict[str, Calibration],
) -> dict[str, Any]:
    """The content of about.json (bukva.evaluation.characters)."""
    return {
        "calibration": {split: found.to_json() for split, found in calibration.items()},
        "window": {"length": text.block_size, "stride": text.stride, "context": CONTEXT},
        "alphabet": text.tokenizer.alphabet,
        "text": {split: text_digest(text.splits[split], text.tokenizer) for split in text.names},
        "models": {
            name: {
                "parameters": count_parameters(model.config),
                "numerics": read_numerics(trained[name].folder),
            }
            for name, model in models.items()
        },
    }


def score(
    model: LanguageModel, runs: list[Ids], tokenizer: Tokenizer, block_size: int, stride: int, read: Read = unread
) -> Score:
    """The score over several runs of train together."""
    nats = np.concatenate([nats_of(model, run, block_size, stride, of_train=model.counts, read=read) for run in runs])
    return Score.of(nats, sum(count_chars(tokenizer, run[1:]) for run in runs))


@torch.inference_mode()
def score_pairs(model: LanguageModel, ids: Ids, tokenizer: Tokenizer) -> Score:
    """The score over (N,) ids of a model that sees the last id alone: the nats of each pair, times its count."""
    V, nats = len(tokenizer), 0.0
    seen = counts.count_pairs(ids, V)  # (V, V)
    n_rows = ids_per_batch(model)
    for start in range(0, V, n_rows):
        lasts = torch.arange(start, min(start + n_rows, V), device=next(model.parameters()).device)
        log_probs = model(lasts[:, None])[:, 0].float().log_softmax(dim=1).cpu().numpy()  # (R, V)
        pairs = seen[start : start + n_rows]
        is_seen = pairs > 0
        nats -= float((pairs[is_seen] * log_probs[is_seen]).sum(dtype=np.float64))
    chars = count_chars(tokenizer, ids[1:])
    return Score(nats / chars, chars)


def ids_per_char(ids: Ids, tokenizer: Tokenizer) -> float:
    """What turns bits per id into bits per character: 1 where every id is a character."""
    return len(ids) / count_chars(tokenizer, ids)


def _counted(text: HeldOut, orders: list[int]) -> dict[str, dict[str, Nats]]:
    """split -> (n,) nats of the held-out ids, for each table that is counted on train."""
    train, V = text.splits["train"], len(text.tokenizer)
    found = {name: text.nats(scorer) for name, scorer in counts.scorers(train, V).items()}
    if orders:
        for order, nats in _ngram_nats(KneserNey(train, V, max(orders)), text, sorted(orders)).items():
            found[f"ngram_{order}"] = nats
    return found


def _ngram_nats(model: KneserNey, text: HeldOut, orders: list[int]) -> dict[int, dict[str, Nats]]:
    """order -> split -> (n,) nats of the held-out ids; orders share the tables that are looked up."""
    found: dict[int, dict[str, Nats]] = {order: {} for order in orders}
    for split in text.names:
        works = text.passages(split, max(orders) - 1)
        scored = [model.nats_by_order(work.ids, orders) for work in works]
        for order in orders:
            pairs = zip(works, scored, strict=True)
            found[order][split] = np.concatenate([by_order[order][work.n_context :] for work, by_order in pairs])
    return found


def _model_scores(
    name: str, model: LanguageModel, held_out: dict[str, CharNats], text: HeldOut
) -> dict[str, dict[str, float]]:
    train = text.splits["train"]
    if kind_of(model.config.name).sees_one_id:
        runs, on_train = [train], score_pairs(model, train, text.tokenizer)
    else:
        runs = evenly_spaced(train, len(text.splits["val"]))
        with counting(f"evaluate: {name}, train", sum(map(len, runs)), text.tokenizer.unit) as read:
            on_train = score(model, runs, text.tokenizer, text.block_size, text.stride, read)
    n_bytes = sum(count_bytes(text.tokenizer, run[1:]) for run in runs)
    scored = {split: _fields(mean(nats), text.n_bytes[split]) for split, nats in held_out.items()}
    return {"train": _fields(on_train, n_bytes), **scored}


def _baseline_scores(counted: dict[str, dict[str, CharNats]], text: HeldOut) -> dict[str, dict[str, float]]:
    """split -> baseline -> bits per character."""
    train, V = text.splits["train"], len(text.tokenizer)
    chars, n_symbols = _as_characters(text.splits, text.tokenizer)
    compressed = compressors.scores(chars["train"], {split: chars[split] for split in text.names}, n_symbols)
    result = {
        "train": {
            name: value * ids_per_char(train[1:], text.tokenizer)
            for name, value in counts.fitted_to_train(train, V).items()
        }
    }
    for split in text.names:
        per_char = ids_per_char(text.splits[split], text.tokenizer)
        result[split] = {
            "uniform": bits(np.log(V)) * per_char,
            **{name: mean(nats[split]).bits_per_char for name, nats in counted.items()},
            **compressed[split],
        }
    return result


def _as_characters(splits: dict[str, Ids], tokenizer: Tokenizer) -> tuple[dict[str, Ids], int]:
    """The splits with an id for each character, whatever the tokenizer, and how many different ones they have."""
    if tokenizer.alphabet is not None:
        return splits, len(tokenizer)
    texts = {split: tokenizer.decode(ids) for split, ids in splits.items()}
    characters = CharTokenizer.train(texts.values())
    return {split: characters.encode(text) for split, text in texts.items()}, len(characters)


def _fields(score: Score, n_bytes: int) -> dict[str, float]:
    return {
        "nats_per_char": score.nats_per_char,
        "bits_per_char": score.bits_per_char,
        "bits_per_byte": score.bits_per_char * score.chars / n_bytes,
        "chars": score.chars,
    }
