"""Measures sizes of the GPT: the training loop runs for a moment, with a stopwatch as its callback."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch

from bukva.config.load import PARAMS, parse_params
from bukva.config.schema import MOST_STEPS, Params
from bukva.core.errors import BukvaError
from bukva.models.device import Machine, prepare
from bukva.models.gpt import GPTConfig
from bukva.models.registry import count_parameters
from bukva.planning.plan import LADDER, Budget, Plan, Size, Values, merge
from bukva.project.stages import paths
from bukva.text.ids import Ids
from bukva.text.splits import check_lengths, load_splits
from bukva.text.tokenizers import load_tokenizer
from bukva.text.tokenizers.base import Tokenizer, count_chars
from bukva.training.callback import Callback, StopAfter
from bukva.training.run import Task, run_training, start
from bukva.training.state import Progress, TrainState

WARM_UP = 2  # updates before the clock starts: the first ones are slower
LEAST_UPDATES, LEAST_SECONDS = 3, 1.0  # of a measurement
SCORED_IDS = 2**14  # of val, to measure scoring


class Stopwatch(Callback):
    """A callback that times the scoring before the first update, then updates, and then stops the training."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self.clock = clock
        self.seconds_per_scoring = self.seconds_per_update = 0.0
        self._started_at = 0.0

    def on_start(self, state: TrainState) -> None:  # noqa: ARG002 (all callbacks are called alike)
        """Start the clock for the scoring."""
        self._started_at = self.clock()

    def on_update(self, state: TrainState, progress: Progress) -> None:
        """Read the clock."""
        seconds, n_updates = self.clock() - self._started_at, progress.step - WARM_UP
        if progress.step == 0:
            self.seconds_per_scoring = seconds
        if n_updates <= 0:
            self._started_at = self.clock()
        else:
            self.seconds_per_update = seconds / n_updates
            state.stop_requested = n_updates >= LEAST_UPDATES and seconds >= LEAST_SECONDS


@dataclass(frozen=True)
class Measuring:
    """The text and the machine that sizes are measured on; `raw` is params.yaml."""

    raw: Values
    params: Params
    splits: dict[str, Ids]
    tokenizer: Tokenizer
    machine: Machine

    @classmethod
    def of(cls, raw: Values) -> "Measuring":
        """The inputs of stage train-gpt with these parameters, on this machine.

        Raises:
            BukvaError: the text is not split yet, or is too short for a window.
        """
        params, named = parse_params(raw, str(PARAMS)), paths()
        splits = load_splits(Path(named["split"]))
        if not {"train", "val"} <= splits.keys():
            raise BukvaError(f"{named['split']}: the text is not split yet; run `dvc repro split`.")
        check_lengths({split: len(ids) for split, ids in splits.items()}, params.model.block_size, "model.block_size")
        return cls(raw, params, splits, load_tokenizer(Path(named["tokens"])), prepare(params.compute))

    def budget(self, seconds: float, started_at: float) -> Budget:
        """The limits of a budget; the start-up ends here, with a scoring and an update of a small model.

        Args:
            seconds: of the budget.
            started_at: when the start-up began, by time.perf_counter.
        """
        _, task = self._task(LADDER[0], self.params.train_gpt.batch_size)
        run_training(task, start(task), [StopAfter(1)])
        return Budget(seconds, self._now() - started_at, count_chars(self.tokenizer, self.splits["train"]))

    def plan(self, size: Size, budget: Budget) -> Plan:
        """Train for a moment.

        Raises:
            torch.OutOfMemoryError: the size does not fit into the GPU's memory.
        """
        batch_size, all_of_val = size.batch_size(self.params.train_gpt.batch_size), len(self.splits["val"]) - 1
        config, task = self._task(size, batch_size)
        stopwatch = Stopwatch(self._now)
        run_training(task, start(task), [stopwatch])
        return Plan(
            budget=budget,
            size=size,
            n_parameters=count_parameters(config),
            batch_size=batch_size,
            chars_per_update=task.chars_seen(1),
            seconds_per_update=stopwatch.seconds_per_update,
            seconds_per_scoring=stopwatch.seconds_per_scoring * all_of_val / min(SCORED_IDS, all_of_val),
        )

    def _task(self, size: Size, batch_size: int) -> tuple[GPTConfig, Task]:
        """The shape, and its training without an end, with a sample of val that is scored once."""
        values = size.values(batch_size, n_steps=MOST_STEPS, eval_every=MOST_STEPS)
        params = parse_params(merge(self.raw, values), str(PARAMS))
        config = GPTConfig(vocab_size=len(self.tokenizer), **params.model.model_dump())
        splits = self.splits | {"val": self.splits["val"][: SCORED_IDS + 1]}  # one more: the first is not scored
        return config, Task.of(config, splits, self.tokenizer, params.train_gpt, self.machine)

    def _now(self) -> float:
        """The time when the GPU, where there is one, has done all that it was given."""
        if self.machine.device.type == "cuda":
            torch.cuda.synchronize()
        return time.perf_counter()
