"""What is a function of the step: its learning rate, and its randomness."""

import numpy as np
import torch

from bukva.config.schema import Training


def learning_rate(step: int, recipe: Training) -> float:
    """The learning rate of update `step` (counted from 1).

    It rises linearly over the first warmup_steps updates, then falls linearly to decay_to times recipe.learning_rate at
    the last one; decay_to = 1 keeps it constant. (A cosine was worse; docs/dev/log.md.)
    """
    if step < recipe.warmup_steps:
        return recipe.learning_rate * step / recipe.warmup_steps
    first = max(recipe.warmup_steps, 1)  # the update with the full rate
    progress = (step - first) / max(recipe.n_steps - first, 1)
    return recipe.learning_rate * (1 - (1 - recipe.decay_to) * progress)


def seed_step(seed: int, step: int, rank: int = 0) -> None:
    """Seed torch's global generators, which initialisation and dropout draw from, for one step of one process.

    Randomness that is a function of these numbers needs no generator state in a checkpoint, and nothing that happens
    between two steps can disturb it.
    """
    torch.manual_seed(int(np.random.SeedSequence([seed, step, rank]).generate_state(1, np.uint64)[0] >> np.uint64(1)))
