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
    """A count, readable: 950, 12.3k, 4.56M, 1.20G."""
    for size, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if n >= 0.9995 * size:  # else 999.9k becomes 1000k
            digits = 2 if n < 9.995 * size else 1 if n < 99.95 * size else 0
            return f"{n / size:.{digits}f}{unit}"
    return f"{n:.0f}"


def duration(seconds: float) -> str:
    """A time in seconds, readable: 8 s, 2 min 05 s, 3 h 20 min."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02d} s"
    return f"{whole // 3600} h {whole % 3600 // 60:02d} min"


class Line:
    """One line that is rewritten on a terminal, and repeated at longer intervals in a log.

    On a terminal it is cut at the width: a longer one would break into two, and could not be rewritten.
    """

    def __init__(self) -> None:
        self.screen = sys.stderr.isatty()
        self.shown_at = 0.0
        self.width = 0

    def show(self, text: Callable[[], str], now: bool = False) -> None:
        """Show what `text` returns, unless the line is recent; `now` shows it in any case and keeps it."""
        clock = time.monotonic()
        if not now and clock - self.shown_at < (SCREEN_SECONDS if self.screen else LOG_SECONDS):
            return
        self.shown_at, line = clock, text()
        if self.screen:
            line = line[: shutil.get_terminal_size().columns - 1]
            end = "\n" if now else ""
            print(f"\r{line:<{self.width}}", end=end, file=sys.stderr, flush=True)
            self.width = 0 if now else len(line)
        else:
            print(line, file=sys.stderr, flush=True)


@contextmanager
def transfer(what: str) -> Iterator[Callable[[int, int | None], None]]:
    """Yield a function of the bytes done and the total (None if unknown) that shows size and speed."""
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


@contextmanager
def counting(what: str, total: int, unit: str = "character") -> Iterator[Read]:
    """Yield a function that adds to the characters done, or to other units, and shows their share and speed.

    It may be called from any thread. Short work shows nothing.
    """
    line, started_at = Line(), time.monotonic()
    line.shown_at = quiet_until = started_at + QUIET_SECONDS
    done, adding = 0, threading.Lock()

    def add(n_chars: int) -> None:
        nonlocal done
        with adding:
            done += n_chars
            line.show(lambda: text(f" of {quantity(total)} ({done / total:.0%})"))

    def text(share: str) -> str:
        speed = done / max(time.monotonic() - started_at, 1e-3)
        return f"{what}: {quantity(done)}{share} {unit}s, {quantity(speed)}/s"

    yield add
    if line.shown_at > quiet_until:
        line.show(lambda: text(""), now=True)


def counted(texts: Iterable[str], what: str, total: int) -> Iterator[str]:
    """The same texts, with the progress of who takes them."""
    with counting(what, total) as add:
        for text in texts:
            yield text
            add(len(text))
