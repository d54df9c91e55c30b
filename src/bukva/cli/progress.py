"""Callbacks that show a training while it runs: its bar and lines, its metrics, and what the model writes."""

import dataclasses
import sys
import time
from collections.abc import Callable

import numpy as np
import torch

from bukva.core.progress import bar, quantity
from bukva.generation.sampling import generate
from bukva.models.base import LanguageModel
from bukva.text.ids import bits
from bukva.text.prompts import opening
from bukva.text.tokenizers.base import Tokenizer
from bukva.training.callback import Callback
from bukva.training.run import Task
from bukva.training.state import Progress, TrainState

SAMPLES = "samples.txt"
LINE_CHARS = 64
TEMPERATURE = 0.8


class ProgressBar(Callback):
    """A bar with the time left, and for each scoring a line, which is also logged: losses, speed, what the model wrote.

    Args:
        what: the stage.
        n_steps: of the training.
        log: takes metrics by name, and the step.
    """

    def __init__(self, what: str, n_steps: int, log: Callable[[dict[str, float], int], None]) -> None:
        self.what, self.n_steps, self.log = what, n_steps, log
        self.bar = bar(what, n_steps, "updates", scale=False)
        self.last: Progress | None = None
        self.last_at, self.update_chars, self.update_seconds = 0.0, 0, 0.0

    def on_start(self, state: TrainState) -> None:
        """Log again what was scored before an interruption."""
        self.bar.initial = self.bar.n = state.step
        for progress in state.curve:
            self._log(progress)

    def on_update(self, state: TrainState, progress: Progress) -> None:
        """Show one update; log a scoring with the speed of the updates alone, in characters per second."""
        clock, val = time.monotonic(), progress.val_nats_per_char
        if self.last is not None and val is None:
            self.update_chars += progress.chars_seen - self.last.chars_seen
            self.update_seconds += clock - self.last_at
        self.last, self.last_at = progress, clock
        self.bar.update(progress.step - self.bar.n)
        if val is not None:
            speed = self.update_chars / self.update_seconds if self.update_seconds else None
            self._log(progress, chars_per_second=speed)
            train = progress.train_nats_per_char
            losses = f"{'' if train is None else f'train {bits(train):.3f}':11} val {bits(val):.3f} bits"
            pace = [f"{quantity(speed)} chars/s"] if speed else []
            step = f"{self.what} {progress.step:{len(str(self.n_steps))}}/{self.n_steps}"
            self._say(" | ".join([f"{step}: {losses}", *pace, *state.samples[-1:]]))

    def on_end(self, state: TrainState) -> None:
        """Say why a training ended before its last step, and which weights are kept where it is not the last ones."""
        self.bar.close()
        if state.step < self.n_steps:
            self._say(f"{self.what}: stopped early at step {state.step}: no improvement on val (patience)")
        if state.best_step < state.step:
            score = f"{bits(state.best_val):.3f} bits"
            self._say(f"{self.what}: kept the weights of step {state.best_step}, the best on val ({score})")

    def _say(self, line: str) -> None:
        self.bar.write(line, file=sys.stderr)

    def _log(self, progress: Progress, **more: float | None) -> None:
        values = dataclasses.asdict(progress) | more
        step = values.pop("step")
        self.log({name: value for name, value in values.items() if value is not None}, step)


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
        """What a model writes after the prompt, LINE_CHARS characters at most; computed in float32, without dropout."""
        ids = torch.from_numpy(self.tokenizer.encode(self.prompt).astype(np.int64))[None].to(self.task.machine.device)
        n_ids = round(LINE_CHARS / self.task.chars_per_id)
        rng = torch.Generator().manual_seed(self.task.recipe.seed)
        model.eval()
        written = generate(model, ids, n_ids, temperature=TEMPERATURE, top_k=0, top_p=1.0, rng=rng)  # (1, n_ids)
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
