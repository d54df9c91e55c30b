"""Commands that were started, and processes: wait for conditions, send signals, and find out how commands ended."""

import contextlib
import os
import re
import signal
import subprocess
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TypeVar

import psutil

T = TypeVar("T")

TIMEOUT_SECONDS = 600.0  # limit for every wait, long enough for a busy machine
POLL_SECONDS = 0.02


class Running:
    """A command that was started in a folder, in a separate process group. Its output goes to a file."""

    def __init__(self, command: tuple[str, ...], folder: Path, env: dict[str, str]) -> None:
        self._log = folder.parent / f"running-{time.monotonic_ns()}.log"
        with self._log.open("w") as log:
            self.process = subprocess.Popen(
                command, cwd=folder, env=env, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
            )

    @property
    def printed(self) -> str:
        return self._log.read_text(encoding="utf-8", errors="replace")

    def reaches(self, condition: Callable[[], object]) -> bool:
        """Wait until a condition is true; return False if the command ends first."""
        deadline = time.monotonic() + TIMEOUT_SECONDS
        while not condition():
            if self.process.poll() is not None:
                return bool(condition())
            assert time.monotonic() < deadline, self.printed
            time.sleep(POLL_SECONDS)
        return True

    def prints(self, text: str) -> bool:
        """Wait until the command has printed a text; return False if it ends first."""
        return self.reaches(lambda: text in self.printed)

    def wait(self, seconds: float = TIMEOUT_SECONDS) -> int:
        try:
            return self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"the command does not end:\n{self.printed}") from None

    def children(self) -> list[psutil.Process]:
        return psutil.Process(self.process.pid).children(recursive=True)

    def press_ctrl_c(self) -> None:
        """Send SIGINT to the whole process group, as a terminal does."""
        os.killpg(self.process.pid, signal.SIGINT)


def wait_until(condition: Callable[[], object]) -> None:
    assert not wait_until_empty(lambda: not condition(), TIMEOUT_SECONDS)


def wait_until_empty(find: Callable[[], T], seconds: float = 5.0) -> T:
    """Call `find` until its result is empty or the time is over; return the last result."""
    deadline = time.monotonic() + seconds
    while (result := find()) and time.monotonic() < deadline:
        time.sleep(5 * POLL_SECONDS)
    return result


def select(processes: Iterable[psutil.Process], is_wanted: Callable[[psutil.Process], bool]) -> list[psutil.Process]:
    """Return the processes for which a condition holds, without those that end meanwhile."""
    selected = []
    for process in processes:
        with contextlib.suppress(psutil.Error, OSError):
            if is_wanted(process):
                selected.append(process)
    return selected


def send(processes: list[psutil.Process], number: signal.Signals = signal.SIGKILL) -> None:
    """Send a signal to all processes that still run."""
    for process in processes:
        with contextlib.suppress(psutil.NoSuchProcess):  # a process can end when its parent is killed
            process.send_signal(number)


def ended_by(printed: str, *numbers: signal.Signals) -> bool:
    """Return whether DVC printed that one of these signals ended a stage.

    DVC prints -N if its shell became the stage (bash), and 128 + N if the shell waited for the stage (dash).
    """
    return any(re.search(rf"exited with ({-number}|{128 + number})$", printed, re.MULTILINE) for number in numbers)
