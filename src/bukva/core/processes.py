"""Stop a stage when its DVC process ends, start processes that outlive a stage, and find ports."""

import contextlib
import ctypes
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import psutil

from bukva.core.errors import BukvaError
from bukva.core.files import project_root

POLL_SECONDS = 0.2
PR_SET_PDEATHSIG = 1  # constant of Linux's prctl
LIBC = ctypes.CDLL(None)  # loaded here, because nothing may be loaded between fork and exec
SOURCE = Path(__file__).resolve().parents[2]  # the folder that contains package bukva
LOG = Path(".bukva/mlflow.log")  # output of the processes that outlive a stage; the path is in the original repository
HOST = "127.0.0.1"  # local servers listen here and cannot be reached from other machines
MAX_PORT = 65535


def end_with_dvc() -> None:
    """Send SIGTERM to this stage when its DVC process has ended, so that it does not write beside the next one."""
    if "DVC_STAGE" in os.environ:
        threading.Thread(target=_watch, daemon=True).start()


def _watch() -> None:
    watched = _watched()
    with contextlib.suppress(psutil.NoSuchProcess):
        while watched and watched.is_running() and watched.status() != psutil.STATUS_ZOMBIE:
            time.sleep(POLL_SECONDS)
    print("The DVC process that started this stage has ended; stopping the stage.", file=sys.stderr, flush=True)
    os.kill(os.getpid(), signal.SIGTERM)


def _watched() -> psutil.Process | None:
    """Return torch's launcher, DVC or a program that calls DVC's Python API; None if DVC has ended already."""
    parents = psutil.Process().parents()
    if "TORCHELASTIC_RUN_ID" in os.environ:
        return parents[0]
    programs = {}
    for parent in parents:
        with contextlib.suppress(psutil.Error, OSError):  # access is denied, or the process has ended
            words = parent.cmdline()
            is_shell = Path(words[0]).stem.endswith("sh") if words else False
            # a process whose parent has ended gets a parent in another session
            if os.getsid(parent.pid) == os.getsid(0) and not is_shell:
                programs[parent] = {Path(word).stem for word in words}  # "dvc" also for dvc.__main__
    return next((each for each, stems in programs.items() if "dvc" in stems), next(iter(programs), None))


def die_with_parent() -> None:
    """Make Linux send SIGTERM to this process when its parent ends. Pass this function to Popen as `preexec_fn`."""
    if sys.platform == "linux":
        LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGTERM)


def start_detached(module: str, *arguments: str, **environment: str) -> subprocess.Popen[bytes]:
    """Run `python -m module` in a session of its own, in the original repository, so that it outlives this process.

    Its output is appended to LOG. `environment`: variables to add to those of this process.
    """
    # the bukva that this process imported may be in a temporary copy, which DVC deletes, so the original follows
    sources = [str(SOURCE), str(project_root() / "src"), *filter(None, [os.environ.get("PYTHONPATH")])]
    log_file = project_root() / LOG
    log_file.parent.mkdir(parents=True, exist_ok=True)
    with log_file.open("ab") as log:
        return subprocess.Popen(
            [sys.executable, "-m", module, *arguments],
            cwd=project_root(),
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sources), **environment},
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )


def fails_within(process: subprocess.Popen[bytes], seconds: float) -> bool:
    """Wait at most `seconds`, and return whether the process has ended with an error. It may keep running."""
    try:
        return process.wait(seconds) != 0
    except subprocess.TimeoutExpired:
        leave_running(process)
        return False


def leave_running(process: subprocess.Popen[bytes]) -> None:
    """Suppress Python's warning about a process that is still running when its object is deleted."""
    process.returncode = 0


@contextlib.contextmanager
def signals_call(handler: Callable[[int, FrameType | None], Any], *numbers: int) -> Iterator[None]:
    """Let signals with these numbers call `handler` in the with block."""
    before = {number: signal.signal(number, handler) for number in numbers}
    try:
        yield
    finally:
        for number, previous in before.items():
            signal.signal(number, previous)


def listen(port: int) -> socket.socket:
    """Return a socket that listens on `port`, or on the next free port. BukvaError: all of them are taken."""
    for free in range(port, MAX_PORT + 1):
        with contextlib.suppress(OSError):
            return socket.create_server((HOST, free))
    raise BukvaError(f"No port from {port} to {MAX_PORT} can be used. Give a smaller one with --port.")


def free_port(port: int) -> int:
    """Return `port` if it is free, otherwise the next free port."""
    with listen(port) as server:
        return int(server.getsockname()[1])


def is_listening(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex((HOST, port)) == 0
