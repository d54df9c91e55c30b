"""A plan: a budget in seconds and measured speeds of sizes of the GPT become a size, a batch and a number of steps.

Sources: Hoffmann et al. 2022, "Training compute-optimal large language models" (about 20 tokens per parameter);
Muennighoff et al. 2023, "Scaling data-constrained language models" (up to four epochs are nearly as good as new text).
"""

import math
import re
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from bukva.backends.device import prepare
from bukva.config.schema import MOST_STEPS, Params
from bukva.core.errors import BukvaError
from bukva.core.progress import quantity
from bukva.models.gpt import GPTConfig
from bukva.models.registry import count_parameters
from bukva.models.window_rule import MOST_SCORED
from bukva.project.stages import paths
from bukva.text.ids import Ids
from bukva.text.splits import check_lengths, load_splits
from bukva.text.tokenizers import load_tokenizer
from bukva.text.tokenizers.base import Tokenizer, total
from bukva.training.callback import Callback, StopAfter
from bukva.training.run import Task, run_training, start
from bukva.training.state import Progress, TrainState

Values = dict[str, dict[str, Any]]  # section -> key -> value

UNITS = {"h": 3600, "min": 60, "s": 1}  # seconds
BUDGET = re.compile("".join(rf"(?:([0-9]+(?:\.[0-9]+)?){unit})?" for unit in UNITS))
LONGEST = 30 * 24 * 3600  # seconds

HEAD_SIZE = 32  # channels
CHARS_PER_PARAMETER = 20  # the least for which a size is proposed
EPOCHS = 4  # the most without a warning, and without patience
PATIENCE = 3  # scorings of val without an improvement, after which a training that reads the text often stops
RESERVE = 0.05  # share of the budget kept for what is not measured: files, the tracker, a machine that slows down
SCORINGS = 10  # beside the one before the first update
SCORING_SHARE = 0.2  # of the time, at most; a large val split is scored less often
WARMUP_SHARE, LEAST_WARMUP = 0.02, 10  # of n_steps; updates
OWN_BATCH_CHANNELS = 128  # up to here batch_size stays as it is; it doubles whenever n_embd does

UNTIMED = 2  # updates before the clock starts: the first ones are slower
UNTIMED_ON_GPU = 20  # kernels are compiled and a graph is captured within these
LEAST_UPDATES, LEAST_SECONDS = 3, 1.0  # of a measurement
MEASURED_STEPS = 10_000  # never reached; on a GPU the losses are compiled if that pays for so many updates
SCORED_IDS = 2**14  # of val, to measure scoring


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

    seconds: float  # for scorings and updates
    train_chars: int
    size: Size
    n_parameters: int
    batch_size: int  # windows
    chars_per_update: int
    seconds_per_update: float
    seconds_per_scoring: float  # of val
    patience: int = PATIENCE  # of a training that reads the text more than EPOCHS times

    @property
    def n_scorings(self) -> int:
        """At most, beside the one before the first update."""
        return max(1, min(SCORINGS, int(self.seconds * SCORING_SHARE / self.seconds_per_scoring) - 1))

    @property
    def n_steps(self) -> int:
        """As many updates as fit into the time beside the scorings; none, or MOST_STEPS, may be."""
        left = self.seconds - (self.n_scorings + 1) * self.seconds_per_scoring
        return min(MOST_STEPS, max(0, int(left / self.seconds_per_update)))

    @property
    def chars(self) -> int:
        """Characters learned from, those of later epochs again."""
        return self.n_steps * self.chars_per_update

    @property
    def is_enough(self) -> bool:
        """Whether the size sees at least CHARS_PER_PARAMETER characters per parameter."""
        return self.chars >= CHARS_PER_PARAMETER * self.n_parameters

    @property
    def epochs(self) -> float:
        """How often train is read."""
        return self.chars / self.train_chars

    def values(self) -> Values:
        """The values for params.yaml."""
        patience = {"patience": self.patience} if self.epochs > EPOCHS else {}
        return self.size.values(
            self.batch_size,
            **patience,
            n_steps=self.n_steps,
            warmup_steps=min(self.n_steps, max(LEAST_WARMUP, round(WARMUP_SHARE * self.n_steps))),
            eval_every=max(1, math.ceil(self.n_steps / self.n_scorings)),
        )

    def __str__(self) -> str:
        return (
            f"{self.size.n_layer} layers, {self.size.n_embd} channels, {quantity(self.n_parameters)} parameters, "
            f"{self.batch_size} windows a batch | "
            f"{quantity(self.chars_per_update / self.seconds_per_update)} chars/s | {self.n_steps} steps, "
            f"{quantity(self.chars)} chars, {self.chars / self.n_parameters:.1f} a parameter, {self.epochs:.1f} epochs"
        )


# ---- measuring: the training loop runs for a moment, with a stopwatch as its callback


