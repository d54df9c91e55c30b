"""When a process starts that fills MLflow while a stage runs (follow.py)."""

import subprocess
import sys
import threading
import time

from bukva.tracking import background
from bukva.tracking.watched import is_watched
from bukva.tracking.writing import Log

SHORT_SECONDS = 150  # importing mlflow takes 3 s of a core: of a shorter training that would be more than 2 %
LOOK_SECONDS = 1.0  # how often a training looks whether somebody watches it
WAIT_SECONDS = 10  # for the process, before the stage ends and leaves it alone


class Follower:
    """The process that follows one stage, if it has one."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self._process: subprocess.Popen[bytes] | None = None
        self._ended = threading.Event()
        self._starter: threading.Thread | None = None

    def start_when_worthwhile(self) -> None:
        """Start the process as soon as somebody watches, else when the stage turns out to be long."""
        until = time.monotonic() + SHORT_SECONDS
        if _is_worthwhile(until):
            self._start()
        else:
            self._starter = threading.Thread(target=self._start_later, args=(until,), daemon=True)
            self._starter.start()

    def stage_has_ended(self, *, needed: bool) -> None:
        """Wait a moment until MLflow has everything, and print a line if it lacks something.

        needed: whether a stage without a process gets one now.
        """
        self._ended.set()
        if self._starter:
            self._starter.join()
        if needed and not self._process:
            self._start()
        if self._process and background.has_failed(self._process, WAIT_SECONDS):
            print(f"MLflow does not have all of {self._log.stage}; {background.REMEDY}", file=sys.stderr)

    def _start_later(self, until: float) -> None:
        while not self._ended.wait(LOOK_SECONDS):
            if _is_worthwhile(until):
                self._start()
                return

    def _start(self) -> None:
        if self._log.folder is None:
            return
        try:
            self._process = background.start("follow", str(self._log.folder))
        except OSError as error:
            print(f"MLflow does not follow {self._log.stage} ({error}); make sync completes it.", file=sys.stderr)


def _is_worthwhile(until: float) -> bool:
    return is_watched() or time.monotonic() >= until
