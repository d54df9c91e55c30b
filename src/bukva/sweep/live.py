"""Show the progress of a running sweep.

On a terminal, a table of the trials is redrawn. Otherwise, one line is printed whenever the state of a trial changes.
"""

import time
from typing import Any

from ray.tune import ProgressReporter
from rich.console import Console
from rich.live import Live

from bukva.core.progress import duration
from bukva.sweep.table import Row, interrupted, save_rows, table

SECONDS = 2.0


class LiveTable(ProgressReporter):
    """Progress reporter for Ray Tune.

    The reporter shows the trials of a sweep, and saves the table of trials for `bukva sweep status`.
    """

    def __init__(self, sweep: str) -> None:
        self._sweep, self._known, self._at = sweep, dict[str, str](), 0.0
        self._live: Live | None = None

    def should_report(self, trials: list[Any], done: bool = False) -> bool:  # noqa: ARG002
        """Return whether Tune should call `report` now. This is the case every two seconds and at the end of the sweep.

        done: True at the end.
        """
        return done or time.monotonic() - self._at > SECONDS

    def report(self, trials: list[Any], done: bool, *__: str) -> None:
        """Show and save the current state of the trials.

        done: True at the end and after Ctrl-C. Trials that are still running are then shown as interrupted.
        """
        self._at, rows = time.monotonic(), [_row(trial) for trial in trials]
        rows, screen = interrupted(rows) if done else rows, Console(markup=False)
        save_rows(self._sweep, rows)
        if screen.is_terminal:
            self._live = self._live or Live(console=screen, auto_refresh=False)
            self._live.start()
            self._live.update(table(rows), refresh=True)
            if done:
                self._live.stop()
            return
        for name, _, state, _, val, _, _ in rows:
            if state != self._known.get(name, "waiting"):
                print(f"{time.strftime('%H:%M:%S')} {name}: {state} {val}".rstrip(), flush=True)
            self._known[name] = state


def _row(trial: Any) -> Row:
    config, last, state = trial.config["trial"], trial.last_result, _state(trial)
    seconds, step = last.get("time_total_s", 0), last.get("step", "")
    cells = config["name"], " ".join(config["settings"]), state, str(step), _val(trial), duration(seconds)
    return [*cells, last.get("hostname", "")]


def _state(trial: Any) -> str:
    ended = "finished" if trial.last_result.get("finished") else "stopped"
    return {"PENDING": "waiting", "RUNNING": "running", "TERMINATED": ended}.get(trial.status, "failed")


def _val(trial: Any) -> str:
    """Return the last score of a trial on the validation split as text."""
    if _state(trial) == "failed":
        last_line = str(trial.get_error() or "").strip().rpartition("\n")[2]
        return last_line.partition("Error: ")[2] or last_line
    return f"{trial.last_result['val']:.3f}" if "val" in trial.last_result else ""
