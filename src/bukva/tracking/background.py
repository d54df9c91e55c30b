"""Processes that fill MLflow beside a stage, which itself never imports mlflow."""

import os
import subprocess
import sys
from pathlib import Path

from bukva.base.files import project_root

LOG = Path(".bukva/mlflow.log")  # what those processes say, in the original repository
LOG_BYTES = 1_000_000  # of a log that is longer, nobody reads the beginning
REMEDY = f"make sync completes it ({LOG} says why)."


def start(*arguments: str) -> subprocess.Popen[bytes]:
    """Run `python -m bukva.tracking` with these arguments, out of reach of Ctrl-C.

    It runs in the original repository, because a snapshot may be deleted under it, and imports the bukva that
    runs here, because PYTHONPATH may be relative.
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


def finish(process: subprocess.Popen[bytes], seconds: float) -> bool:
    """Whether the process ends well within that time; if it does not end, it is left alone."""
    try:
        return process.wait(seconds) == 0
    except subprocess.TimeoutExpired:
        process.returncode = 0  # it ends by itself: no warning when this object is collected
        return False
