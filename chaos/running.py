"""Commands that run in a project: start them, wait for conditions, send signals, and find out how they ended."""

import contextlib
import os
import re
import signal
import subprocess
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

import psutil

if TYPE_CHECKING:
    from chaos.project import Project

T = TypeVar("T")

TIMEOUT_SECONDS = 600.0  # limit for every wait, long enough for a busy machine
POLL_SECONDS = 0.02


class Running:
    """A command that was started in a project, in a separate process group."""

    def __init__(self, project: "Project", command: tuple[str, ...], env: dict[str, str]) -> None:
        self._log = project.folder.parent / f"running-{time.monotonic_ns()}.log"
        with self._log.open("w") as log:
            self.process = subprocess.Popen(
                command, cwd=project.folder, env=env, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                start_new_session=True,
            )  # fmt: skip

    @property
    def printed(self) -> str:
        """Output of the command so far."""
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

    def wait(self, seconds: float = TIMEOUT_SECONDS) -> int:
        """Wait until the command ends, and return its exit status."""
        try:
            return self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"the command does not end:\n{self.printed}") from None

    def press_ctrl_c(self) -> None:
        """Send SIGINT to the whole process group, as a terminal does."""
        os.killpg(self.process.pid, signal.SIGINT)


def wait_until(condition: Callable[[], object]) -> None:
    """Wait until a condition is true."""
    assert not wait_until_empty(lambda: not condition(), TIMEOUT_SECONDS)


def wait_until_empty(find: Callable[[], T], seconds: float = 5.0) -> T:
    """Call `find` until its result is empty or the time is over; return the last result."""
    deadline = time.monotonic() + seconds
    while (result := find()) and time.monotonic() < deadline:
        time.sleep(5 * POLL_SECONDS)
    return result


def stage_module(stage: str) -> str:
    """Return the name of a stage's module, which is part of the command line of its process."""
    return f"stages.{stage.replace('-', '_')}"


def kill(project: "Project", stage: str, number: signal.Signals = signal.SIGKILL) -> bool:
    """Send a signal to the first process of a stage; return whether the stage had a process."""
    processes = project.processes(stage_module(stage))
    for process in processes[:1]:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.send_signal(number)
    return bool(processes)


def kill_all(project: "Project") -> None:
    """Send SIGKILL to every process of a project."""
    for process in project.all_processes():
        with contextlib.suppress(psutil.NoSuchProcess):  # a process can end when its parent is killed
            process.kill()


def ended_by(printed: str, *numbers: signal.Signals) -> bool:
    """Return whether DVC printed that one of these signals ended a stage.

    DVC prints -N if its shell became the stage (bash), and 128 + N if the shell waited for the stage (dash).
    """
    return any(re.search(rf"exited with ({-number}|{128 + number})$", printed, re.MULTILINE) for number in numbers)
