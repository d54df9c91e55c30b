"""The trials of a sweep as a table, whose rows the driver keeps for `bukva sweep status`."""

import io
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from filelock import FileLock, Timeout
from rich.console import Console
from rich.table import Table

from bukva.core.files import read_json, write_json
from bukva.sweep.trials import sweeps_root

WIDTH = 200  # of a table that is no screen
HEADER = "trial", "settings", "state", "step", "val, bits/char", "time", "machine"
STATE = HEADER.index("state")
# by state, in the order of the rows: a terminal cuts off what does not fit
STYLES = {
    "running": "bold", "failed": "red", "interrupted": "yellow", "finished": "green", "stopped": "yellow",
    "waiting": "dim",
}  # fmt: skip

Row = list[str]


def keep_rows(sweep: str, rows: Sequence[Row]) -> None:
    """Write the rows of a sweep."""
    write_json(_file(sweep, "json"), rows)


def shown_rows(sweep: str) -> str:
    """Return the table of a sweep as text; a trial that was running when its driver ended was interrupted."""
    if not (file := _file(sweep, "json")).exists():
        return f"{sweep}: no trial has started yet"
    rows, text = read_json(file), io.StringIO()
    Console(file=text, width=WIDTH, markup=False).print(table(rows if has_driver(sweep) else interrupted(rows)))
    return text.getvalue()


def table(rows: Sequence[Row]) -> Table:
    """Return all trials, and how many there are of each state."""
    counts = Counter(row[STATE] for row in rows)
    title = ", ".join(f"{counts[state]} {state}" for state in STYLES if counts[state])
    found = Table(*HEADER, box=None, title=title, title_justify="left")
    for row in sorted(rows, key=lambda each: list(STYLES).index(each[STATE])):
        found.add_row(*row, style=STYLES[row[STATE]])
    return found


def interrupted(rows: Sequence[Row]) -> list[Row]:
    """Return the rows with the state that running trials have once their driver has ended."""
    return [["interrupted" if cell == "running" and n == STATE else cell for n, cell in enumerate(row)] for row in rows]


def driver_lock(sweep: str) -> FileLock:
    """Return the lock that the driver of a sweep holds as long as it lives."""
    file = _file(sweep, "lock")
    file.parent.mkdir(parents=True, exist_ok=True)
    return FileLock(file)


def has_driver(sweep: str) -> bool:
    """Return whether a process of this machine runs the sweep."""
    try:
        with driver_lock(sweep).acquire(blocking=False):
            return False
    except Timeout:
        return True


def _file(sweep: str, kind: str) -> Path:
    return sweeps_root() / "tables" / f"{sweep}.{kind}"
