"""Callbacks that show a training while it runs: its speed, its bar and lines, its metrics, what the model writes."""

# ruff: noqa: ARG002 (callbacks do not read all of their arguments)

import dataclasses
import sys
import time
from collections.abc import Callable

import numpy as np
import torch

from bukva.backends import generation_copy
from bukva.core.progress import bar, quantity
from bukva.generation.sampling import generate
from bukva.models.base import LanguageModel
from bukva.text.ids import bits
from bukva.text.prompts import opening
from bukva.text.tokenizers.base import Tokenizer
from bukva.tracking.journal import JournalWriter
from bukva.training.callback import Callback
from bukva.training.run import Task
from bukva.training.state import Progress, TrainState

SAMPLES = "samples.txt"
LINE_CHARS = 64
TEMPERATURE = 0.8


class Speed(Callback):
    """Measures the speed of the updates of this process; the scorings and the first update do not count."""

    def __init__(self) -> None:
        self.last: Progress | None = None
        self.last_at, self.n_chars, self.seconds = 0.0, 0, 0.0

    @property
    def chars_per_second(self) -> float | None:
        """Characters per second; None before the second update."""
        return self.n_chars / self.seconds if self.seconds else None

    def on_update(self, state: TrainState, progress: Progress) -> None:
        """Read the clock."""
        clock = time.monotonic()
        # the first update loads and compiles kernels
        if self.last is not None and self.last.step and progress.val_nats_per_char is None:
            self.n_chars += progress.chars_seen - self.last.chars_seen
            self.seconds += clock - self.last_at
        self.last, self.last_at = progress, clock


class MetricsLog(Callback):
    """Writes the curve, one point for each scoring of val, into the journal, from which MLflow gets it.

    Args:
        journal: of the stage.
        speed: comes before this callback in the list of callbacks.
    """

    def __init__(self, journal: JournalWriter, speed: Speed) -> None:
        self.journal, self.speed = journal, speed

    def on_start(self, state: TrainState) -> None:
        """Write the points from before an interruption."""
        for progress in state.curve:
            self.journal.metrics(_metrics_of(progress), progress.step)

    def on_update(self, state: TrainState, progress: Progress) -> None:
        """Write a point if val was scored."""
        if progress.val_nats_per_char is not None:
            speed = self.speed.chars_per_second
            more = {} if speed is None else {"chars_per_second": speed}
            self.journal.metrics(_metrics_of(progress) | more, progress.step)


def _metrics_of(progress: Progress) -> dict[str, float]:
    values = dataclasses.asdict(progress)
    return {name: value for name, value in values.items() if name != "step" and value is not None}


class ProgressBar(Callback):
    """Shows a bar with the time left, and for each scoring a line with losses, speed and what the model wrote.

    Args:
        stage: its name.
        n_steps: of the training.
        speed: comes before this callback in the list of callbacks.
    """

    def __init__(self, stage: str, n_steps: int, speed: Speed) -> None:
        self.stage, self.n_steps, self.speed = stage, n_steps, speed
        self.bar = bar(stage, n_steps, "updates", scale=False)

    def on_start(self, state: TrainState) -> None:
        """Start where an interrupted training was."""
        self.bar.initial = self.bar.n = state.step

    def on_update(self, state: TrainState, progress: Progress) -> None:
        """Show one update, and a line if val was scored."""
        self.bar.update(progress.step - self.bar.n)
        val, train = progress.val_nats_per_char, progress.train_nats_per_char
        if val is not None:
            speed = self.speed.chars_per_second
            losses = f"{'' if train is None else f'train {bits(train):.3f}':11} val {bits(val):.3f} bits"
            pace = [f"{quantity(speed)} chars/s"] if speed else []
            step = f"{self.stage} {progress.step:{len(str(self.n_steps))}}/{self.n_steps}"
            self._say(" | ".join([f"{step}: {losses}", *pace, *state.samples[-1:]]))

    def on_end(self, state: TrainState) -> None:
        """Say why a training ended before its last step, and which weights are kept if not the last ones."""
        self.bar.close()
        if state.step < self.n_steps:
            self._say(f"{self.stage}: stopped early at step {state.step}: no improvement on val (patience)")
        if state.best_step < state.step:
            score = f"{bits(state.best_val):.3f} bits"
            self._say(f"{self.stage}: kept the weights of step {state.best_step}, the best on val ({score})")

    def _say(self, line: str) -> None:
        self.bar.write(line, file=sys.stderr)


class Samples(Callback):
    """A callback that adds a line to state.samples at each scoring of val, and keeps them all as one file.

    A line is a function of the weights and of recipe.seed. The random numbers are the same for every line and are used
    for nothing else, so no weight changes.

    Args:
        task: the training.
        tokenizer: of its text.
        keep: takes the name of the file and its text; each time it replaces the one before.
    """

    def __init__(self, task: Task, tokenizer: Tokenizer, keep: Callable[[str, str], None]) -> None:
        self.task, self.tokenizer, self.keep = task, tokenizer, keep
        self.prompt = opening(tokenizer)

    def on_start(self, state: TrainState) -> None:
        """Keep the lines from before an interruption."""
        if state.samples:
            self._keep(state)

    def on_update(self, state: TrainState, progress: Progress) -> None:
        """Write a line if val was scored."""
        if progress.val_nats_per_char is not None:
            state.samples.append(self.line(state.model))
            self._keep(state)

    def line(self, model: LanguageModel) -> str:
        """Return what a model writes after the prompt, LINE_CHARS characters at most, in float32, without dropout."""
        writer = generation_copy(model, self.task.machine)
        device = next(writer.parameters()).device
        ids = torch.from_numpy(self.tokenizer.encode(self.prompt).astype(np.int64))[None].to(device)  # (1, T)
        n_ids = round(LINE_CHARS / self.task.chars_per_id)
        rng = torch.Generator().manual_seed(self.task.recipe.seed)
        writer.eval()
        written = generate(writer, ids, n_ids, temperature=TEMPERATURE, top_k=0, top_p=1.0, rng=rng)  # (1, n_ids)
        model.train()
        return on_one_line(self.tokenizer.decode(written[0].cpu().numpy()))[:LINE_CHARS]

    def _keep(self, state: TrainState) -> None:
        """Write the file: what was drawn how, and a row for each scoring."""
        points = zip(state.curve, state.samples, strict=True)
        rows = [f"{point.step:>8}  {bits(point.val_nats_per_char or 0):11.4f}  {text}" for point, text in points]
        how = f"after {self.prompt!r} at temperature {TEMPERATURE}, with the same random numbers at each scoring"
        self.keep(SAMPLES, "\n".join([f"Written {how}.", "", f"{'step':>8}  {'bits on val':>11}  text", *rows, ""]))


def on_one_line(text: str) -> str:
    """A text for a line of a terminal: line ends as ↵, other white space as spaces, no control characters."""
    shown = ("↵" if char == "\n" else " " if char.isspace() else char for char in text)
    return "".join(filter(str.isprintable, shown))
