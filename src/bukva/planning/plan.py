"""A plan: a budget in seconds and measured speeds of sizes of the GPT become a size, a batch and a number of steps.

Sources: Hoffmann et al. 2022, "Training compute-optimal large language models" (about 20 tokens per parameter);
Muennighoff et al. 2023, "Scaling data-constrained language models" (up to four epochs are nearly as good as new text).
"""

import io
import math
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from ruamel.yaml import YAML

from bukva.config.load import PARAMS, parse_params, read_yaml
from bukva.config.schema import MOST_STEPS, Params
from bukva.core.errors import BukvaError
from bukva.core.files import write_text
from bukva.core.progress import duration

Values = dict[str, dict[str, Any]]  # section -> key -> value
Change = tuple[str, Any, Any]  # section.key, the old value, the new one

UNITS = {"h": 3600, "min": 60, "s": 1}  # seconds
BUDGET = re.compile("".join(rf"(?:([0-9]+(?:\.[0-9]+)?){unit})?" for unit in UNITS))
EXAMPLES = "90s, 10min, 1h30min or 2h"
LONGEST = 30 * 24 * 3600  # seconds

HEAD_SIZE = 32  # channels
CHARS_PER_PARAMETER = 20  # the least for which a size is proposed
EPOCHS = 4  # the most without a warning
RESERVE = 0.05  # share of the budget kept for what is not measured: files, the tracker, a machine that slows down
SCORINGS = 10  # beside the one before the first update
SCORING_SHARE = 0.2  # of the time, at most; a large val split is scored less often
WARMUP_SHARE, LEAST_WARMUP = 0.02, 10  # of n_steps; updates
LEAST_STEPS = 200  # with fewer updates a smaller batch is tried
OWN_BATCH_CHANNELS = 128  # up to here batch_size stays as it is; it doubles whenever n_embd does


# ---- the budget


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
    if not text or found is None:
        raise BukvaError(f"BUDGET {text!r}: not a time with its unit (h, min, s); use for example {EXAMPLES}.")
    seconds = sum(float(number or 0) * size for number, size in zip(found.groups(), UNITS.values(), strict=True))
    if not 0 < seconds <= LONGEST:
        raise BukvaError(f"BUDGET {text!r}: out of range; use more than 0 and at most 30 days, for example {EXAMPLES}.")
    return seconds


# ---- sizes, and what they learn within it


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


LADDER = [Size(2, 64), Size(3, 96), Size(4, 128), Size(4, 192), Size(6, 256), Size(6, 384), Size(8, 512), Size(12, 768)]


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


def climb(measure: Callable[[Size, int], Speed], params: Params, budget: Budget) -> Iterator[Plan]:
    """The plans of the sizes, up to the first that sees too little text or does not fit into memory.

    Args:
        measure: gives the speed of a size with a batch of so many windows.
        params: gives the batch of the small sizes, and micro_batches and processes, which must divide a batch.
        budget: the limit of every plan.
    """
    divisor = params.train_gpt.micro_batches * params.train_gpt.processes
    for size in LADDER:
        batch_size = params.train_gpt.batch_size * _batch_factor(size)
        try:
            plan = Plan.of(measure(size, batch_size), budget)
            while _has_too_few_steps(plan) and batch_size % (2 * divisor) == 0:
                batch_size //= 2
                plan = Plan.of(measure(size, batch_size), budget)
        except torch.OutOfMemoryError:
            return
        yield plan
        if not plan.is_enough:
            return


def propose(plans: list[Plan]) -> Plan:
    """The largest size that sees enough text; the smallest if none does.

    Raises:
        BukvaError: there is no time for an update, or too little memory; names a sufficient budget.
    """
    if not plans:
        raise BukvaError(
            "bukva plan: this machine has too little memory for the smallest size; use a smaller train_gpt.batch_size."
        )
    enough = [plan for plan in plans if plan.is_enough]
    chosen = max(enough or plans[:1], key=lambda plan: plan.speed.n_parameters)
    if not chosen.n_steps:
        needed = duration(math.ceil(chosen.seconds_for(LEAST_STEPS)))
        raise BukvaError(
            f"BUDGET {duration(chosen.budget.seconds)}: start-up and scoring leave no time for an update; "
            f"use {needed} or more."
        )
    return chosen


def _batch_factor(size: Size) -> int:
    """How many times the batch of the small sizes this one gets."""
    return 1 << max(0, (size.n_embd // OWN_BATCH_CHANNELS).bit_length() - 1)


def _has_too_few_steps(plan: Plan) -> bool:
    """Whether to try a smaller batch, for a size that may be chosen."""
    return plan.n_steps < LEAST_STEPS and (plan.is_enough or plan.speed.size == LADDER[0])


# ---- params.yaml


def merge(raw: Values, values: Values) -> Values:
    """The sections with these values in them."""
    return raw | {section: raw[section] | keys for section, keys in values.items()}


def differences(raw: Values, values: Values) -> Iterator[Change]:
    """The values that differ from those of the file."""
    for section, keys in values.items():
        for key, value in keys.items():
            if raw[section][key] != value:
                yield f"{section}.{key}", raw[section][key], value


def write(values: Values, path: Path = PARAMS) -> None:
    """Put the values into params.yaml; comments, order and all other values stay.

    Raises:
        BukvaError: the values are not valid; the file is unchanged.
    """
    raw = read_yaml(path)
    parse_params(merge(raw, values), str(path))
    if not list(differences(raw, values)):
        return
    yaml = YAML()
    yaml.preserve_quotes, yaml.width = True, 4096  # keeps long lines whole
    content, text = yaml.load(path.read_text(encoding="utf-8")), io.StringIO()
    for section, keys in values.items():
        content[section].update(keys)
    yaml.dump(content, text)
    write_text(path, text.getvalue())
