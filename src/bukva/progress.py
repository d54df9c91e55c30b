"""Progress of long work, for whoever waits at a terminal; a log file gets a line now and then instead."""

import dataclasses
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from bukva.units import duration, quantity

if TYPE_CHECKING:  # training imports torch, which a light stage must not pay for
    from bukva.training.loop import Progress

LOG_SECONDS = 10.0  # between lines where there is no terminal
SCREEN_SECONDS = 0.2


class Line:
    """One line that is written over on a terminal, and repeated at longer intervals in a log."""

    def __init__(self) -> None:
        self.screen = sys.stderr.isatty()
        self.shown_at = 0.0
        self.width = 0

    def show(self, text: Callable[[], str], now: bool = False) -> None:
        """Show what `text` returns, unless the last time was a moment ago; `now` shows it in any case and keeps it."""
        clock = time.monotonic()
        if not now and clock - self.shown_at < (SCREEN_SECONDS if self.screen else LOG_SECONDS):
            return
        self.shown_at, line = clock, text()
        if self.screen:
            end = "\n" if now else ""
            print(f"\r{line:<{self.width}}", end=end, file=sys.stderr, flush=True)
            self.width = 0 if now else len(line)
        else:
            print(line, file=sys.stderr, flush=True)


@contextmanager
def transfer(what: str) -> Iterator[Callable[[int, int | None], None]]:
    """Yield a function of bytes done and bytes in all (None if unknown) that shows size and speed."""
    line, started_at = Line(), time.monotonic()
    done = 0

    def report(n_bytes: int, total: int | None) -> None:
        nonlocal done
        done = n_bytes
        line.show(lambda: text(total))

    def text(total: int | None) -> str:
        speed = done / max(time.monotonic() - started_at, 1e-3)
        share = f" of {quantity(total)}B ({done / total:.0%})" if total else ""
        return f"{what}: {quantity(done)}B{share}, {quantity(speed)}B/s"

    yield report
    if done:
        line.show(lambda: text(None), now=True)


class TrainingLine:
    """Step, losses, characters per second and time left of a training run."""

    def __init__(self, what: str, n_steps: int) -> None:
        self.what, self.n_steps = what, n_steps
        self.line = Line()
        self.last: Progress | None = None
        self.last_at = self.started_at = time.monotonic()
        self.steps, self.update_chars, self.update_seconds = 0, 0, 0.0
        self.losses = ""

    @property
    def chars_per_second(self) -> float:
        """Characters learned from per second of updates; the time of scoring is left out."""
        return self.update_chars / self.update_seconds if self.update_seconds else 0.0

    def show(self, progress: "Progress") -> None:
        """Tell of one update."""
        self._time(progress)
        self.told(progress)
        self.line.show(lambda: self._text(progress.step), now=progress.val_nats_per_char is not None)

    def told(self, progress: "Progress") -> None:
        """Keep the losses, if there are new ones."""
        if progress.val_nats_per_char is not None:
            train = "" if progress.train_nats_per_char is None else f"train {progress.train_nats_per_char:.4f} "
            best = progress.best_val_nats_per_char
            self.losses = f" | {train}val {progress.val_nats_per_char:.4f} best {best:.4f} nats/char"

    def end(self) -> None:
        """Tell of a training that ended before its last step."""
        if self.last is not None and self.last.step < self.n_steps:
            step = self.last.step
            self.line.show(lambda: f"{self.what}: stopped at step {step}, for val got no better (patience)", now=True)

    def _time(self, progress: "Progress") -> None:
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


def watch(
    what: str,
    n_steps: int,
    updates: Iterable["Progress"],
    log: Callable[[dict[str, float], int], None],
    before: Iterable["Progress"] = (),
) -> Iterator["Progress"]:
    """Pass on those updates after which the val split was scored, showing all and logging these.

    Args:
        what: the stage.
        n_steps: updates in all.
        updates: of the training loop.
        log: takes metrics by name, and the step.
        before: scorings of the same training before it was interrupted, which are logged first.
    """
    line = TrainingLine(what, n_steps)
    for progress in list(before):
        line.told(progress)
        _log(progress, log)
    for progress in updates:
        line.show(progress)
        if progress.val_nats_per_char is not None:
            _log(progress, log, chars_per_second=line.chars_per_second or None)
            yield progress
    line.end()


def _log(progress: "Progress", log: Callable[[dict[str, float], int], None], **more: float | None) -> None:
    values = dataclasses.asdict(progress) | more
    step = values.pop("step")
    log({name: value for name, value in values.items() if value is not None}, step)
