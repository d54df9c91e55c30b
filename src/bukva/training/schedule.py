"""The learning rate of each step."""

from bukva.params import Training


def learning_rate(step: int, recipe: Training) -> float:
    """The learning rate of update `step` (counted from 1).

    It rises in a line over the first warmup_steps updates and then falls in a line to decay_to of its height at the
    last one; decay_to = 1 keeps it. (Half a cosine ended 0.03 bits per character worse; docs/log.md.)
    """
    if step < recipe.warmup_steps:
        return recipe.learning_rate * step / recipe.warmup_steps
    first = max(recipe.warmup_steps, 1)  # the update at full height
    progress = (step - first) / max(recipe.n_steps - first, 1)
    return recipe.learning_rate * (1 - (1 - recipe.decay_to) * progress)
