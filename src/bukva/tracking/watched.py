"""Whether MLflow's pages are open on this machine: then a training is shown there from its start."""

import fcntl
import os
from pathlib import Path

from bukva.base.files import project_root

LOCK = Path(".bukva/ui.lock")  # in the original repository; each server holds it, shared with other servers


def hold(root: Path) -> None:
    """Hold the lock of the project in this folder until this process ends, or the program that replaces it."""
    path = root / LOCK
    path.parent.mkdir(parents=True, exist_ok=True)
    file = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)  # never closed
    os.set_inheritable(file, True)
    fcntl.flock(file, fcntl.LOCK_SH)


def is_watched() -> bool:
    """Whether some process holds the lock."""
    try:
        with (project_root() / LOCK).open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:  # there is no such file, or a file system without locks
        return False
    return False
