"""A sweep as a table, which a terminal shows while it changes, and as lines for a log."""

import contextlib
import time
from collections.abc import Callable, Iterator

from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from bukva.cluster.board import OVER, Board, Entry
from bukva.core.progress import duration, quantity

STYLES = {
    "running": "bold",
    "finished": "green",
    "failed": "red",
    "lost": "red",
    "stopped": "yellow",
    "pruned": "yellow",
}
ORDER = "running", "failed", "lost", "stopped", "waiting", "finished", "pruned"


def table(board: Board, rows: int | None = None) -> Group:
    """All trials, the running ones first, and a line with the sums.

    rows: most trials to show; None for all.
    """
    found = Table(box=None, pad_edge=False)
    for title, justify in (
        ("trial", "left"), ("settings", "left"), ("state", "left"), ("stage", "left"), ("step", "right"),
        ("val", "right"), ("best", "right"), ("chars/s", "right"), ("left", "right"), ("node", "left"),
    ):  # fmt: skip
        found.add_column(title, justify=justify, no_wrap=title != "settings")  # type: ignore[arg-type]
    trials = sorted(board.trials.items(), key=lambda item: ORDER.index(item[1].state))
    for name, entry in trials[:rows]:
        found.add_row(*_cells(name, entry), style=STYLES.get(entry.state, "dim"))
    lines: list[Table | Text] = [found]
    if rows is not None and len(trials) > rows:
        lines.append(Text(f"and {len(trials) - rows} more: bukva sweep status {board.sweep}", style="dim"))
    for name, entry in trials:
        if entry.text and entry.state in ("failed", "lost"):
            lines.append(Text(f"{name}: {entry.text}", style="red"))
    return Group(*lines, Text(summary(board)))


def summary(board: Board) -> str:
    """How many trials there are of each state."""
    counts = {state: board.count(state) for state in ("running", "waiting", *OVER)}
    return f"{board.sweep}: " + ", ".join(f"{count} {state}" for state, count in counts.items() if count)


@contextlib.contextmanager
def live(console: Console) -> Iterator[Callable[[Board], None]]:
    """Yield what shows a board: a table that changes in place, or a line for each change where there is no terminal."""
    if not console.is_terminal:
        yield Changes(console).show
        return
    with Live(console=console, auto_refresh=False, vertical_overflow="crop") as screen:
        yield lambda board: screen.update(table(board, max(5, console.height - 6)), refresh=True)


class Changes:
    """Prints a line for each trial whose state has changed."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._known: dict[str, str] | None = None

    def show(self, board: Board) -> None:
        """Print what is new; what an earlier driver has done is one line."""
        if self._known is None:
            self._known = {name: entry.state for name, entry in board.trials.items() if entry.state in OVER}
            if self._known:
                self._console.print(f"{len(self._known)} of {len(board.trials)} trials had ended before")
        for name, entry in board.trials.items():
            if entry.state == "running" and not entry.node:  # Ray looks for a machine
                continue
            if entry.state != self._known.get(name, "waiting"):
                where = f" on {entry.node}" if entry.state == "running" else ""
                best = entry.progress.best
                val = f", val {best:.3f} bits/char" if entry.state == "finished" and best else ""
                why = f": {entry.text}" if entry.state in ("failed", "lost") else ""
                at = time.strftime("%H:%M:%S")
                self._console.print(f"{at} {name}: {entry.state}{where}{val}{why}", soft_wrap=True, highlight=False)
            self._known[name] = entry.state


def _cells(name: str, entry: Entry) -> list[str]:
    running, now = entry.state == "running", entry.progress
    return [
        name,
        " ".join(entry.settings),
        entry.state,
        now.stage,
        f"{now.step}/{now.n_steps}" if now.n_steps else "",
        "" if now.val is None else f"{now.val:.3f}",
        "" if now.best is None else f"{now.best:.3f}",
        quantity(now.rate) if now.rate and running else "",
        duration(entry.left) if entry.left and running else "",
        entry.node if running else "",
    ]
