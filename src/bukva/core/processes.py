"""The DVC that runs this stage, and the end of a stage whose DVC is gone.

A DVC that is killed leaves its stage running: nothing waits for the result, and the next `dvc repro` starts a second
process that writes the same files. So a stage ends when its DVC does, as after SIGTERM: a training saves first.
"""

import contextlib
import os
import signal
import sys
import threading
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import psutil

POLL_SECONDS = 1.0


def end_with_dvc() -> None:
    """Send SIGTERM to this process as soon as the DVC that runs it as a stage is gone."""
    if "DVC_STAGE" in os.environ:
        threading.Thread(target=_watch, daemon=True).start()


def dvc() -> "psutil.Process | None":
    """The DVC that runs this process as a stage, past a shell or torch's launcher; None when DVC did not start it."""
    import psutil

    if "DVC_STAGE" not in os.environ:
        return None
    with contextlib.suppress(psutil.Error):
        parents = psutil.Process().parents()
        return next(filter(_is_dvc, parents), parents[0])  # a program that uses DVC as a library has another name
    return None


def _watch() -> None:
    ancestors = _ancestors()
    while all(_parent_of(process) == parent for process, parent in ancestors):
        time.sleep(POLL_SECONDS)
    print("the DVC that started this stage is gone", file=sys.stderr, flush=True)
    os.kill(os.getpid(), signal.SIGTERM)


def _ancestors() -> "list[tuple[psutil.Process, int]]":
    """This process and those above it up to DVC, each with its parent's pid, which changes when the parent ends.

    Of several processes that train together each watches its launcher only, which passes on its signal: a second
    one ends them without saving.
    """
    import psutil

    top, process, found = dvc(), psutil.Process(), []
    if "TORCHELASTIC_RUN_ID" in os.environ:
        return [(process, process.ppid())]
    while top and process and process != top:
        found.append((process, process.ppid()))
        process = process.parent()
    return found


def _parent_of(process: "psutil.Process") -> int:
    import psutil

    try:
        return int(process.ppid())
    except psutil.NoSuchProcess:
        return 0


def _is_dvc(process: "psutil.Process") -> bool:
    return any(word.rpartition("/")[2].partition(".")[0] == "dvc" for word in process.cmdline())  # dvc, dvc.__main__
