"""Plan a training run: choose GPT size, batch size and number of steps for a time budget, from measured speeds.

Sources: Hoffmann et al. 2022, "Training compute-optimal large language models" (about 20 tokens per parameter);
Muennighoff et al. 2023, "Scaling data-constrained language models" (repeating a text up to four times costs little).
"""

import math
import re
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from bukva.backends.device import prepare
from bukva.core.errors import BukvaError
from bukva.core.progress import quantity
from bukva.core.schema import MOST_STEPS, Params
from bukva.core.words import count
from bukva.models.gpt import GPTConfig
from bukva.models.registry import count_parameters
from bukva.project.stages import paths
from bukva.scoring.window_rule import MAX_SCORED_IDS
from bukva.text.ids import check_lengths, load_splits
from bukva.text.tokenizers import load_tokenizer, sum_counts
from bukva.training.callback import Callback, StopAfter
from bukva.training.run import Task, run_training, start
from bukva.training.state import Progress, TrainState

UNITS = {"h": 3600, "min": 60, "s": 1}  # seconds
BUDGET = re.compile("".join(rf"(?:([0-9]+(?:\.[0-9]+)?){unit})?" for unit in UNITS))
LONGEST = 30 * 24 * 3600  # longest budget, in seconds

# layers, channels, and factor of train_gpt.batch_size for each size
LADDER = [(2, 64, 1), (3, 96, 1), (4, 128, 1), (4, 192, 1), (6, 256, 2), (6, 384, 2), (8, 512, 4), (12, 768, 4)]
HEAD_SIZE = 32  # channels
CHARS_PER_PARAMETER = 20  # a size is proposed only if it trains on at least this many characters per parameter
EPOCHS, PATIENCE = 4, 3  # a plan with more epochs sets train_gpt.patience, and a warning is printed
RESERVE = 0.05  # fraction of the budget for unmeasured time: files, the tracker, a machine that slows down
SCORINGS, SCORING_FRACTION = 10, 0.2  # at most so many scorings of val, and at most this fraction of the time for them
WARMUP_FRACTION, LEAST_WARMUP = 0.02, 10  # fraction of n_steps for the warm-up; smallest number of updates for it

UNTIMED, UNTIMED_ON_GPU = 2, 20  # updates at the start that are not timed; on a GPU they compile and capture a graph
LEAST_UPDATES, LEAST_SECONDS = 3, 1.0  # smallest number of updates and shortest time of a measurement
# n_steps of a measurement. A callback stops it earlier, but a GPU compiles the loss function only for a long run.
MEASURED_STEPS = 10_000
SCORED_IDS = 2**14  # number of ids of val on which scoring is timed


def parse_budget(text: str) -> float:
    """Convert a budget, such as `90s`, `10min`, `1h30min` or `2h`, to seconds."""
    match = BUDGET.fullmatch(text)
    numbers = match.groups() if match else ()
    seconds = sum(float(number or 0) * unit for number, unit in zip(numbers, UNITS.values(), strict=False))
    if not 0 < seconds <= LONGEST:
        raise BukvaError(
            f"BUDGET {text!r} is not a time between 0 and 30 days. Use the units h, min and s, for example `90s`, "
            "`10min`, `1h30min` or `2h`."
        )
    return seconds


@dataclass
class Plan:
    """A planned training run: a GPT size, and the updates that fit into `seconds` at the measured speed."""

    seconds: float
    train_chars: int  # characters of the training split
    model: dict[str, int]
    n_parameters: int
    batch_size: int
    chars_per_update: int
    seconds_per_update: float
    seconds_per_scoring: float
    patience: int = PATIENCE

    def __post_init__(self) -> None:
        # scorings of val, in addition to the scoring before the first update
        affordable = int(self.seconds * SCORING_FRACTION / self.seconds_per_scoring) - 1
        self.n_scorings = max(1, min(SCORINGS, affordable))
        left = self.seconds - (self.n_scorings + 1) * self.seconds_per_scoring
        self.n_steps = min(MOST_STEPS, max(0, int(left / self.seconds_per_update)))
        self.chars = self.n_steps * self.chars_per_update
        self.epochs = self.chars / self.train_chars
        self.is_enough = self.chars >= CHARS_PER_PARAMETER * self.n_parameters

    def values(self) -> dict[str, dict[str, Any]]:
        """Return values for params.yaml, by section and key. `patience` is set only with more than EPOCHS epochs."""
        training = {
            "batch_size": self.batch_size,
            "n_steps": self.n_steps,
            "warmup_steps": min(self.n_steps, max(LEAST_WARMUP, round(WARMUP_FRACTION * self.n_steps))),
            "eval_every": max(1, math.ceil(self.n_steps / self.n_scorings)),
        }
        more = {"patience": self.patience} if self.epochs > EPOCHS else {}
        return {"model": self.model, "train_gpt": more | training}

    def __str__(self) -> str:
        return (
            f"{count(self.model['n_layer'], 'layer')}, {self.model['n_embd']} channels, "
            f"{quantity(self.n_parameters)} parameters, {count(self.batch_size, 'window')} per batch | "
            f"{quantity(self.chars_per_update / self.seconds_per_update)} chars/s | {count(self.n_steps, 'step')}, "
            f"{quantity(self.chars)} chars, {self.chars / self.n_parameters:.1f} per parameter, "
            f"{self.epochs:.1f} epochs"
        )


