"""When checkpoints, and what killed stages left, are removed: as soon as dvc.lock has what the stage makes.

If the stage is killed before that, DVC deletes the outputs and runs it again. So a finished training leaves its last
checkpoint to a process that waits for DVC (python -m bukva.durability.cleanup), and the stages after a training remove
what that process could not. Without torch, because light processes import it.
"""

import contextlib
import hashlib
import shutil
import subprocess
import sys
import time
from pathlib import Path

import psutil

from bukva.config.schema import Params
from bukva.core.errors import BukvaError
from bukva.core.files import project_root, read_json, temporary_names, write_json
from bukva.core.processes import dvc
from bukva.project.fingerprints import Fingerprint, digest, fingerprint
from bukva.project.lock import LOCK, has_output
from bukva.project.stages import paths, stages

DIGITS = 16  # of a fingerprint's digest, in the name of a folder
DONE = "done.json"  # the curve of a finished training, beside its checkpoints
POLL_SECONDS = 0.1


def checkpoints_root() -> Path:
    """Where all checkpoints are: in the original repository, also for an experiment that runs in a snapshot."""
    return project_root() / ".bukva" / "checkpoints"


def folder_of(stage: str, known: Fingerprint) -> Path:
    """Where the checkpoints of the training of a stage with this fingerprint are."""
    return checkpoints_root() / f"{stage}-{digest(known)[:DIGITS]}"


def forget(params: Params) -> None:
    """Remove the checkpoints of the trainings before this stage: DVC runs it only when it has their outputs.

    There are some where DVC restored those outputs from its run cache, or where the waiting process was killed.
    """
    for stage in (stage.name for stage in stages().values() if stage.kind == "training"):
        if any(checkpoints_root().glob(f"{stage}-*")):  # computing a fingerprint reads many files
            with contextlib.suppress(BukvaError):  # a file that a training needs and this stage does not
                shutil.rmtree(folder_of(stage, fingerprint(stage, params)), ignore_errors=True)


def remove_unfinished() -> None:
    """Remove what killed stages left beside the outputs, all of which DVC has: it may have restored one instead of
    running its stage again, which would have cleaned up."""
    for path in map(Path, paths().values()):
        for name in temporary_names(path):
            if name.is_dir():
                shutil.rmtree(name, ignore_errors=True)
            else:
                name.unlink(missing_ok=True)


def finish(stage: str, curve: Path, folder: Path) -> None:
    """The outputs of a training are written: remove its checkpoints as soon as DVC has recorded them."""
    parent = dvc()
    if parent is None:  # the stage was run without DVC, which will not record them
        shutil.rmtree(folder, ignore_errors=True)
        return
    md5 = hashlib.md5(curve.read_bytes(), usedforsecurity=False).hexdigest()  # DVC's choice
    with contextlib.suppress(OSError):  # a full disk: the next stage cleans up
        write_json(folder / DONE, {"path": curve.as_posix(), "md5": md5})
        subprocess.Popen(
            [sys.executable, "-m", "bukva.durability.cleanup", stage, folder, str(parent.pid)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,  # not in the process group that Ctrl-C ends
        )


def remove_if_recorded(stage: str, folder: Path) -> bool:
    """Remove the checkpoints of a finished training if dvc.lock has its outputs; returns whether it has."""
    try:
        recorded = has_output(stage, **read_json(folder / DONE))
    except OSError:
        return False
    if recorded:
        shutil.rmtree(folder, ignore_errors=True)
    return recorded


def wait(stage: str, folder: Path, pid: int) -> None:
    """Remove them as soon as DVC, the process `pid`, has recorded the outputs; the last check is at its end."""
    seen = None
    with contextlib.suppress(psutil.NoSuchProcess):
        parent = psutil.Process(pid)
        while parent.is_running() and parent.status() != psutil.STATUS_ZOMBIE:
            if seen != (seen := _version(LOCK)) and remove_if_recorded(stage, folder):
                return
            time.sleep(POLL_SECONDS)
    remove_if_recorded(stage, folder)


def _version(file: Path) -> tuple[int, int] | None:
    """A value that changes when the file does; None without a file."""
    try:
        return file.stat().st_mtime_ns, file.stat().st_size
    except OSError:
        return None


if __name__ == "__main__":
    wait(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]))
