"""A sweep as a table, which a terminal shows while it changes, and as lines for a log."""

import io
import time
from collections import Counter
from pathlib import Path
from typing import Any

from ray.tune import ProgressReporter
from rich.console import Console
from rich.live import Live
from rich.table import Table

from bukva.core.files import write_text
from bukva.core.progress import duration
from bukva.sweep.trials import sweeps_root

WIDTH = 200  # of a table in a file
SECONDS = 2.0
# by state, in the order of the rows: a terminal cuts off what does not fit
STYLES = {"running": "bold", "failed": "red", "finished": "green", "stopped": "yellow", "waiting": "dim"}


class LiveTable(ProgressReporter):
    """Shows the trials of a sweep, and keeps the table for `bukva sweep status`."""

    def __init__(self, sweep: str) -> None:
        self._sweep, self._known, self._at = sweep, dict[str, str](), 0.0
        self._live: Live | None = None

    def should_report(self, trials: list[Any], done: bool = False) -> bool:  # noqa: ARG002
        """Whether Tune should call report."""
        return done or time.monotonic() - self._at > SECONDS

    def report(self, trials: list[Any], done: bool, *_: str) -> None:
        """Show what has changed."""
        self._at, page, text, screen = time.monotonic(), _table(trials), io.StringIO(), Console()
        Console(file=text, width=WIDTH).print(page)
        write_text(table_of(self._sweep), text.getvalue())
        if screen.is_terminal:
            self._live = self._live or Live(console=screen, auto_refresh=False)
            self._live.start()
            self._live.update(page, refresh=True)
            if done:
                self._live.stop()
            return
        for trial in trials:
            name, state = trial.config["trial"]["name"], _state(trial)
            if state != self._known.get(name, "waiting"):
                print(f"{time.strftime('%H:%M:%S')} {name}: {state} {_val(trial)}".rstrip(), flush=True)
            self._known[name] = state


def table_of(sweep: str) -> Path:
    """Where the table of a sweep is, as its driver wrote it last."""
    return sweeps_root() / f"{sweep}.txt"


def _state(trial: Any) -> str:
    ended = "finished" if trial.last_result.get("finished") else "stopped"
    return {"PENDING": "waiting", "RUNNING": "running", "TERMINATED": ended}.get(trial.status, "failed")


def _val(trial: Any) -> str:
    """Its val, or why it has none."""
    if _state(trial) == "failed":
        said = str(trial.get_error() or "").strip().rpartition("\n")[2]
        return said.partition("Error: ")[2] or said
    return f"{trial.last_result['val']:.3f}" if "val" in trial.last_result else ""


def _table(trials: list[Any]) -> Table:
    """All trials, and how many there are of each state."""
    counts = Counter(map(_state, trials))
    title = ", ".join(f"{counts[state]} {state}" for state in STYLES if counts[state])
    found = Table(box=None, title=title, title_justify="left")
    for title in ("trial", "settings", "state", "step", "val, bits/char", "time", "machine"):
        found.add_column(title)
    for trial in sorted(trials, key=lambda each: list(STYLES).index(_state(each))):
        config, last, state = trial.config["trial"], trial.last_result, _state(trial)
        seconds, step = last.get("time_total_s", 0), last.get("step", "")
        cells = config["name"], " ".join(config["settings"]), state, str(step), _val(trial), duration(seconds)
        found.add_row(*cells, last.get("hostname", ""), style=STYLES[state])
    return found