class Stopwatch(Callback):
    """A callback that times the scoring before the first update, then updates, and then stops the training."""

    def __init__(self, clock: Callable[[], float], untimed: int = UNTIMED) -> None:
        self.clock, self.untimed = clock, untimed
        self.seconds_per_scoring = self.seconds_per_update = 0.0
        self._started_at = clock()

    def on_update(self, state: TrainState, progress: Progress) -> None:
        """Read the clock."""
        seconds, n_updates = self.clock() - self._started_at, progress.step - self.untimed
        if progress.step == 0:
            self.seconds_per_scoring = seconds
        if n_updates <= 0:
            self._started_at = self.clock()
        else:
            self.seconds_per_update = seconds / n_updates
            state.stop_requested = n_updates >= LEAST_UPDATES and seconds >= LEAST_SECONDS


def load_text(params: Params) -> tuple[dict[str, Ids], Tokenizer]:
    """Load the splits of the project and their tokenizer.

    Raises:
        BukvaError: the text is not split yet, or is too short for a window.
    """
    named = paths()
    splits = load_splits(Path(named["split"]))
    if not {"train", "val"} <= splits.keys():
        raise BukvaError(f"{named['split']}: the text is not split yet; run `dvc repro split`.")
    check_lengths({split: len(ids) for split, ids in splits.items()}, params.model.block_size, "model.block_size")
    return splits, load_tokenizer(Path(named["tokens"]))


class Planner:
    """Plans the sizes for a budget in seconds, on the splits of the project and this machine.

    started_at: when the start-up of the stage began, by time.perf_counter; it ends here, with a scoring and an update
    of a small model.

    Raises:
        BukvaError: the text is not split yet, or is too short for a window.
    """

    def __init__(self, params: Params, seconds: float, started_at: float) -> None:
        self.params = params
        self.splits, self.tokenizer = load_text(params)
        self.machine = prepare(self.params.compute)
        _, task = self.task(LADDER[0], self.params.train_gpt.batch_size)
        run_training(task, start(task), [StopAfter(1)])
        self.seconds = seconds * (1 - RESERVE) - (self.now() - started_at)

    def plan(self, size: Size) -> Plan:
        """Train for a moment.

        Raises:
            torch.OutOfMemoryError: the size does not fit into the GPU's memory.
        """
        batch_size = size.batch_size(self.params.train_gpt.batch_size)
        scored = min(MOST_SCORED, len(self.splits["val"]) - 1)
        config, task = self.task(size, batch_size)
        state = start(task)
        on_gpu = self.machine.device.type == "cuda"
        stopwatch = Stopwatch(self.now, UNTIMED_ON_GPU if on_gpu else UNTIMED)
        run_training(task, state, [stopwatch])
        return Plan(
            seconds=self.seconds,
            train_chars=total(self.tokenizer.chars_of, self.splits["train"]),
            size=size,
            n_parameters=count_parameters(config),
            batch_size=batch_size,
            chars_per_update=task.chars_seen(1),
            seconds_per_update=stopwatch.seconds_per_update,
            seconds_per_scoring=stopwatch.seconds_per_scoring * scored / min(SCORED_IDS, scored),
            patience=self.params.train_gpt.patience or PATIENCE,
        )

    def task(self, size: Size, batch_size: int) -> tuple[GPTConfig, Task]:
        """The shape, and its training without an end, with a sample of val that is scored once."""
        values = size.values(batch_size, n_steps=MEASURED_STEPS, eval_every=MEASURED_STEPS)
        model = self.params.model.model_copy(update=values["model"])
        recipe = self.params.train_gpt.model_copy(update=values["train_gpt"])
        config = GPTConfig(vocab_size=len(self.tokenizer), **model.model_dump())
        splits = self.splits | {"val": self.splits["val"][: SCORED_IDS + 1]}  # one more: the first is not scored
        return config, Task.of(config, splits, self.tokenizer, recipe, self.machine)

    def now(self) -> float:
        """The time when the GPU, where there is one, has done all that it was given."""
        if self.machine.device.type == "cuda":
            torch.cuda.synchronize()
        return time.perf_counter()


# ---- the proposal


def climb(measure: Callable[[Size], Plan]) -> Iterator[Plan]:
    """The plans of the sizes, up to the first that sees too little text or does not fit into memory."""
    for size in LADDER:
        try:
            plan = measure(size)
        except torch.OutOfMemoryError:
            if size == LADDER[0]:
                raise
            return
        yield plan
        if not plan.is_enough:
            return


def propose(plans: list[Plan]) -> Plan:
    """The largest size that sees enough text; the smallest if none does.

    Raises:
        BukvaError: there is no time for an update.
    """
    enough = [plan for plan in plans if plan.is_enough]
    chosen = max(enough or plans[:1], key=lambda plan: plan.n_parameters)
    if not chosen.n_steps:
        raise BukvaError("bukva plan: start-up and scoring leave no time for an update; use a longer BUDGET.")
    return chosen


def warnings(plan: Plan) -> Iterator[str]:
    """The weaknesses of a plan, each in a sentence."""
    if not plan.is_enough:
        yield f"Warning: even the smallest size sees fewer than {CHARS_PER_PARAMETER} characters per parameter."
    if plan.epochs > EPOCHS:
        yield (
            f"Warning: the text is read {plan.epochs:.1f} times; more than {EPOCHS} improve little and may overfit. So "
            f"train_gpt.patience {plan.patience} ends the training when val does not improve; a larger text, "
            "model.dropout or more train_gpt.weight_decay make more of the time."
        )
