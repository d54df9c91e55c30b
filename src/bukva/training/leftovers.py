"""Where checkpoints lie, and when they may go; without torch, for whoever clears up.

They go when DVC has what the training made. Until dvc.lock says so, a kill would have DVC delete the outputs and run
the stage again, and a night's training would be lost to a moment. So a training leaves its last checkpoint to a process
that waits for DVC (python -m bukva.training.leftovers), and the stages behind a training forget what that could not.
"""

import contextlib
import hashlib
import shutil
import subprocess
import sys
import time
from pathlib import Path

import psutil

from bukva import pipeline
from bukva.ancestry import dvc
from bukva.errors import BukvaError
from bukva.files import project_root, read_json, write_json
from bukva.params import Params

STAGES = ("train-bigram", "train-gpt")
DIGITS = 16  # of a digest, in a name
DONE = "done.json"  # the curve of a training that is done, beside its checkpoints
LOOK_SECONDS = 0.1


def root() -> Path:
    """Where all checkpoints lie: in the original repository, also for an experiment that runs in a snapshot."""
    return project_root() / ".bukva" / "checkpoints"


def folder_of(stage: str, identity: pipeline.Identity) -> Path:
    """Where those of what a stage makes lie."""
    return root() / f"{stage}-{pipeline.digest(identity)[:DIGITS]}"


def forget(params: Params) -> None:
    """Remove the checkpoints of the trainings before this stage, which DVC runs only when it has their outputs.

    There are some where DVC restored those from its run cache, or who waited for it was killed.
    """
    for stage in STAGES:
        if any(root().glob(f"{stage}-*")):  # to know which one, much has to be read
            with contextlib.suppress(BukvaError):  # what a training needs and this stage does not
                shutil.rmtree(folder_of(stage, pipeline.identity(stage, params)), ignore_errors=True)


def finish(stage: str, curve: Path, folder: Path) -> None:
    """The outputs of a training are written: remove its checkpoints, once DVC has those outputs."""
    parent = dvc()
    if parent is None:  # run by hand: nobody else will have them
        shutil.rmtree(folder, ignore_errors=True)
        return
    md5 = hashlib.md5(curve.read_bytes(), usedforsecurity=False).hexdigest()  # DVC's choice
    with contextlib.suppress(OSError):  # a full disk: the next stage clears up
        write_json(folder / DONE, {"path": curve.as_posix(), "md5": md5})
        subprocess.Popen(
            [sys.executable, "-m", "bukva.training.leftovers", stage, folder, str(parent.pid)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,  # out of reach of Ctrl-C
        )


def clear_if_recorded(stage: str, folder: Path) -> bool:
    """Remove the checkpoints of a training that is done, if dvc.lock has the outputs that it was done with."""
    try:
        recorded = pipeline.has(stage, **read_json(folder / DONE))
    except OSError:
        return False
    if recorded:
        shutil.rmtree(folder, ignore_errors=True)
    return recorded


def wait(stage: str, folder: Path, pid: int) -> None:
    """Remove them as soon as DVC, the process `pid`, has the outputs; the last look is at its end."""
    seen = None
    with contextlib.suppress(psutil.NoSuchProcess):
        parent = psutil.Process(pid)
        while parent.is_running() and parent.status() != psutil.STATUS_ZOMBIE:
            if seen != (seen := _state(pipeline.LOCK)) and clear_if_recorded(stage, folder):
                return
            time.sleep(LOOK_SECONDS)
    clear_if_recorded(stage, folder)


def _state(file: Path) -> tuple[int, int] | None:
    """Changes when the file does."""
    try:
        return file.stat().st_mtime_ns, file.stat().st_size
    except OSError:
        return None


if __name__ == "__main__":
    wait(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]))
