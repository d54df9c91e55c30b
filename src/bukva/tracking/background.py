"""Processes that fill MLflow for a stage, which never imports mlflow."""

import os
import subprocess
import sys
from pathlib import Path

from bukva.base.files import project_root

LOG = Path(".bukva/mlflow.log")  # what those processes print, in the original repository
LOG_BYTES = 1_000_000  # a longer log is emptied
REMEDY = f"make sync completes it (the reason is in {LOG})."


def start(*arguments: str) -> subprocess.Popen[bytes]:
    """Run `python -m bukva.tracking` with these arguments, in a session of its own, which Ctrl-C does not reach.

    It runs in the original repository, because DVC may delete a snapshot, and imports the same bukva as this process,
    because PYTHONPATH may be relative.
    """
    source = str(Path(__file__).resolve().parents[2])
    path = os.pathsep.join(filter(None, [source, os.environ.get("PYTHONPATH")]))
    log_file = project_root() / LOG
    log_file.parent.mkdir(parents=True, exist_ok=True)
    with log_file.open("ab") as log:
        if log.tell() > LOG_BYTES:
            log.truncate(0)
        return subprocess.Popen(
            [sys.executable, "-m", "bukva.tracking", *arguments],
            cwd=project_root(),
            env={**os.environ, "PYTHONPATH": path},
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
        process.returncode = 0  # Python does not warn that it is still running when this object is collected
        return False
