"""Plan a training run: choose GPT size, batch size and number of steps for a time budget, from measured speeds.

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
from bukva.core.words import count
from bukva.models.gpt import GPTConfig
from bukva.models.registry import count_parameters
from bukva.models.window_rule import MAX_SCORED_IDS
from bukva.project.stages import paths
from bukva.text.ids import Ids
from bukva.text.splits import check_lengths, load_splits
from bukva.text.tokenizers import load_tokenizer
from bukva.text.tokenizers.base import Tokenizer, sum_counts
from bukva.training.callback import Callback, StopAfter
from bukva.training.run import Task, run_training, start
from bukva.training.state import Progress, TrainState

Values = dict[str, dict[str, Any]]  # values of parameters, by section of params.yaml and by key in the section

UNITS = {"h": 3600, "min": 60, "s": 1}  # seconds
BUDGET = re.compile("".join(rf"(?:([0-9]+(?:\.[0-9]+)?){unit})?" for unit in UNITS))
LONGEST = 30 * 24 * 3600  # longest budget, in seconds

HEAD_SIZE = 32  # channels
CHARS_PER_PARAMETER = 20  # a size is proposed only if it trains on at least this many characters per parameter
EPOCHS = 4  # a plan with more epochs sets train_gpt.patience, and a warning is printed
PATIENCE = 3  # with more than EPOCHS epochs, training stops after this many scorings of val without an improvement
RESERVE = 0.05  # fraction of the budget for unmeasured time: files, the tracker, a machine that slows down
SCORINGS = 10  # largest number of scorings of val, in addition to the scoring before the first update
SCORING_FRACTION = 0.2  # largest fraction of the time for scoring; a large val split is scored less often
WARMUP_FRACTION, LEAST_WARMUP = 0.02, 10  # fraction of n_steps for the warm-up; smallest number of updates for it
OWN_BATCH_CHANNELS = 128  # up to this n_embd, batch_size is unchanged; above it, batch_size doubles with n_embd

UNTIMED = 2  # number of updates at the start that are not timed, because they are slower
UNTIMED_ON_GPU = 20  # the same number on a GPU, where the first updates also compile kernels and capture a graph
LEAST_UPDATES, LEAST_SECONDS = 3, 1.0  # smallest number of updates and shortest time of a measurement
# n_steps of a measurement. A callback stops it earlier, but a GPU compiles the loss function only for a long run.
MEASURED_STEPS = 10_000
SCORED_IDS = 2**14  # number of ids of val on which scoring is timed


def parse_budget(text: str) -> float:
    """Convert a budget, such as `90s`, `10min`, `1h30min` or `2h`, to seconds.

    Raises:
        BukvaError: `text` is not a time, or the time is not between 0 and 30 days.
    """
    match = BUDGET.fullmatch(text)
    numbers = match.groups() if match else ()
    seconds = sum(float(number or 0) * unit for number, unit in zip(numbers, UNITS.values(), strict=False))
    if not 0 < seconds <= LONGEST:
        raise BukvaError(
            f"BUDGET {text!r} is not a time between 0 and 30 days. Use the units h, min and s, for example `90s`, "
            "`10min`, `1h30min` or `2h`."
        )
    return seconds


@dataclass(frozen=True)
class Size:
    """Number of layers and of channels of a GPT. Each attention head has HEAD_SIZE channels."""

    n_layer: int
    n_embd: int

    def batch_size(self, small_batch: int) -> int:
        """Return the number of windows in a batch for a GPT of this size.

        Small sizes use `small_batch`. Above OWN_BATCH_CHANNELS channels, the batch size doubles whenever the number of
        channels doubles.
        """
        return small_batch << max(0, (self.n_embd // OWN_BATCH_CHANNELS).bit_length() - 1)

    def values(self, batch_size: int, **recipe: Any) -> Values:
        """Return values for params.yaml, by section and key.

        Section `model` contains this size. Section `train_gpt` contains `batch_size` and the values of `recipe`.
        """
        shape = {"n_layer": self.n_layer, "n_head": self.n_embd // HEAD_SIZE, "n_embd": self.n_embd}
        return {"model": shape, "train_gpt": {"batch_size": batch_size} | recipe}


LADDER = [Size(2, 64), Size(3, 96), Size(4, 128), Size(4, 192), Size(6, 256), Size(6, 384), Size(8, 512), Size(12, 768)]


@dataclass(frozen=True)
class Plan:
    """A planned training run: a GPT size, and the updates that fit into a time budget at the measured speed."""

    seconds: float  # time budget for scoring val and for updates
    train_chars: int
    size: Size
    n_parameters: int
    batch_size: int  # windows
    chars_per_update: int
    seconds_per_update: float
    seconds_per_scoring: float  # time to score val once
    patience: int = PATIENCE  # used with more than EPOCHS epochs

    @property
    def n_scorings(self) -> int:
        """Largest number of times that training scores val, in addition to the scoring before the first update."""
        return max(1, min(SCORINGS, int(self.seconds * SCORING_FRACTION / self.seconds_per_scoring) - 1))

    @property
    def n_steps(self) -> int:
        """Number of updates that fit into the time that is left after scoring val, from 0 to MOST_STEPS."""
        left = self.seconds - (self.n_scorings + 1) * self.seconds_per_scoring
        return min(MOST_STEPS, max(0, int(left / self.seconds_per_update)))

    @property
    def chars(self) -> int:
        """Number of characters that the updates train on. A character counts once in each epoch."""
        return self.n_steps * self.chars_per_update

    @property
    def is_enough(self) -> bool:
        """Whether the run trains on at least CHARS_PER_PARAMETER characters per parameter of the model."""
        return self.chars >= CHARS_PER_PARAMETER * self.n_parameters

    @property
    def epochs(self) -> float:
        """Number of passes over the training split."""
        return self.chars / self.train_chars

    def values(self) -> Values:
        """Return the values of this plan for params.yaml, by section and key."""
        patience = {"patience": self.patience} if self.epochs > EPOCHS else {}
        return self.size.values(
            self.batch_size,
            **patience,
            n_steps=self.n_steps,
            warmup_steps=min(self.n_steps, max(LEAST_WARMUP, round(WARMUP_FRACTION * self.n_steps))),
            eval_every=max(1, math.ceil(self.n_steps / self.n_scorings)),
        )

    def __str__(self) -> str:
        return (
            f"{count(self.size.n_layer, 'layer')}, {self.size.n_embd} channels, "
            f"{quantity(self.n_parameters)} parameters, {count(self.batch_size, 'window')} per batch | "
            f"{quantity(self.chars_per_update / self.seconds_per_update)} chars/s | {count(self.n_steps, 'step')}, "
            f"{quantity(self.chars)} chars, {self.chars / self.n_parameters:.1f} per parameter, "
            f"{self.epochs:.1f} epochs"
        )


# ---- measuring: run the training loop for about a second, with a stopwatch as a callback


class Stopwatch(Callback):
    """Callback that times the first scoring of val and a few updates, and then stops training.

    Args:
        clock: function that returns the current time in seconds.
        untimed: number of updates at the start that are not timed.
    """

    def __init__(self, clock: Callable[[], float], untimed: int = UNTIMED) -> None:
        self.clock, self.untimed = clock, untimed
        self.seconds_per_scoring = self.seconds_per_update = 0.0
        self._started_at = clock()

    def on_update(self, state: TrainState, progress: Progress) -> None:
        """Read the clock. Request the end of training when enough updates are timed."""
        seconds, n_updates = self.clock() - self._started_at, progress.step - self.untimed
        if progress.step == 0:
            self.seconds_per_scoring = seconds
        if n_updates <= 0:
            self._started_at = self.clock()
        else:
            self.seconds_per_update = seconds / n_updates
            state.stop_requested = n_updates >= LEAST_UPDATES and seconds >= LEAST_SECONDS


def load_text(params: Params) -> tuple[dict[str, Ids], Tokenizer]:
    """Return the ids of each split by split name, and the tokenizer.

    Raises:
        BukvaError: the text is not split yet, or a split is shorter than `model.block_size` requires.
    """
    named = paths()
    splits = load_splits(Path(named["split"]))
    if not {"train", "val"} <= splits.keys():
        raise BukvaError(f"The text is not split yet, so {named['split']} is incomplete. Run `dvc repro split`.")
    check_lengths({split: len(ids) for split, ids in splits.items()}, params.model.block_size, "model.block_size")
    return splits, load_tokenizer(Path(named["tokens"]))


class Planner:
    """Plan GPT training runs that fit into a time budget on this machine, with the text of this project.

    The constructor loads the text, and scores and updates a small model once. The time from `started_at` to the end of
    the constructor is subtracted from the budget, because stage train-gpt takes about as much time to start.

    Args:
        params: the content of params.yaml.
        seconds: the time budget.
        started_at: time.perf_counter() at the start of the process.

    Raises:
        BukvaError: the text is not split yet, or a split is shorter than `model.block_size` requires.
    """

    def __init__(self, params: Params, seconds: float, started_at: float) -> None:
        self.params = params
        self.splits, self.tokenizer = load_text(params)
        self.machine = prepare(self.params.compute)
        _, task = self.task(LADDER[0], self.params.train_gpt.batch_size)
        run_training(task, start(task), [StopAfter(1)])
        self.seconds = seconds * (1 - RESERVE) - (self.now() - started_at)

    def plan(self, size: Size) -> Plan:
        """Measure the speed of a GPT of this size in about a second of training, and return the plan for this size.

        Raises:
            torch.OutOfMemoryError: the size does not fit into the GPU's memory.
        """
        batch_size = size.batch_size(self.params.train_gpt.batch_size)
        n_scored = min(MAX_SCORED_IDS, len(self.splits["val"]) - 1)
        config, task = self.task(size, batch_size)
        state = start(task)
        on_gpu = self.machine.device.type == "cuda"
        stopwatch = Stopwatch(self.now, UNTIMED_ON_GPU if on_gpu else UNTIMED)
        run_training(task, state, [stopwatch])
        return Plan(
            seconds=self.seconds,
            train_chars=sum_counts(self.tokenizer.chars_of, self.splits["train"]),
            size=size,
            n_parameters=count_parameters(config),
            batch_size=batch_size,
            chars_per_update=task.chars_seen(1),
            seconds_per_update=stopwatch.seconds_per_update,
            seconds_per_scoring=stopwatch.seconds_per_scoring * n_scored / min(SCORED_IDS, n_scored),
            patience=self.params.train_gpt.patience or PATIENCE,
        )

    def task(self, size: Size, batch_size: int) -> tuple[GPTConfig, Task]:
        """Return the configuration of a GPT of this size, and the training task that measures its speed.

        The task has more steps than the measurement needs, so a callback must stop it. Before the first update, the
        task scores the first SCORED_IDS ids of val.
        """
        values = size.values(batch_size, n_steps=MEASURED_STEPS, eval_every=MEASURED_STEPS)
        model = self.params.model.model_copy(update=values["model"])
        recipe = self.params.train_gpt.model_copy(update=values["train_gpt"])
        config = GPTConfig(vocab_size=len(self.tokenizer), **model.model_dump())
        splits = self.splits | {"val": self.splits["val"][: SCORED_IDS + 1]}  # the first id is not scored
        return config, Task.of(config, splits, self.tokenizer, recipe, self.machine)

    def now(self) -> float:
        """Return time.perf_counter(). On a GPU, first wait until the GPU has finished all queued work."""
        if self.machine.device.type == "cuda":
            torch.cuda.synchronize()
        return time.perf_counter()


# ---- the proposal


def plans_by_size(measure: Callable[[Size], Plan]) -> Iterator[Plan]:
    """Yield a plan for each GPT size in LADDER, from small to large.

    The first plan with too few characters per parameter (see `Plan.is_enough`) is the last plan. Sizes that do not fit
    into the GPU's memory get no plan.

    Args:
        measure: function that measures the speed of a size and returns the plan for this size.

    Raises:
        torch.OutOfMemoryError: the smallest size does not fit into the GPU's memory.
    """
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
    """Return the plan for the largest model that trains on enough characters per parameter (see `Plan.is_enough`).

    If all plans have too few characters, return the first plan, which is for the smallest model.

    Raises:
        BukvaError: the budget is too short for a single update.
    """
    enough = [plan for plan in plans if plan.is_enough]
    chosen = max(enough or plans[:1], key=lambda plan: plan.n_parameters)
    if not chosen.n_steps:
        raise BukvaError(
            "The budget is too short: start-up and scoring leave no time for an update. Use a longer BUDGET."
        )
    return chosen


def warnings(plan: Plan) -> Iterator[str]:
    """Yield a warning if `plan` has too few characters per parameter, and a warning if `plan` has too many epochs."""
    if not plan.is_enough:
        yield (
            f"Warning: even the smallest model trains on fewer than {CHARS_PER_PARAMETER} characters per parameter. "
            "Use a longer BUDGET to train on more characters."
        )
    if plan.epochs > EPOCHS:
        yield (
            f"Warning: the plan has {plan.epochs:.1f} epochs. More than {EPOCHS} epochs help little and may overfit, "
            f"so `train_gpt.patience={plan.patience}` stops training when the score on val no longer improves. To make "
            "better use of the time, use a larger text, or increase `model.dropout` or `train_gpt.weight_decay`."
        )
