"""Processes: the DVC that runs a stage, those that outlive a stage, servers for one person.

A DVC that is killed leaves its stage running, and the next `dvc repro` starts a second process that writes the same
files. So a stage ends when its DVC does, as after SIGTERM: a training saves first.
"""

import contextlib
import ctypes
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import psutil

from bukva.core.files import project_root

POLL_SECONDS = 1.0
PR_SET_PDEATHSIG = 1  # of Linux' prctl
LIBC = ctypes.CDLL(None)  # loaded here, because nothing may be loaded between fork and exec
SOURCE = Path(__file__).resolve().parents[2]  # the folder of bukva
LOG = Path(".bukva/mlflow.log")  # what the processes that outlive a stage print, in the original repository
HOST = "127.0.0.1"  # where servers for one person on this machine listen: no other machine reaches them


def end_with_dvc() -> None:
    """Send SIGTERM to this process as soon as the DVC that runs it as a stage is gone."""
    if "DVC_STAGE" in os.environ:
        threading.Thread(target=_watch, daemon=True).start()


def _watch() -> None:
    """Wait for the end of DVC, which may have a shell or a launcher between itself and this process.

    Of several processes that train together each watches its launcher only, which passes on its signal: a second one
    ends them without saving.
    """
    parents = psutil.Process().parents()
    is_launched = "TORCHELASTIC_RUN_ID" in os.environ
    watched = parents[0] if is_launched else next(filter(_is_dvc, parents), parents[0])
    with contextlib.suppress(psutil.NoSuchProcess):
        while watched.is_running() and watched.status() != psutil.STATUS_ZOMBIE:
            time.sleep(POLL_SECONDS)
    print("the DVC that started this stage is gone", file=sys.stderr, flush=True)
    os.kill(os.getpid(), signal.SIGTERM)


def _is_dvc(process: psutil.Process) -> bool:
    with contextlib.suppress(psutil.Error):  # a process that it may not look at, or that has ended
        return any(Path(word).stem == "dvc" for word in process.cmdline())  # dvc.__main__, too
    return False


def die_with_parent() -> None:
    """Let Linux send SIGTERM to this process when the thread that started it ends; for Popen's preexec_fn."""
    if sys.platform == "linux":
        LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGTERM)


def python_path() -> str:
    """PYTHONPATH for a process that runs the same bukva as this one, in any folder; then that of the original
    repository, because DVC deletes the snapshot of a queued experiment."""
    return os.pathsep.join(filter(None, [str(SOURCE), str(project_root() / "src"), os.environ.get("PYTHONPATH")]))


def start_detached(module: str, *arguments: str, **environment: str) -> subprocess.Popen[bytes]:
    """Run a module in a session of its own, which Ctrl-C does not reach, and in the original repository."""
    log_file = project_root() / LOG
    log_file.parent.mkdir(parents=True, exist_ok=True)
    with log_file.open("ab") as log:
        return subprocess.Popen(
            [sys.executable, "-m", module, *arguments],
            cwd=project_root(),
            env={**os.environ, "PYTHONPATH": python_path(), **environment},
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )


def has_failed(process: subprocess.Popen[bytes], seconds: float) -> bool:
    """Whether the process ends with an error within that time; one that takes longer is left running."""
    try:
        return process.wait(seconds) != 0
    except subprocess.TimeoutExpired:
        leave_running(process)
        return False


def leave_running(process: subprocess.Popen[bytes]) -> None:
    """Let Python not warn that a process is still running when this object is collected."""
    process.returncode = 0


@contextlib.contextmanager
def sigterm_raises() -> Iterator[None]:
    """Let SIGTERM raise SystemExit within this block, so that it can save what it has."""
    before = signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def listen(port: int) -> socket.socket:
    """A socket that listens on this port, or on the next one on which no process listens."""
    while True:
        try:
            return socket.create_server((HOST, port))
        except OSError:
            port += 1


def free_port(port: int) -> int:
    """This port, or the next one on which no process listens."""
    with listen(port) as found:
        return int(found.getsockname()[1])


def answers(port: int) -> bool:
    """Whether a process listens on this port."""
    with socket.socket() as probe:
        return probe.connect_ex((HOST, port)) == 0
