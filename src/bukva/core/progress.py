"""Progress bars for long tasks. They appear on terminals only, not in files such as the logs of DVC's queue."""

from collections.abc import Callable, Iterable, Iterator, Sized
from contextlib import contextmanager
from typing import TypeVar

from tqdm import tqdm

QUIET_SECONDS = 2.0  # a bar appears after this time, so short tasks show none
quantity = tqdm.format_sizeof  # formats a count: 950, 12.3k, 4.56M, 1.20G
T = TypeVar("T", bound=Sized)  # a text or an array of its code points
OnProgress = Callable[[int], None]  # called with the number of characters that were read since the last call


def no_progress(n_chars: int) -> None:
    """Show nothing."""


def duration(seconds: float) -> str:
    """Format for example `8 s`, `2 min 05 s` or `3 h 20 min`."""
    whole = round(seconds)
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02d} s" if whole >= 60 else f"{whole} s"
    return f"{whole // 3600} h {whole % 3600 // 60:02d} min"


def tqdm_bar(what: str, total: int | None, unit: str, scale: bool = True) -> "tqdm[None]":
    """Return a bar with a title. `total`: size of the task in `unit`s; `scale`: shorten numbers as in 12.3k."""
    return tqdm(
        None, what, total, unit=f" {unit}", unit_scale=scale, delay=QUIET_SECONDS, disable=None, dynamic_ncols=True
    )


@contextmanager
def transfer_bar(what: str) -> Iterator[Callable[[int, int | None], None]]:
    """Yield a function to call with the bytes transferred so far, and with their total or None."""
    with tqdm_bar(what, None, "B") as shown:

        def report(n_bytes: int, total: int | None) -> None:
            shown.total = total
            shown.update(n_bytes - shown.n)

        yield report


@contextmanager
def progress_bar(what: str, total: int, unit: str = "character") -> Iterator[OnProgress]:
    """Yield a function, for any thread, to call with the number of units finished since its last call."""
    with tqdm_bar(what, total, f"{unit}s") as shown:
        yield shown.update


def with_progress(texts: Iterable[T], what: str, total: int) -> Iterator[T]:
    """Yield the texts, and show a bar that advances by their lengths up to `total`."""
    with progress_bar(what, total) as add:
        for text in texts:
            yield text
            add(len(text))
