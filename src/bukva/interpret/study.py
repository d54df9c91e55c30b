"""The whole study of one model: the content of reports/attention/attention.json, and the weights to draw."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from bukva.config.schema import Evaluate
from bukva.interpret.ablation import ablate_heads
from bukva.interpret.context import score_by_context
from bukva.interpret.forecast import forecast
from bukva.interpret.heads import Heads, describe_heads
from bukva.interpret.hooks import record_attention
from bukva.interpret.leak import leak
from bukva.interpret.scale import scale_table
from bukva.models.device import Machine
from bukva.models.gpt import GPT
from bukva.models.ngrams.counts import exact_bigram
from bukva.models.window_rule import evenly_spaced, spread_windows
from bukva.text.ids import Ids
from bukva.text.tokenizers.base import Tokenizer, ids_per_char

IDS_PER_WINDOW = 32  # scored for the context curve, where each costs a window of its own
PASSAGE = 24  # characters of a passage that are all legible in a figure


@dataclass(frozen=True)
class Study:
    """The numbers, and for each state the weights of every layer on the sentence, (n_layer, nh, T, T)."""

    numbers: dict[str, Any]
    weights: dict[str, npt.NDArray[np.float32]]


def study(
    states: dict[str, GPT], tokenizer: Tokenizer, splits: dict[str, Ids], params: Evaluate, machine: Machine
) -> Study:
    """Study the attention of a GPT before and after training.

    Args:
        states: "untrained" and "trained".
        tokenizer: of both.
        splits: train and val; statistics are computed on val.
        params: the sentence, the number of windows, the number of updates without the mask.
        machine: trains the model without the mask.
    """
    gpt, val = states["trained"], splits["val"]
    T = gpt.block_size
    sentence = params.attention_sentence or passage(tokenizer, val, min(PASSAGE, T))
    ids = tokenizer.encode(sentence)[:T]  # a passage may have more ids than characters
    drawn = torch.from_numpy(ids.astype(np.int64))[None].to(machine.device)  # (1, T)
    windows = spread_windows(val, params.attention_windows, T).to(machine.device)  # (N, T)
    runs = evenly_spaced(val, windows.numel())
    return Study(
        numbers={
            "unit": tokenizer.unit,
            "sentence": sentence,
            "parts": tokenizer.parts(ids),
            "windows": {"n": len(windows), "length": T},
            "heads": {state: _as_json(describe_heads(model, windows, tokenizer)) for state, model in states.items()},
            "scale": scale_table(),
            "worth": ablate_heads(gpt, runs, tokenizer),
            "context": {
                "lengths": score_by_context(gpt, val, tokenizer, params.attention_windows * IDS_PER_WINDOW),
                "bigram_exact": exact_bigram(splits["train"], [val], len(tokenizer)) * ids_per_char(val[1:], tokenizer),
            },
            "leak": leak(gpt.config, splits, tokenizer, params.leak_steps, machine),
            "forecast": forecast(gpt, tokenizer, sentence),
        },
        weights={state: weights_on(model, drawn) for state, model in states.items()},
    )


def weights_on(gpt: GPT, ids: Tensor) -> npt.NDArray[np.float32]:
    """(1, T) ids -> (n_layer, nh, T, T) weights of every head."""
    return torch.cat([layer.weights for layer in record_attention(gpt, ids)]).cpu().numpy()


def passage(tokenizer: Tokenizer, ids: Ids, n_chars: int) -> str:
    """The first n_chars of the first line that is long enough; the beginning of the text if none is."""
    text = tokenizer.decode(ids[:100_000])
    lines = text.split("\n")[1:]  # the first may be the end of a line
    return next((line for line in lines if len(line) >= n_chars), text)[:n_chars]


def _as_json(heads: Heads) -> dict[str, Any]:
    layers, n_head = heads.entropy.shape
    role = [[heads.role(layer, head) for head in range(n_head)] for layer in range(layers)]
    return {
        "role": [[{"name": name, "score": score} for name, score in row] for row in role],
        "entropy": heads.entropy.tolist(),
        "breadth": heads.breadth.tolist(),
        "distance": heads.distance.tolist(),
        "raw_variance": heads.raw_variance.tolist(),
        "variance": heads.variance.tolist(),
        "roles": {name: grid.tolist() for name, grid in heads.roles.items()},
    }
