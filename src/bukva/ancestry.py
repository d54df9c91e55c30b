"""Who started this process, and what becomes of it when they are gone.

A DVC that is killed leaves its stage behind: nobody waits for the result, and the next `dvc repro` would meet somebody
who writes the same files. So a stage ends when DVC does, as if it had been told to: a training saves first.
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

LOOK_SECONDS = 1.0  # between looks for DVC


def end_with_dvc() -> None:
    """Send SIGTERM to this process as soon as the DVC that runs it as a stage is gone; by hand there is none."""
    if "DVC_STAGE" in os.environ:
        threading.Thread(target=_watch, daemon=True).start()


def dvc() -> "psutil.Process | None":
    """The DVC that runs this process as a stage; a shell or torch's launcher may stand between the two."""
    import psutil

    if "DVC_STAGE" not in os.environ:
        return None
    with contextlib.suppress(psutil.Error):
        parents = psutil.Process().parents()
        return next(filter(_is_dvc, parents), parents[0])  # whoever calls DVC as a library is called otherwise
    return None


def _watch() -> None:
    family = _family()
    while all(_parent_of(process) == parent for process, parent in family):
        time.sleep(LOOK_SECONDS)
    print("DVC, which started this stage, is gone", file=sys.stderr, flush=True)
    os.kill(os.getpid(), signal.SIGTERM)


def _family() -> "list[tuple[psutil.Process, int]]":
    """This process and those above it as far as DVC, each with its parent; who loses a parent gets another one.

    Of several processes that train together each looks after its launcher only, which passes on what ends it: asked
    twice, they would end without saving.
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