class Stopwatch(Callback):
    """Callback that times the first scoring of val and a few updates, and then stops the training."""

    def __init__(self) -> None:
        self.untimed = UNTIMED_ON_GPU if torch.cuda.is_initialized() else UNTIMED
        self.seconds_per_scoring = self.seconds_per_update = 0.0
        self._started_at = now()

    def on_update(self, state: TrainState, progress: Progress) -> None:
        seconds, n_updates = now() - self._started_at, progress.step - self.untimed
        if progress.step == 0:
            self.seconds_per_scoring = seconds
        if n_updates <= 0:
            self._started_at = now()
        else:
            self.seconds_per_update = seconds / n_updates
            state.stop_requested = n_updates >= LEAST_UPDATES and seconds >= LEAST_SECONDS


def now() -> float:
    """Return time.perf_counter(), after a GPU has finished all queued work."""
    if torch.cuda.is_initialized():
        torch.cuda.synchronize()
    return time.perf_counter()


def plans(params: Params, budget: float, started_at: float) -> Iterator[Plan]:
    """Measure the GPT sizes in LADDER, from small to large, and yield a plan for each.

    The last plan has too few characters per parameter. Sizes that do not fit into the GPU's memory get no plan. The
    time since `started_at` (time.perf_counter) is subtracted from the `budget` in seconds, because stage train-gpt
    takes about as much time to start.
    """
    splits = load_splits(Path(paths()["split"]))
    if not {"train", "val"} <= splits.keys():
        raise BukvaError(f"The text is not split yet, so {paths()['split']} is incomplete. Run `dvc repro split`.")
    check_lengths({split: len(ids) for split, ids in splits.items()}, params.model.block_size, "model.block_size")
    tokenizer, machine = load_tokenizer(Path(paths()["tokens"])), prepare(params.compute)
    n_scored = min(MAX_SCORED_IDS, len(splits["val"]) - 1)
    sample = splits | {"val": splits["val"][: SCORED_IDS + 1]}  # the first id is not scored
    seconds = 0.0
    for n_layer, n_embd, factor in LADDER:
        model = {"n_layer": n_layer, "n_head": n_embd // HEAD_SIZE, "n_embd": n_embd}
        config = GPTConfig(vocab_size=len(tokenizer), **params.model.model_copy(update=model).model_dump())
        batch_size = params.train_gpt.batch_size * factor
        steps = {"batch_size": batch_size, "n_steps": MEASURED_STEPS, "eval_every": MEASURED_STEPS}
        task = Task.of(config, sample, tokenizer, params.train_gpt.model_copy(update=steps), machine)
        try:
            if not seconds:
                run_training(task, start(task), [StopAfter(1)])  # loads and compiles code before anything is timed
                seconds = budget * (1 - RESERVE) - (now() - started_at)
            run_training(task, start(task), [stopwatch := Stopwatch()])
        except torch.OutOfMemoryError:
            if (n_layer, n_embd, factor) == LADDER[0]:
                raise
            return
        plan = Plan(
            seconds, sum_counts(tokenizer.chars_of, splits["train"]), model, count_parameters(config), batch_size,
            task.chars_seen(1), stopwatch.seconds_per_update,
            seconds_per_scoring=stopwatch.seconds_per_scoring * n_scored / min(SCORED_IDS, n_scored),
            patience=params.train_gpt.patience or PATIENCE,
        )  # fmt: skip
        yield plan
        if not plan.is_enough:
            return


def propose(made: list[Plan]) -> Plan:
    """Return the plan for the largest model that trains on enough characters per parameter, or else the first plan."""
    chosen = max((plan for plan in made if plan.is_enough), key=lambda plan: plan.n_parameters, default=made[0])
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
