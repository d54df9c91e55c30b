"""All of it, for one model: reports/attention/attention.json, and the weights that are drawn."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from bukva import params
from bukva.compute import Machine
from bukva.evaluation.attention.forecast import forecast
from bukva.evaluation.attention.heads import Heads, describe_heads
from bukva.evaluation.attention.leak import leak
from bukva.evaluation.attention.lens import looks
from bukva.evaluation.attention.scale import scale_table
from bukva.evaluation.attention.worth import worth_of_heads, worth_of_lengths
from bukva.evaluation.floors import exact_bigram
from bukva.models.gpt import GPT
from bukva.scoring import evenly_spaced, spread_windows
from bukva.text.tokenizers import CharTokenizer, Ids

CHARS_PER_WINDOW = 32  # of the context curve, whose every character costs up to a block
PASSAGE = 24  # characters of a passage that a figure holds with every character legible


@dataclass(frozen=True)
class Study:
    """The numbers, and for each state the weights of every layer on the sentence, (n_layer, nh, T, T)."""

    numbers: dict[str, Any]
    weights: dict[str, npt.NDArray[np.float32]]


def study(
    states: dict[str, GPT], tokenizer: CharTokenizer, parts: dict[str, Ids], asked: params.Evaluate, machine: Machine
) -> Study:
    """Look at a GPT before and after training.

    Args:
        states: "untrained" and "trained".
        tokenizer: theirs.
        parts: the splits; statistics are made from val.
        asked: the sentence, how many windows, how many updates without the mask.
        machine: for the model without the mask.
    """
    gpt, val = states["trained"], parts["val"]
    T, chars = gpt.block_size, tokenizer.chars
    sentence = asked.attention_sentence or passage(tokenizer, val, min(PASSAGE, T))
    drawn = torch.from_numpy(tokenizer.encode(sentence).astype(np.int64))[None].to(machine.device)  # (1, T)
    windows = spread_windows(val, asked.attention_windows, T).to(machine.device)  # (N, T)
    runs = evenly_spaced(val, windows.numel())
    return Study(
        numbers={
            "sentence": sentence,
            "windows": {"n": len(windows), "length": T},
            "heads": {state: _as_json(describe_heads(model, windows, chars)) for state, model in states.items()},
            "scale": scale_table(),
            "worth": worth_of_heads(gpt, runs),
            "context": {
                "lengths": worth_of_lengths(gpt, val, asked.attention_windows * CHARS_PER_WINDOW),
                "bigram_exact": exact_bigram(parts["train"], [val], len(tokenizer)),
            },
            "leak": leak(gpt.config, parts, asked.leak_steps, machine),
            "forecast": forecast(gpt, tokenizer, sentence),
        },
        weights={state: weights_on(model, drawn) for state, model in states.items()},
    )


def weights_on(gpt: GPT, ids: Tensor) -> npt.NDArray[np.float32]:
    """(1, T) ids -> (n_layer, nh, T, T) weights of every head."""
    return torch.cat([look.weights for look in looks(gpt, ids)]).cpu().numpy()


def passage(tokenizer: CharTokenizer, ids: Ids, n_chars: int) -> str:
    """The first line of a text that has n_chars, as far as that; its beginning where no line has."""
    text = tokenizer.decode(ids[:100_000])
    lines = text.split("\n")[1:]  # the first may have begun before
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
