"""Processes that fill MLflow for a stage, which never imports mlflow."""

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

from bukva.core.files import project_root

SOURCE = Path(__file__).resolve().parents[2]  # the folder of bukva
LOG = Path(".bukva/mlflow.log")  # what those processes print, in the original repository
LOG_BYTES = 1_000_000  # a longer log is emptied
REMEDY = f"bukva sync completes it (the reason is in {LOG})."


def python_path() -> str:
    """PYTHONPATH for a process that runs the same bukva as this one, in any folder; then that of the original
    repository, because DVC deletes the snapshot of a queued experiment."""
    return os.pathsep.join(filter(None, [str(SOURCE), str(project_root() / "src"), os.environ.get("PYTHONPATH")]))


def start(*arguments: str, module: str = "bukva.tracking") -> subprocess.Popen[bytes]:
    """Run a module of bukva with these arguments, in a session of its own, which Ctrl-C does not reach.

    It runs in the original repository, because DVC may delete a snapshot, and imports the same bukva as this process,
    because PYTHONPATH may be relative.
    """
    log_file = project_root() / LOG
    log_file.parent.mkdir(parents=True, exist_ok=True)
    with log_file.open("ab") as log:
        if log.tell() > LOG_BYTES:
            log.truncate(0)
        return subprocess.Popen(
            [sys.executable, "-m", module, *arguments],
            cwd=project_root(),
            env={**os.environ, "PYTHONPATH": python_path()},
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )


def start_sync(experiments: Iterable[str]) -> None:
    """Start to bring MLflow up to date with the journals and notes of these experiments ("*": all), and do not wait.

    Never raises: `bukva sync` completes what fails.
    """
    options = [f"--experiment={name}" for name in experiments]
    if not options:
        return
    with contextlib.suppress(OSError):
        _leave_running(start("sync", *options))


def start_ending(experiment: str, commit: str) -> None:
    """Start to end the runs of an experiment whose machine was lost, and do not wait. Never raises."""
    with contextlib.suppress(OSError):
        _leave_running(start("end", experiment, commit))


def has_failed(process: subprocess.Popen[bytes], seconds: float) -> bool:
    """Whether the process ends with an error within that time; one that takes longer is left running."""
    try:
        return process.wait(seconds) != 0
    except subprocess.TimeoutExpired:
        _leave_running(process)
        return False


def _leave_running(process: subprocess.Popen[bytes]) -> None:
    """Let Python not warn that a process is still running when this object is collected."""
    process.returncode = 0
