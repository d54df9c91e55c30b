"""The learning rate of each step."""

import math

from bukva.params import Training


def learning_rate(step: int, recipe: Training) -> float:
    """The learning rate of update `step` (counted from 1).

    It rises in a line over the first warmup_steps updates and then falls along half a cosine (Loshchilov and
    Hutter 2017) to decay_to of its height at the last one; decay_to = 1 keeps it.
    """
    if step < recipe.warmup_steps:
        return recipe.learning_rate * step / recipe.warmup_steps
    first = max(recipe.warmup_steps, 1)  # the update at full height
    progress = (step - first) / max(recipe.n_steps - first, 1)
    falling = (1 + math.cos(math.pi * progress)) / 2  # 1 ... 0
    return recipe.learning_rate * (recipe.decay_to + (1 - recipe.decay_to) * falling)
