"""Show progress bars for long tasks.

A bar appears only on a terminal, and not in log files such as those of DVC's queue.
"""

from collections.abc import Callable, Iterable, Iterator, Sized
from contextlib import contextmanager
from typing import TypeVar

from tqdm import tqdm

QUIET_SECONDS = 2.0  # a bar appears after this time, so short tasks show none
quantity = tqdm.format_sizeof  # formats a count: 950, 12.3k, 4.56M, 1.20G
T = TypeVar("T", bound=Sized)  # a text or an array of its code points
OnProgress = Callable[[int], None]  # called with the number of characters that were read since the last call


def no_progress(n_chars: int) -> None:
    """Progress callback that does nothing."""


def duration(seconds: float) -> str:
    """Format a number of seconds, for example as `8 s`, `2 min 05 s` or `3 h 20 min`."""
    whole = round(seconds)
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02d} s" if whole >= 60 else f"{whole} s"
    return f"{whole // 3600} h {whole % 3600 // 60:02d} min"


def tqdm_bar(what: str, total: int | None, unit: str, scale: bool = True) -> "tqdm[None]":
    """Return a progress bar. It appears only on a terminal and after QUIET_SECONDS.

    Args:
        what: title of the task.
        total: size of the whole task in the unit `unit`, or None if unknown.
        unit: name of the unit, such as "characters".
        scale: whether to shorten large numbers, for example to 12.3k.
    """
    return tqdm(
        None, what, total, unit=f" {unit}", unit_scale=scale, delay=QUIET_SECONDS, disable=None, dynamic_ncols=True
    )


@contextmanager
def transfer_bar(what: str) -> Iterator[Callable[[int, int | None], None]]:
    """Show a progress bar for a transfer of bytes, with the title `what`.

    Yield a function that updates the bar. Its arguments are the number of bytes transferred so far and the number of
    bytes of the whole transfer (None if unknown).
    """
    with tqdm_bar(what, None, "B") as shown:

        def report(n_bytes: int, total: int | None) -> None:
            shown.total = total
            shown.update(n_bytes - shown.n)

        yield report


@contextmanager
def progress_bar(what: str, total: int, unit: str = "character") -> Iterator[OnProgress]:
    """Show a progress bar with the title `what` for a task of `total` units, such as characters.

    Yield a function that advances the bar. Its argument is the number of units finished since its last call. Any thread
    may call the function.
    """
    with tqdm_bar(what, total, f"{unit}s") as shown:
        yield shown.update


def with_progress(texts: Iterable[T], what: str, total: int) -> Iterator[T]:
    """Yield the texts unchanged, and show a progress bar with the title `what`.

    The bar advances by the length of a text when the caller asks for the next text. `total` is the length of all texts
    together.
    """
    with progress_bar(what, total) as add:
        for text in texts:
            yield text
            add(len(text))
