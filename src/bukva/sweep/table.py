"""The table of trials, which the driver (the process that runs a sweep) saves for `bukva sweep status`."""

import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout
from rich.table import Table

from bukva.core.errors import BukvaError
from bukva.core.files import read_json, write_json
from bukva.core.progress import duration
from bukva.sweep.trials import sweeps_root

SECONDS = 2.0  # between two looks at the trials
HEADER = "trial", "settings", "state", "step", "val, bits/char", "time", "machine"
STATE = HEADER.index("state")
# style of each state; rows are sorted in this order
STYLES = {
    "running": "bold", "failed": "red", "interrupted": "yellow", "finished": "green", "stopped": "yellow",
    "waiting": "dim",
}  # fmt: skip

Row = list[str]


def newest_sweep(name: str | None = None) -> str:
    """Return `name`, or with `None` the name of the newest sweep of the project.

    Raises:
        BukvaError: the project has no such sweep.
    """
    files = sorted(sweeps_root().glob("tables/*.json"), key=lambda path: path.stat().st_mtime)
    names = [file.stem for file in files]
    if not names:
        raise BukvaError(
            "This project has no sweep yet. To start one, run `bukva sweep run -S SECTION.KEY=VALUE,VALUE`."
        )
    if name and name not in names:
        raise BukvaError(f"No sweep is named {name}. Existing sweeps: {', '.join(names)}.")
    return name or names[-1]


def table_of(sweep: str) -> Table:
    """Return the saved table of a sweep. If its driver has ended, the state `running` is shown as `interrupted`."""
    rows = read_json(_file(sweep, "json"))
    rows = rows if has_driver(sweep) else _interrupted(rows)
    counts = Counter(row[STATE] for row in rows)
    title = ", ".join(f"{counts[state]} {state}" for state in STYLES if counts[state])
    table = Table(*HEADER, box=None, title=title, title_justify="left")
    for row in sorted(rows, key=lambda each: list(STYLES).index(each[STATE])):
        table.add_row(*row, style=STYLES[row[STATE]])
    return table


class Reporter:
    """Progress reporter for Ray Tune. It saves the table, and prints a line whenever the state of a trial changes."""

    def __init__(self, sweep: str) -> None:
        self._sweep, self._known, self._at = sweep, dict[str, str](), 0.0

    def setup(self, **_: Any) -> None:
        """Do nothing when the sweep starts."""

    def should_report(self, _: Sequence[Any], done: bool = False) -> bool:
        """Return whether Tune should call `report` now."""
        return done or time.monotonic() - self._at > SECONDS

    def report(self, trials: Sequence[Any], done: bool, *_: str) -> None:
        """Save and print the states of the trials. `done` is true at the end of the sweep, also after Ctrl-C."""
        self._at, rows = time.monotonic(), [_row(trial) for trial in trials]
        rows = _interrupted(rows) if done else rows
        write_json(_file(self._sweep, "json"), rows)
        for name, _settings, state, _step, val, *_rest in rows:
            if state != self._known.get(name, "waiting"):
                print(f"{time.strftime('%H:%M:%S')} {name}: {state} {val}".rstrip(), flush=True)
            self._known[name] = state


def _row(trial: Any) -> Row:
    config, last = trial.config["trial"], trial.last_result
    ended = "finished" if last.get("finished") else "stopped"
    state = {"PENDING": "waiting", "RUNNING": "running", "TERMINATED": ended}.get(trial.status, "failed")
    val = f"{last['val']:.3f}" if "val" in last else ""
    if state == "failed":  # in place of the score: the last line of the traceback, without the name of the error
        last_line = str(trial.get_error() or "").strip().rpartition("\n")[2]
        val = last_line.partition("Error: ")[2] or last_line
    took, machine = duration(last.get("time_total_s", 0)), last.get("hostname", "")
    return [config["name"], " ".join(config["settings"]), state, str(last.get("step", "")), val, took, machine]


def _interrupted(rows: Sequence[Row]) -> list[Row]:
    return [["interrupted" if cell == "running" and n == STATE else cell for n, cell in enumerate(row)] for row in rows]


def driver_lock(sweep: str) -> FileLock:
    """Return the lock that the driver of a sweep holds."""
    file = _file(sweep, "lock")
    file.parent.mkdir(parents=True, exist_ok=True)
    return FileLock(file)


def has_driver(sweep: str) -> bool:
    """Return whether a process is running the sweep."""
    try:
        with driver_lock(sweep).acquire(blocking=False):
            return False
    except Timeout:
        return True


def _file(sweep: str, kind: str) -> Path:
    return sweeps_root() / "tables" / f"{sweep}.{kind}"
