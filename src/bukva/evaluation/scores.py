"""The verdict: both models, every split, beside the floors."""

from typing import Any

import numpy as np

from bukva.evaluation.floors import floors
from bukva.modelfolder import Model
from bukva.params import Evaluate
from bukva.scoring import Score, evenly_spaced, half, nats_of
from bukva.text.tokenizers import Ids


def evaluate(bigram: Model, gpt: Model, parts: dict[str, Ids], params: Evaluate) -> dict[str, Any]:
    """reports/metrics.json: scores of both models and floors per split, the window rule, the worth of context.

    The bigram is scored on all of every split; the GPT on all of val and test, and on as much of train as val has, in
    runs spread evenly over it.
    """
    window = gpt.block_size
    runs = {part: evenly_spaced(ids, len(parts["val"])) if part == "train" else [ids] for part, ids in parts.items()}
    judged = [part for part in parts if part != "train"]
    return {
        "bigram": {part: _as_json(score(bigram, [ids], window, half(window))) for part, ids in parts.items()},
        "gpt": {part: _as_json(score(gpt, runs[part], window, half(window))) for part in parts},
        "floors": floors(parts, gpt.config.vocab_size),
        "window": {"length": window, "stride": half(window)},
        "context": {
            part: worth_of_context(gpt, parts[part], params.short_context, params.context_chars) for part in judged
        },
    }


def score(model: Model, runs: list[Ids], block_size: int, stride: int) -> Score:
    """The score over several runs of text together."""
    return Score.of(np.concatenate([nats_of(model, run, block_size, stride) for run in runs]))


def worth_of_context(gpt: Model, ids: Ids, short_context: int, n_chars: int) -> dict[str, float]:
    """Bits per character with `short_context` characters of context and with all, over the same characters."""
    runs = evenly_spaced(ids, n_chars)
    # windows that move by one leave each character exactly short_context before it
    short = score(gpt, runs, short_context, 1)
    full = score(gpt, runs, gpt.block_size, half(gpt.block_size))
    return {
        "short_context": short_context,
        "short_bits_per_char": short.bits_per_char,
        "full_bits_per_char": full.bits_per_char,
        "gain_bits_per_char": short.bits_per_char - full.bits_per_char,
        "chars": full.chars,
    }


def _as_json(score: Score) -> dict[str, float]:
    return {"nats_per_char": score.nats_per_char, "bits_per_char": score.bits_per_char, "chars": score.chars}
