"""The scores of the models on every split, with the baselines: reports/metrics.json."""

from typing import Any

import numpy as np

from bukva.base.ids import Ids
from bukva.baselines.counts import baselines
from bukva.config.schema import Evaluate
from bukva.models.base import LanguageModel
from bukva.models.registry import kind_of
from bukva.scoring.window_rule import Score, evenly_spaced, nats_of, stride_of
from bukva.tokenizers.base import Tokenizer, count_chars


def evaluate(
    models: dict[str, LanguageModel], tokenizer: Tokenizer, splits: dict[str, Ids], params: Evaluate
) -> dict[str, Any]:
    """Score every model, with the GPT's block size and stride, on all of val and test.

    On train, a cheap model is scored on everything; any other on as much as val has, in runs spread evenly over train.

    Returns:
        The content of metrics.json: for each model and split nats_per_char, bits_per_char and chars; baselines,
        window and context.
    """
    gpt = models["gpt"]
    length, stride = gpt.block_size, stride_of(gpt.block_size)
    held_out = [split for split in splits if split != "train"]

    def scores(model: LanguageModel) -> dict[str, dict[str, float]]:
        sample_train = not kind_of(model.config.name).is_cheap
        runs = {
            split: evenly_spaced(ids, len(splits["val"])) if sample_train and split == "train" else [ids]
            for split, ids in splits.items()
        }
        return {split: _as_json(score(model, runs[split], tokenizer, length, stride)) for split in splits}

    return {
        **{name: scores(model) for name, model in models.items()},
        "baselines": {
            split: {name: value * ids_per_char(splits[split][1:], tokenizer) for name, value in scored.items()}
            for split, scored in baselines(splits, len(tokenizer)).items()
        },
        "window": {"length": length, "stride": stride},
        "context": {
            split: value_of_context(gpt, splits[split], tokenizer, params.short_context, params.context_chars)
            for split in held_out
        },
    }


def score(model: LanguageModel, runs: list[Ids], tokenizer: Tokenizer, block_size: int, stride: int) -> Score:
    """The score over several runs of text together."""
    nats = np.concatenate([nats_of(model, run, block_size, stride) for run in runs])
    return Score.of(nats, sum(count_chars(tokenizer, run[1:]) for run in runs))


def value_of_context(
    model: LanguageModel, ids: Ids, tokenizer: Tokenizer, short_context: int, n_ids: int
) -> dict[str, float]:
    """Bits per character with `short_context` ids of context and with whole windows, over the same characters."""
    runs = evenly_spaced(ids, n_ids)
    # stride 1 gives every id exactly short_context ids of context
    short = score(model, runs, tokenizer, short_context, 1)
    full = score(model, runs, tokenizer, model.block_size, stride_of(model.block_size))
    return {
        "short_context": short_context,
        "short_bits_per_char": short.bits_per_char,
        "full_bits_per_char": full.bits_per_char,
        "gain_bits_per_char": short.bits_per_char - full.bits_per_char,
        "chars": full.chars,
    }


def ids_per_char(ids: Ids, tokenizer: Tokenizer) -> float:
    """What turns bits per id into bits per character: 1 where every id is a character."""
    return len(ids) / count_chars(tokenizer, ids)


def _as_json(score: Score) -> dict[str, float]:
    return {"nats_per_char": score.nats_per_char, "bits_per_char": score.bits_per_char, "chars": score.chars}
