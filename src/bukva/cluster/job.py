"""What a worker is told, and what it answers: a line of JSON each."""

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from typing import Any

from bukva.core.errors import BukvaError, LostError

# Exit statuses of a worker.
DONE, FAILED, TRY_AGAIN, STOPPED = 0, BukvaError.exit_status, LostError.exit_status, 143


@dataclass(frozen=True)
class Job:
    """One try of a trial.

    commit: from which the experiment starts.
    settings: options -S of `dvc exp run`.
    origin: the address of the repository that all machines share.
    project: the driver's project, if the worker runs on its machine and uses its cache; else "".
    attempt: counts from 1.
    cores: how many cores the trial has on another machine, which is how many threads compute.threads 0 means.
    environment: variables of the worker, as MLFLOW_TRACKING_URI.
    """

    trial: str
    settings: tuple[str, ...]
    commit: str
    origin: str
    project: str
    attempt: int
    cores: int
    environment: dict[str, str]

    def to_json(self) -> str:
        """One line."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, line: str) -> "Job":
        """Read a line of to_json.

        Raises:
            ValueError, TypeError: it is none.
        """
        job = cls(**json.loads(line))
        return replace(job, settings=tuple(job.settings))


@dataclass(frozen=True)
class News:
    """One line of a worker.

    kind: "log" (a line that DVC or a stage printed), "progress", or "end".
    values: of "log" and "end": text; of "progress": the fields of watch.Progress.
    """

    kind: str
    values: dict[str, Any]

    def to_json(self) -> str:
        """One line."""
        return json.dumps({"kind": self.kind, **self.values}, ensure_ascii=False)

    @classmethod
    def from_json(cls, line: str) -> "News":
        """Read a line; what is none of to_json is taken for the log, such as a traceback of the worker."""
        try:
            values = json.loads(line)
            return cls(values.pop("kind"), values)
        except (ValueError, KeyError, AttributeError):
            return cls("log", {"text": line.rstrip("\n")})


Say = Callable[[News], None]  # takes a worker's news
