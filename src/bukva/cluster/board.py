"""The state of all trials of a sweep, in files below .bukva/cluster/<sweep>: written by its driver, read by anybody.

board.json     the trials
logs/NAME.log  what the workers of a trial printed
stop/NAME      asks the driver to stop this trial
driver.lock    held by the driver
"""

import contextlib
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

from filelock import FileLock, Timeout

from bukva.cluster.trials import Sweep
from bukva.cluster.watch import Progress
from bukva.core.errors import BukvaError
from bukva.core.files import project_root, read_json, write_json

State = Literal["waiting", "running", "finished", "failed", "stopped", "pruned", "lost"]
OVER: tuple[State, ...] = "finished", "pruned", "failed", "stopped", "lost"


@dataclass
class Entry:
    """One trial.

    attempt: how often it was started; all drivers of the sweep together.
    node: the machine of its last worker.
    progress: what that did last.
    left: seconds that the training will still take; 0 if unknown.
    seconds: that its workers took, without one that runs now.
    text: how it ended.
    """

    settings: list[str]
    state: State = "waiting"
    attempt: int = 0
    node: str = ""
    progress: Progress = field(default_factory=Progress)
    left: float = 0.0
    seconds: float = 0.0
    text: str = ""


@dataclass
class Board:
    """The trials of a sweep, by name.

    at: when it was written, in seconds since 1970.
    """

    sweep: str
    commit: str
    trials: dict[str, Entry] = field(default_factory=dict)
    at: float = 0.0

    @classmethod
    def of(cls, sweep: Sweep) -> "Board":
        """The board of a sweep, with what is known of it; a trial that was running then waits now.

        Raises:
            BukvaError: there is another sweep of this name.
        """
        path = folder_of(sweep.name) / "board.json"
        known = cls.read(sweep.name) if path.exists() else cls(sweep.name, sweep.commit)
        names = {trial.name for trial in sweep.trials}
        if known.commit != sweep.commit or known.trials.keys() - names:
            raise BukvaError(
                f"--name: there is another sweep {sweep.name}, of commit {known.commit[:7]} and {len(known.trials)} "
                "trials; use another name, or the same commit and settings to continue it."
            )
        trials = {trial.name: known.trials.get(trial.name, Entry(list(trial.settings))) for trial in sweep.trials}
        for entry in trials.values():
            if entry.state not in ("finished", "pruned"):
                entry.state, entry.text = "waiting", ""
        return cls(sweep.name, sweep.commit, trials)

    @classmethod
    def read(cls, sweep: str) -> "Board":
        """The board as its driver wrote it last.

        Raises:
            BukvaError: there is none.
        """
        path = folder_of(sweep) / "board.json"
        try:
            content: dict[str, Any] = read_json(path)
        except OSError:
            raise BukvaError(f"{sweep}: there is no such sweep; known: {', '.join(sweeps()) or 'none'}.") from None
        trials = {
            name: Entry(**{**entry, "progress": Progress(**entry["progress"])})
            for name, entry in content.pop("trials").items()
        }
        return cls(trials=trials, **content)

    def write(self) -> None:
        """Write it, for those who look."""
        self.at = time.time()
        write_json(folder_of(self.sweep) / "board.json", asdict(self))

    def count(self, state: State) -> int:
        """How many trials are in this state."""
        return sum(entry.state == state for entry in self.trials.values())


def boards_root() -> Path:
    """The folder of all sweeps."""
    return project_root() / ".bukva" / "cluster"


def folder_of(sweep: str) -> Path:
    """The folder of a sweep."""
    return boards_root() / sweep


def sweeps() -> list[str]:
    """The names of all sweeps of this project, the latest first."""
    boards = sorted(boards_root().glob("*/board.json"), key=lambda path: path.stat().st_mtime, reverse=True)
    return [path.parent.name for path in boards]


def log_of(sweep: str, trial: str) -> Path:
    """Where the lines of a trial's workers go."""
    return folder_of(sweep) / "logs" / f"{trial}.log"


def request_stop(sweep: str, trial: str) -> None:
    """Ask the driver to stop a trial."""
    path = folder_of(sweep) / "stop" / trial
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch()


def take_stops(sweep: str) -> set[str]:
    """The trials that somebody wants to stop; each request is returned once."""
    requests = list((folder_of(sweep) / "stop").glob("*"))
    for path in requests:
        path.unlink(missing_ok=True)
    return {path.name for path in requests}


@contextlib.contextmanager
def driving(sweep: str) -> Iterator[None]:
    """Held while a driver gives out the trials of a sweep.

    Raises:
        BukvaError: another driver does.
    """
    folder_of(sweep).mkdir(parents=True, exist_ok=True)
    lock = FileLock(folder_of(sweep) / "driver.lock", blocking=False)
    try:
        lock.acquire()
    except Timeout:
        raise BukvaError(f"{sweep}: another driver runs it; look at it with: bukva sweep status.") from None
    try:
        yield
    finally:
        lock.release()


def has_driver(sweep: str) -> bool:
    """Whether a driver gives out the trials of this sweep now."""
    try:
        with driving(sweep):
            return False
    except BukvaError:
        return True
