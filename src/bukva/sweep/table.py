"""Save the trials of a sweep, and format the trials as a table.

The driver, the process that runs the sweep, saves the trials for `bukva sweep status`.
"""

import io
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from filelock import FileLock, Timeout
from rich.console import Console
from rich.table import Table

from bukva.core.files import read_json, write_json
from bukva.sweep.trials import sweeps_root

WIDTH = 200  # characters per line of a table that is returned as text
HEADER = "trial", "settings", "state", "step", "val, bits/char", "time", "machine"
STATE = HEADER.index("state")
# style of each state; rows are sorted in this order, because a terminal cuts off the last rows
STYLES = {
    "running": "bold", "failed": "red", "interrupted": "yellow", "finished": "green", "stopped": "yellow",
    "waiting": "dim",
}  # fmt: skip

Row = list[str]


def save_rows(sweep: str, rows: Sequence[Row]) -> None:
    write_json(_file(sweep, "json"), rows)


def format_rows(sweep: str) -> str:
    """Return the saved table of a sweep as text.

    If the process of the sweep has ended, trials with the saved state `running` are shown as `interrupted`.
    """
    if not (file := _file(sweep, "json")).exists():
        return f"{sweep}: no trial has started yet."
    rows, text = read_json(file), io.StringIO()
    Console(file=text, width=WIDTH, markup=False).print(table(rows if has_driver(sweep) else interrupted(rows)))
    return text.getvalue()


def table(rows: Sequence[Row]) -> Table:
    """Return a table with a row for each trial. The title contains the number of trials in each state."""
    counts = Counter(row[STATE] for row in rows)
    title = ", ".join(f"{counts[state]} {state}" for state in STYLES if counts[state])
    trials = Table(*HEADER, box=None, title=title, title_justify="left")
    for row in sorted(rows, key=lambda each: list(STYLES).index(each[STATE])):
        trials.add_row(*row, style=STYLES[row[STATE]])
    return trials


def interrupted(rows: Sequence[Row]) -> list[Row]:
    """Return a copy of the rows in which the state `running` is replaced by `interrupted`."""
    return [["interrupted" if cell == "running" and n == STATE else cell for n, cell in enumerate(row)] for row in rows]


def driver_lock(sweep: str) -> FileLock:
    """Return the lock of a sweep. The process that runs the sweep holds this lock."""
    file = _file(sweep, "lock")
    file.parent.mkdir(parents=True, exist_ok=True)
    return FileLock(file)


def has_driver(sweep: str) -> bool:
    """Return whether a process on this machine is running the sweep."""
    try:
        with driver_lock(sweep).acquire(blocking=False):
            return False
    except Timeout:
        return True


def _file(sweep: str, kind: str) -> Path:
    return sweeps_root() / "tables" / f"{sweep}.{kind}"
