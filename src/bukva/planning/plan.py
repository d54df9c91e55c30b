"""A plan: a budget in seconds and measured speeds of sizes of the GPT become a size, a batch and a number of steps.

Sources: Hoffmann et al. 2022, "Training compute-optimal large language models" (about 20 tokens per parameter);
Muennighoff et al. 2023, "Scaling data-constrained language models" (up to four epochs are nearly as good as new text).
"""

import math
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch

from bukva.config.schema import MOST_STEPS
from bukva.core.errors import BukvaError
from bukva.core.progress import duration, quantity

Values = dict[str, dict[str, Any]]  # section -> key -> value

UNITS = {"h": 3600, "min": 60, "s": 1}  # seconds
BUDGET = re.compile("".join(rf"(?:([0-9]+(?:\.[0-9]+)?){unit})?" for unit in UNITS))
LONGEST = 30 * 24 * 3600  # seconds

HEAD_SIZE = 32  # channels
CHARS_PER_PARAMETER = 20  # the least for which a size is proposed
EPOCHS = 4  # the most without a warning
RESERVE = 0.05  # share of the budget kept for what is not measured: files, the tracker, a machine that slows down
SCORINGS = 10  # beside the one before the first update
SCORING_SHARE = 0.2  # of the time, at most; a large val split is scored less often
WARMUP_SHARE, LEAST_WARMUP = 0.02, 10  # of n_steps; updates
OWN_BATCH_CHANNELS = 128  # up to here batch_size stays as it is; it doubles whenever n_embd does


@dataclass(frozen=True)
class Budget:
    """The time limit of stage train-gpt, the part of it before the first update, and the length of train."""

    seconds: float
    startup_seconds: float
    train_chars: int


def parse_budget(text: str) -> float:
    """The seconds of a budget such as 90s, 10min, 1h30min or 2h.

    Raises:
        BukvaError: it is not a time, or not between 0 and 30 days.
    """
    found = BUDGET.fullmatch(text)
    numbers = found.groups() if found else ()
    seconds = sum(float(number or 0) * unit for number, unit in zip(numbers, UNITS.values(), strict=False))
    if not 0 < seconds <= LONGEST:
        raise BukvaError(
            f"BUDGET {text!r}: not a time between 0 and 30 days with its unit (h, min, s); use for example 90s, 10min, "
            "1h30min or 2h."
        )
    return seconds


@dataclass(frozen=True)
class Size:
    """A size of the GPT; it has as many heads as make HEAD_SIZE channels each."""

    n_layer: int
    n_embd: int

    def batch_size(self, of_small: int) -> int:
        """Windows of its batch, given those of the small sizes."""
        return of_small << max(0, (self.n_embd // OWN_BATCH_CHANNELS).bit_length() - 1)

    def values(self, batch_size: int, **recipe: Any) -> Values:
        """The values of params.yaml for this size, with a batch of so many windows."""
        shape = {"n_layer": self.n_layer, "n_head": self.n_embd // HEAD_SIZE, "n_embd": self.n_embd}
        return {"model": shape, "train_gpt": {"batch_size": batch_size} | recipe}


LADDER = [Size(2, 64), Size(3, 96), Size(4, 128), Size(4, 192), Size(6, 256), Size(6, 384), Size(8, 512), Size(12, 768)]


@dataclass(frozen=True)
class Plan:
    """The training of one size within a budget, by what was measured."""

    budget: Budget
    size: Size
    n_parameters: int
    batch_size: int  # windows
    chars_per_update: int
    seconds_per_update: float
    seconds_per_scoring: float  # of the whole val split

    @property
    def n_scorings(self) -> int:
        """At most, beside the one before the first update."""
        return max(1, min(SCORINGS, int(self._seconds_left * SCORING_SHARE / self.seconds_per_scoring) - 1))

    @property
    def n_steps(self) -> int:
        """As many updates as fit into the budget beside start-up, scorings and reserve; none, or MOST_STEPS, may be."""
        left = self._seconds_left - (self.n_scorings + 1) * self.seconds_per_scoring
        return min(MOST_STEPS, max(0, int(left / self.seconds_per_update)))

    @property
    def _seconds_left(self) -> float:
        return self.budget.seconds * (1 - RESERVE) - self.budget.startup_seconds

    @property
    def chars(self) -> int:
        """Characters learned from, those of later epochs again."""
        return self.n_steps * self.chars_per_update

    @property
    def chars_per_parameter(self) -> float:
        """What a size is chosen by."""
        return self.chars / self.n_parameters

    @property
    def is_enough(self) -> bool:
        """Whether the size sees at least CHARS_PER_PARAMETER characters per parameter."""
        return self.chars_per_parameter >= CHARS_PER_PARAMETER

    @property
    def epochs(self) -> float:
        """How often train is read."""
        return self.chars / self.budget.train_chars

    def values(self) -> Values:
        """The values for params.yaml."""
        return self.size.values(
            self.batch_size,
            n_steps=self.n_steps,
            warmup_steps=min(self.n_steps, max(LEAST_WARMUP, round(WARMUP_SHARE * self.n_steps))),
            eval_every=max(1, math.ceil(self.n_steps / self.n_scorings)),
        )

    def __str__(self) -> str:
        return (
            f"{self.size.n_layer} layers, {self.size.n_embd} channels, {quantity(self.n_parameters)} parameters | "
            f"{quantity(self.chars_per_update / self.seconds_per_update)} chars/s | {self.n_steps} steps, "
            f"{quantity(self.chars)} chars, {self.chars_per_parameter:.1f} per parameter, {self.epochs:.1f} epochs"
        )


def climb(measure: Callable[[Size], Plan]) -> Iterator[Plan]:
    """The plans of the sizes, up to the first that sees too little text or does not fit into memory."""
    for size in LADDER:
        try:
            plan = measure(size)
        except torch.OutOfMemoryError:
            return
        yield plan
        if not plan.is_enough:
            return


def propose(plans: list[Plan]) -> Plan:
    """The largest size that sees enough text; the smallest if none does.

    Raises:
        BukvaError: there is no time for an update, or too little memory.
    """
    if not plans:
        raise BukvaError(
            "bukva plan: this machine has too little memory for the smallest size; use a smaller train_gpt.batch_size."
        )
    enough = [plan for plan in plans if plan.is_enough]
    chosen = max(enough or plans[:1], key=lambda plan: plan.n_parameters)
    if not chosen.n_steps:
        raise BukvaError(
            f"BUDGET {duration(chosen.budget.seconds)}: start-up and scoring leave no time for an update; use more."
        )
    return chosen


def merge(raw: Values, values: Values) -> Values:
    """The sections of params.yaml with these values in them."""
    return raw | {section: raw[section] | keys for section, keys in values.items()}


def command(raw: Values, values: Values) -> str:
    """The command that trains with those values that differ from params.yaml."""
    changes = [
        f"-S {section}.{key}={value}"
        for section, keys in values.items()
        for key, value in keys.items()
        if raw[section][key] != value
    ]
    return " ".join(["dvc exp run", *changes])


def warnings(plan: Plan) -> Iterator[str]:
    """The weaknesses of a plan, each in a sentence with what to do."""
    if not plan.is_enough:
        yield f"Warning: even the smallest size sees fewer than {CHARS_PER_PARAMETER} characters per parameter."
    if plan.epochs > EPOCHS:
        yield (
            f"Warning: reading the text more than {EPOCHS} times improves little and overfits; use a larger text, "
            "model.dropout, more train_gpt.weight_decay, train_gpt.patience or a smaller budget."
        )
