"""The arithmetic of a plan: from the measured speed of one size, and a budget, to a number of steps.

Sources: Hoffmann et al. 2022, "Training compute-optimal large language models" (about 20 tokens per parameter);
Muennighoff et al. 2023, "Scaling data-constrained language models" (up to four epochs are nearly as good as new text).
"""

import math
from dataclasses import dataclass
from typing import Any

from bukva.config.schema import MOST_STEPS
from bukva.planning.budget import Budget
from bukva.planning.params import Values

HEAD_SIZE = 32  # channels
CHARS_PER_PARAMETER = 20  # the least for which a size is proposed
EPOCHS = 4  # the most without a warning
RESERVE = 0.05  # share of the budget kept for what is not measured: files, the tracker, a machine that slows down
SCORINGS = 10  # beside the one before the first update
SCORING_SHARE = 0.2  # of the time, at most; a large val split is scored less often
WARMUP_SHARE, LEAST_WARMUP = 0.02, 10  # of n_steps; updates


@dataclass(frozen=True)
class Size:
    """A size of the GPT."""

    n_layer: int
    n_embd: int

    @property
    def n_head(self) -> int:
        """As many heads as make HEAD_SIZE channels each."""
        return self.n_embd // HEAD_SIZE

    def values(self, batch_size: int, **recipe: Any) -> Values:
        """The values of params.yaml for this size, with a batch of so many windows."""
        shape = {"n_layer": self.n_layer, "n_head": self.n_head, "n_embd": self.n_embd}
        return {"model": shape, "train_gpt": {"batch_size": batch_size} | recipe}


@dataclass(frozen=True)
class Speed:
    """The measurements of one size with one batch."""

    size: Size
    n_parameters: int
    batch_size: int  # windows
    chars_per_update: int
    seconds_per_update: float
    seconds_per_scoring: float  # of the whole val split

    @property
    def chars_per_second(self) -> float:
        """Characters learned from per second of updates."""
        return self.chars_per_update / self.seconds_per_update


@dataclass(frozen=True)
class Plan:
    """The training of one size within a budget."""

    speed: Speed
    budget: Budget
    n_scorings: int  # at most, beside the one before the first update
    n_steps: int

    @classmethod
    def of(cls, speed: Speed, budget: Budget) -> "Plan":
        """As many updates as fit into the budget beside start-up, scorings and reserve; none, or MOST_STEPS, may be."""
        left = budget.seconds * (1 - RESERVE) - budget.startup_seconds
        affordable = int(left * SCORING_SHARE / speed.seconds_per_scoring) - 1
        n_scorings = max(1, min(SCORINGS, affordable))
        left -= (n_scorings + 1) * speed.seconds_per_scoring
        return cls(speed, budget, n_scorings, min(MOST_STEPS, max(0, int(left / speed.seconds_per_update))))

    @property
    def eval_every(self) -> int:
        """Updates between scorings."""
        return max(1, math.ceil(self.n_steps / self.n_scorings))

    @property
    def warmup_steps(self) -> int:
        """Updates over which the learning rate rises."""
        return min(self.n_steps, max(LEAST_WARMUP, round(WARMUP_SHARE * self.n_steps)))

    @property
    def chars(self) -> int:
        """Characters learned from, those of later epochs again."""
        return self.n_steps * self.speed.chars_per_update

    @property
    def chars_per_parameter(self) -> float:
        """What a size is chosen by."""
        return self.chars / self.speed.n_parameters

    @property
    def is_enough(self) -> bool:
        """Whether the size sees at least CHARS_PER_PARAMETER characters per parameter."""
        return self.chars_per_parameter >= CHARS_PER_PARAMETER

    @property
    def epochs(self) -> float:
        """How often train is read."""
        return self.chars / self.budget.train_chars

    def seconds_for(self, n_steps: float) -> float:
        """The budget that so many updates of this size need."""
        scorings = (self.n_scorings + 1) * self.speed.seconds_per_scoring
        return (self.budget.startup_seconds + scorings + n_steps * self.speed.seconds_per_update) / (1 - RESERVE)

    def values(self) -> Values:
        """The values for params.yaml."""
        return self.speed.size.values(
            self.speed.batch_size, n_steps=self.n_steps, warmup_steps=self.warmup_steps, eval_every=self.eval_every
        )
