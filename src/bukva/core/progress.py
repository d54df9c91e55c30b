"""Progress of a long task: one line that is rewritten on a terminal, or a new line every few seconds in a log file."""

import shutil
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

LOG_SECONDS = 10.0  # between lines without a terminal
SCREEN_SECONDS = 0.2
QUIET_SECONDS = 2.0  # before the first line about work that is mostly short
Read = Callable[[int], None]  # is told how many characters more were read


def unread(n_chars: int) -> None:
    """A Read that nobody looks at."""


def quantity(n: float) -> str:
    """A count, readable: 950, 12.3k, 4.56M, 1.2G."""
    for size, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if n >= 0.9995 * size:  # else 999.9k becomes 1000k
            return f"{n / size:.3g}{unit}"
    return f"{n:.0f}"


def duration(seconds: float) -> str:
    """A time in seconds, readable: 8 s, 2 min 05 s, 3 h 20 min."""
    whole = round(seconds)
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02d} s" if whole >= 60 else f"{whole} s"
    return f"{whole // 3600} h {whole % 3600 // 60:02d} min"


class Line:
    """One line that is rewritten on a terminal, and so cut at its width; and repeated at longer intervals in a log."""

    def __init__(self) -> None:
        self.screen, self.shown_at, self.width = sys.stderr.isatty(), 0.0, 0

    def show(self, text: Callable[[], str]) -> None:
        """Show what `text` returns, unless the line is recent."""
        if time.monotonic() - self.shown_at >= (SCREEN_SECONDS if self.screen else LOG_SECONDS):
            self._print(text(), end="")

    def keep(self, text: str) -> None:
        """Show this text in any case, and begin another line."""
        self._print(text, end="\n")

    def _print(self, line: str, end: str) -> None:
        self.shown_at = time.monotonic()
        if self.screen:
            line = line[: shutil.get_terminal_size().columns - 1]
            print(f"\r{line:<{self.width}}", end=end, file=sys.stderr, flush=True)
            self.width = 0 if end else len(line)
        else:
            print(line, file=sys.stderr, flush=True)


class _Counter:
    """What is done of a task, its share and its speed. Short work shows nothing."""

    def __init__(self, what: str, unit: str, total: int | None = None) -> None:
        self.what, self.unit, self.total, self.done = what, unit, total, 0
        self.line, self.started_at, self.adding = Line(), time.monotonic(), threading.Lock()
        self.line.shown_at = self.quiet_until = self.started_at + QUIET_SECONDS

    def add(self, n: int) -> None:
        """So much more is done; from any thread."""
        with self.adding:
            self.set(self.done + n, self.total)

    def set(self, n: int, total: int | None) -> None:
        """So much is done, of a total if it is known."""
        self.done, self.total = n, total
        self.line.show(self._text)

    def end(self) -> None:
        """All is done."""
        if self.line.shown_at > self.quiet_until:
            self.line.keep(self._text())

    def _text(self) -> str:
        speed = self.done / max(time.monotonic() - self.started_at, 1e-3)
        share = f" of {quantity(self.total)} ({self.done / self.total:.0%})" if self.total else ""
        return f"{self.what}: {quantity(self.done)}{share} {self.unit}, {quantity(speed)}/s"


@contextmanager
def transfer(what: str) -> Iterator[Callable[[int, int | None], None]]:
    """Yield a function of the bytes done and the total, None if it is unknown."""
    counter = _Counter(what, "bytes")
    yield counter.set
    counter.end()


@contextmanager
def counting(what: str, total: int, unit: str = "character") -> Iterator[Read]:
    """Yield a function that adds to the characters done, or to other units; it may be called from any thread."""
    counter = _Counter(what, f"{unit}s", total)
    yield counter.add
    counter.end()


def counted(texts: Iterable[str], what: str, total: int) -> Iterator[str]:
    """The same texts, with the progress of who takes them."""
    with counting(what, total) as add:
        for text in texts:
            yield text
            add(len(text))
