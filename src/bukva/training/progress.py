"""Callbacks that show a training while it runs: the line in the terminal, and the metrics of the journal."""

import dataclasses
import time
from collections.abc import Callable

from bukva.base.progress import Line, duration, quantity
from bukva.training.callback import Callback
from bukva.training.state import Progress, TrainState

Log = Callable[[dict[str, float], int], None]  # metrics by name, and the step


class ProgressLine(Callback):
    """Step, losses, characters per second and time left."""

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

    def on_update(self, state: TrainState, progress: Progress) -> None:  # noqa: ARG002 (all callbacks are called alike)
        """Show one update."""
        self._time(progress)
        self._take_losses(progress)
        self.line.show(lambda: self._text(progress.step), now=progress.val_nats_per_char is not None)

    def on_end(self, state: TrainState) -> None:
        """Say why a training ended before its last step."""
        if state.step < self.n_steps:
            text = f"{self.what}: stopped early at step {state.step}: no improvement on val (patience)"
            self.line.show(lambda: text, now=True)

    def _take_losses(self, progress: Progress) -> None:
        if progress.val_nats_per_char is not None:
            train = "" if progress.train_nats_per_char is None else f"train {progress.train_nats_per_char:.4f} "
            best = progress.best_val_nats_per_char
            self.losses = f" | {train}val {progress.val_nats_per_char:.4f} best {best:.4f} nats/char"

    def _time(self, progress: Progress) -> None:
        clock = time.monotonic()
        if self.last is not None:
            self.steps += 1
            if progress.val_nats_per_char is None:
                self.update_chars += progress.chars_seen - self.last.chars_seen
                self.update_seconds += clock - self.last_at
        self.last, self.last_at = progress, clock

    def _text(self, step: int) -> str:
        speed = f" | {quantity(self.chars_per_second)} chars/s" if self.update_seconds else ""
        left = (time.monotonic() - self.started_at) / self.steps * (self.n_steps - step) if self.steps else 0.0
        ahead = f" | {duration(left)} left" if left else ""
        return f"{self.what}: step {step}/{self.n_steps}{self.losses}{speed}{ahead}"


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
