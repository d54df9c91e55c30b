"""Callbacks that show a training while it runs: the line in the terminal, and the metrics of the journal."""

import dataclasses
import time
from collections.abc import Callable

from bukva.core.progress import Line, duration, quantity
from bukva.text.units import bits
from bukva.training.callback import Callback
from bukva.training.state import Progress, TrainState

Log = Callable[[dict[str, float], int], None]  # metrics by name, and the step


class ProgressLine(Callback):
    """A line of step, losses in bits per character, time left and characters per second.

    At each scoring it stays in the terminal, with what the model wrote then instead of the numbers that pass.
    """

    def __init__(self, what: str, n_steps: int) -> None:
        self.what, self.n_steps = what, n_steps
        self.line = Line()
        self.last: Progress | None = None
        self.last_at = self.started_at = time.monotonic()
        self.steps, self.update_chars, self.update_seconds = 0, 0, 0.0
        self.losses = ""

    @property
    def chars_per_second(self) -> float:
        """Characters learned from per second of updates, without the time of scoring."""
        return self.update_chars / self.update_seconds if self.update_seconds else 0.0

    def on_start(self, state: TrainState) -> None:
        """Take the losses of a restored training."""
        for progress in state.curve[-1:]:
            self._take_losses(progress)

    def on_update(self, state: TrainState, progress: Progress) -> None:
        """Show one update."""
        self._time(progress)
        self._take_losses(progress)
        if progress.val_nats_per_char is None:
            self.line.show(lambda: self._text(progress.step, *self._passing(progress.step)))
        else:
            passing = [] if self.line.screen else self._passing(progress.step)
            self.line.show(lambda: self._text(progress.step, *passing, *state.samples[-1:]), now=True)

    def on_end(self, state: TrainState) -> None:
        """Say why a training ended before its last step, and which weights are kept where it is not the last ones."""
        if state.step < self.n_steps:
            self._say(f"stopped early at step {state.step}: no improvement on val (patience)")
        if state.best_step < state.step:
            self._say(f"kept the weights of step {state.best_step}, the best on val ({bits(state.best_val):.3f} bits)")

    def _say(self, text: str) -> None:
        self.line.show(lambda: f"{self.what}: {text}", now=True)

    def _take_losses(self, progress: Progress) -> None:
        if progress.val_nats_per_char is not None:
            train = progress.train_nats_per_char
            learned = "" if train is None else f"train {bits(train):.3f}"
            self.losses = f"{learned:11} val {bits(progress.val_nats_per_char):.3f} bits"

    def _time(self, progress: Progress) -> None:
        clock = time.monotonic()
        if self.last is not None:
            self.steps += 1
            if progress.val_nats_per_char is None:
                self.update_chars += progress.chars_seen - self.last.chars_seen
                self.update_seconds += clock - self.last_at
        self.last, self.last_at = progress, clock

    def _passing(self, step: int) -> list[str]:
        """Time left and speed, as far as they are known."""
        left = (time.monotonic() - self.started_at) / self.steps * (self.n_steps - step) if self.steps else 0.0
        ahead = [f"{duration(left)} left"] if left else []
        return [*ahead, *([f"{quantity(self.chars_per_second)} chars/s"] if self.update_seconds else [])]

    def _text(self, step: int, *parts: str) -> str:
        width = len(str(self.n_steps))
        return " | ".join([f"{self.what} {step:{width}}/{self.n_steps}: {self.losses}", *parts])


class LogMetrics(Callback):
    """The metrics of each scoring, for a journal; those before an interruption are logged again first."""

    def __init__(self, log: Log, line: ProgressLine) -> None:
        self.log, self.line = log, line

    def on_start(self, state: TrainState) -> None:
        """Log what was scored before an interruption."""
        for progress in state.curve:
            self._log(progress)

    def on_update(self, state: TrainState, progress: Progress) -> None:  # noqa: ARG002 (all callbacks are called alike)
        """Log a scoring, with the speed."""
        if progress.val_nats_per_char is not None:
            self._log(progress, chars_per_second=self.line.chars_per_second or None)

    def _log(self, progress: Progress, **more: float | None) -> None:
        values = dataclasses.asdict(progress) | more
        step = values.pop("step")
        self.log({name: value for name, value in values.items() if value is not None}, step)
