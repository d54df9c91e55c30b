"""Progress of a long task: a bar on a terminal. A log file, such as that of DVC's queue, gets none."""

from collections.abc import Callable, Iterable, Iterator, Sized
from contextlib import contextmanager
from typing import TypeVar

from tqdm import tqdm

QUIET_SECONDS = 2.0  # before the bar of work that is mostly short
quantity = tqdm.format_sizeof  # of a count, readable: 950, 12.3k, 4.56M, 1.20G
T = TypeVar("T", bound=Sized)  # a text, or its code points
OnProgress = Callable[[int], None]  # called with the number of characters that were read since the last call


def no_progress(n_chars: int) -> None:
    """Progress callback that does nothing."""


def duration(seconds: float) -> str:
    """A time in seconds, readable: 8 s, 2 min 05 s, 3 h 20 min."""
    whole = round(seconds)
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02d} s" if whole >= 60 else f"{whole} s"
    return f"{whole // 3600} h {whole % 3600 // 60:02d} min"


def bar(what: str, total: int | None, unit: str, scale: bool = True) -> "tqdm[None]":
    """The bar of a task of so many units, which are shown in thousands and millions if `scale`."""
    return tqdm(
        None, what, total, unit=f" {unit}", unit_scale=scale, delay=QUIET_SECONDS, disable=None, dynamic_ncols=True
    )


@contextmanager
def transfer(what: str) -> Iterator[Callable[[int, int | None], None]]:
    """Yield a function of the bytes done and the total, None if it is unknown."""
    with bar(what, None, "B") as shown:

        def report(n_bytes: int, total: int | None) -> None:
            shown.total = total
            shown.update(n_bytes - shown.n)

        yield report


@contextmanager
def counting(what: str, total: int, unit: str = "character") -> Iterator[OnProgress]:
    """Yield a function that adds to the characters done, or to other units; it may be called from any thread."""
    with bar(what, total, f"{unit}s") as shown:
        yield shown.update


def counted(texts: Iterable[T], what: str, total: int) -> Iterator[T]:
    """The same texts, with the progress of who takes them."""
    with counting(what, total) as add:
        for text in texts:
            yield text
            add(len(text))
