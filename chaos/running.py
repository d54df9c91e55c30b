"""Commands that run in a project while something is done to them: waiting, signals, and how they ended."""

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

TIMEOUT_SECONDS = 120.0  # for anything that is waited for, on a busy machine
POLL_SECONDS = 0.02


class Running:
    """A command that was started in a project, in its own process group."""

    def __init__(self, project: "Project", command: tuple[str, ...], env: dict[str, str]) -> None:
        self._log = project.folder.parent / f"running-{time.monotonic_ns()}.log"
        with self._log.open("w") as log:
            self.process = subprocess.Popen(
                command, cwd=project.folder, env=env, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                start_new_session=True,
            )  # fmt: skip

    @property
    def printed(self) -> str:
        """What it has printed so far."""
        return self._log.read_text(encoding="utf-8", errors="replace")

    def reaches(self, condition: Callable[[], object]) -> bool:
        """Wait until a condition is true; False if the command ended before."""
        deadline = time.monotonic() + TIMEOUT_SECONDS
        while not condition():
            if self.process.poll() is not None:
                return bool(condition())
            assert time.monotonic() < deadline, self.printed
            time.sleep(POLL_SECONDS)
        return True

    def wait(self, seconds: float = TIMEOUT_SECONDS) -> int:
        """Wait for its end; returns the exit status."""
        try:
            return self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"it does not end:\n{self.printed}") from None

    def press_ctrl_c(self) -> None:
        """Send SIGINT to the whole process group, as a terminal does."""
        os.killpg(self.process.pid, signal.SIGINT)


def wait_until(condition: Callable[[], object]) -> None:
    """Wait until a condition is true."""
    assert not wait_until_empty(lambda: not condition(), TIMEOUT_SECONDS)


def wait_until_empty(find: Callable[[], T], seconds: float = 5.0) -> T:
    """Call `find` until it finds nothing or the time is over; returns what it found last."""
    deadline = time.monotonic() + seconds
    while (found := find()) and time.monotonic() < deadline:
        time.sleep(5 * POLL_SECONDS)
    return found


def stage_module(stage: str) -> str:
    """The word in the command line of a stage's process that names the stage."""
    return f"stages.{stage.replace('-', '_')}"


def kill(project: "Project", stage: str, number: signal.Signals = signal.SIGKILL) -> bool:
    """Send a signal to the process of a stage; returns whether there was one."""
    processes = project.processes(stage_module(stage))
    for process in processes[:1]:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.send_signal(number)
    return bool(processes)


def kill_all(project: "Project") -> None:
    """Send SIGKILL to every process of a project; some may end while others are killed."""
    for process in project.all_processes():
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill()


def ended_by(printed: str, *numbers: signal.Signals) -> bool:
    """Whether DVC printed that one of these signals ended a stage.

    DVC prints -N if its shell became the stage (bash), and 128 + N if the shell waited for the stage (dash).
    """
    return any(re.search(rf"exited with ({-number}|{128 + number})$", printed, re.MULTILINE) for number in numbers)
