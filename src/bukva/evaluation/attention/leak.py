"""What the mask is for: without it the model reads its answers off the text.

Position t of an unmasked block sees character t + 1, which is what it is asked for. Its loss falls to nearly nothing,
also on text that it was not trained on, and means nothing: whoever writes with such a model asks it for a character
that is not there yet, and of that it knows less than a model with the mask does.
"""

import dataclasses
import functools
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from bukva.compute import Machine, seed_step
from bukva.models.gpt import GPT, GPTConfig
from bukva.params import Training
from bukva.scoring import spread_windows
from bukva.text.tokenizers import Ids
from bukva.training.loop import TrainState, train
from bukva.training.optimizer import build_optimizer
from bukva.training.windows import Windows
from bukva.units import bits

# two blocks and short windows leak as well as many and long ones, in less time
N_LAYER, BLOCK_SIZE, BATCH_SIZE = 2, 32, 32
N_SCORED = 128  # windows of val
POINTS = 20
SEED = 1337


def leak(config: GPTConfig, parts: dict[str, Ids], n_steps: int, machine: Machine) -> dict[str, Any]:
    """Train two blocks of a GPT's shape with the mask and without it, from the same weights on the same text.

    Returns:
        n_layer, block_size and steps; for masked and unmasked: `in_sight`, bits per character of val at each of the
        steps, over the characters that stand in the window when they are asked for, and `out_of_sight`, over the one
        that follows it, in the end.
    """
    T = min(BLOCK_SIZE, config.block_size)
    small = dataclasses.replace(config, n_layer=min(N_LAYER, config.n_layer), block_size=T, dropout=0.0)
    recipe = Training(
        optimizer="adamw", n_steps=n_steps, batch_size=BATCH_SIZE, micro_batches=1, learning_rate=0.004,
        warmup_steps=min(20, n_steps), decay_to=1.0, weight_decay=0.1, beta2=0.99, grad_clip=1.0,
        eval_every=max(1, n_steps // POINTS), patience=0, order="epoch", seed=SEED,
    )  # fmt: skip
    scored = spread_windows(parts["val"], N_SCORED, T + 1).to(machine.device)  # (N, T + 1)
    result: dict[str, Any] = {"n_layer": small.n_layer, "block_size": T}
    for name, causal in (("masked", True), ("unmasked", False)):
        seed_step(SEED, 0)
        model = GPT(small, causal=causal).to(machine.device)
        state = TrainState(model, build_optimizer(model, recipe))
        windows = Windows(parts["train"], T, recipe.batch_size, recipe.order, recipe.seed)
        score = functools.partial(_in_sight, model, scored)
        progress = [(at.step, at.val_nats_per_char) for at in train(state, windows, score, recipe, machine)]
        curve = [(step, nats) for step, nats in progress if nats is not None]
        result["steps"] = [step for step, _ in curve]
        result[name] = {
            "in_sight": [bits(nats) for _, nats in curve],
            "out_of_sight": bits(float(_nats(model, scored)[:, -1].mean())),
        }
    return result


def _in_sight(model: GPT, windows: Tensor) -> float:
    return float(_nats(model, windows)[:, :-1].mean())


@torch.inference_mode()
def _nats(model: GPT, windows: Tensor) -> Tensor:
    """(N, T + 1) ids -> (N, T) nats of all but the first of each window."""
    logits = model(windows[:, :-1])  # (N, T, V)
    return F.cross_entropy(logits.flatten(0, 1), windows[:, 1:].flatten(), reduction="none").view(len(windows), -1)
