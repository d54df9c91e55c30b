"""From a shape and a recipe to a training run: the pieces put together the one way that both models use."""

from collections.abc import Iterator

import numpy as np

from bukva.compute import Machine, seed_step
from bukva.modelfolder import Config, build
from bukva.params import Training
from bukva.scoring import half, share_of_nats
from bukva.text.tokenizers import Ids
from bukva.training.loop import Progress, TrainState, train
from bukva.training.optimizer import build_optimizer
from bukva.training.processes import ALONE, Group
from bukva.training.windows import Windows


def start(config: Config, recipe: Training, machine: Machine) -> TrainState:
    """A model before its first update; its weights are a function of the shape and the seed."""
    seed_step(recipe.seed, 0)
    model = build(config).to(machine.device)
    return TrainState(model, build_optimizer(model, recipe, machine.dtype))


def fit(
    state: TrainState, parts: dict[str, Ids], recipe: Training, machine: Machine, group: Group = ALONE
) -> Iterator[Progress]:
    """Train on parts["train"], scoring all of parts["val"] by the window rule; each of a group its share of both."""
    T, val = state.model.block_size, parts["val"]
    windows = Windows(parts["train"], T, recipe.batch_size, recipe.order, recipe.seed)

    def score_val() -> float:
        nats = share_of_nats(state.model, val, T, half(T), group.rank, group.size)
        return group.sum(float(nats.sum(dtype=np.float64))) / (len(val) - 1)

    return train(state, windows, score_val, recipe, machine, group)
