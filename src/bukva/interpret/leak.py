"""Why there is a mask: without it, the model copies its targets from its inputs.

Position t of an unmasked block sees character t + 1, which is its target. The loss falls to nearly zero, also on text
that the model was not trained on, and means nothing: generation needs the character after the last one, and that one
an unmasked model predicts worse than a masked one.
"""

import dataclasses
import functools
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from bukva.config.schema import Training
from bukva.models.base import LanguageModel
from bukva.models.device import Machine
from bukva.models.gpt import GPT, GPTConfig
from bukva.models.window_rule import spread_windows
from bukva.text.ids import Ids, bits
from bukva.text.tokenizers.base import Tokenizer
from bukva.training.parallel import Group
from bukva.training.run import Task, run_training, start
from bukva.training.windows import Windows

# two blocks and short windows are enough to show the leak, and take less time
N_LAYER, BLOCK_SIZE, BATCH_SIZE = 2, 32, 32
N_SCORED = 128  # windows of val
POINTS = 20
SEED = 1337


def leak(
    config: GPTConfig, splits: dict[str, Ids], tokenizer: Tokenizer, n_steps: int, machine: Machine
) -> dict[str, Any]:
    """Train two blocks of a GPT's shape with the mask and without it, from the same weights on the same text.

    Returns:
        n_layer, block_size and steps; for masked and unmasked: `in_sight`, bits per character of val at each of the
        steps, over targets that are inputs of the window too, and `out_of_sight`, after the last step, over the target
        that follows the window.
    """
    T = min(BLOCK_SIZE, config.block_size)
    small = dataclasses.replace(config, n_layer=min(N_LAYER, config.n_layer), block_size=T, dropout=0.0, ngrams="none")
    recipe = Training(
        optimizer="adamw", n_steps=n_steps, batch_size=BATCH_SIZE, micro_batches=1, learning_rate=0.004,
        warmup_steps=min(20, n_steps), decay_to=1.0, weight_decay=0.1, beta2=0.99, grad_clip=1.0,
        eval_every=max(1, n_steps // POINTS), patience=0, order="epoch", seed=SEED,
    )  # fmt: skip
    windows = Windows(splits["train"], T, recipe.batch_size, recipe.order, recipe.seed)
    scored = spread_windows(splits["val"], N_SCORED, T + 1)  # (N, T + 1)
    ids_per_char = scored[:, 1:].numel() / float(tokenizer.chars_of(scored[:, 1:].flatten().numpy()).sum())
    scored = scored.to(machine.device)

    def score_in_sight(model: LanguageModel, _: Group) -> float:
        return float(_nats(model, scored)[:, :-1].mean()) * ids_per_char

    result: dict[str, Any] = {"n_layer": small.n_layer, "block_size": T}
    for name, causal in (("masked", True), ("unmasked", False)):
        task = Task(functools.partial(GPT, small, causal=causal), windows, score_in_sight, recipe, machine)
        state = start(task)
        run_training(task, state)
        result["steps"] = [point.step for point in state.curve]
        result[name] = {
            "in_sight": [bits(point.val_nats_per_char or 0.0) for point in state.curve],
            "out_of_sight": bits(float(_nats(state.model, scored)[:, -1].mean()) * ids_per_char),
        }
    return result


@torch.inference_mode()
def _nats(model: LanguageModel, windows: Tensor) -> Tensor:
    """(N, T + 1) ids -> (N, T) nats of all but the first of each window."""
    logits = model(windows[:, :-1])  # (N, T, V)
    return F.cross_entropy(logits.flatten(0, 1), windows[:, 1:].flatten(), reduction="none").view(len(windows), -1)
