"""Provide slots. A slot is a git clone in which one trial at a time runs.

A slot is a folder such as <slots>/slot-0. The file <slots>/slot-0.lock is its lock.

Without a cluster, the slots are inside the project. Their trials use the project's DVC cache, journals (results for
MLflow), checkpoints and MLflow database. So results appear in the project as with DVC's queue. On a machine of a
cluster, each slot has separate journals, checkpoints and MLflow, and all slots of the machine share one DVC cache.
"""

import contextlib
import hashlib
import itertools
import os
import shutil
import socket
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import psutil
from filelock import FileLock, Timeout

from bukva.core.errors import BukvaError
from bukva.project.cache import dvc_repo
from bukva.project.lock import NUMERICS, wrong_packages
from bukva.project.revisions import experiment_ref
from bukva.sweep.origin import GitError, base_ref, run_git

NODES = Path("~/.cache/bukva/nodes")  # folder of the slots on a cluster, unless BUKVA_NODE names another
SAVE_SECONDS = 120.0  # how long the training of a stopped trial may save its state; after that, it is killed


@dataclass(frozen=True)
class TrialLocation:
    """Git repository, commit and project with which the trials of a sweep run.

    origin: URL or path of the git repository that all machines share.
    commit: commit from which all trials start.
    prefix: path of the project inside its git repository.
    project: project whose DVC cache, journals and MLflow database the trials use, or None on a cluster.
    """

    origin: str
    commit: str
    prefix: str
    project: Path | None


@contextlib.contextmanager
def slot_for(location: TrialLocation, trial: str) -> Iterator[Path]:
    """Lock a free slot (a git clone for trials), and check out `location.commit` there.

    The lock is released after the block.

    Args:
        location: where the trials of the sweep run.
        trial: name of the trial that will run in the slot. An earlier result with this name is removed from the slot.

    Yields:
        The root of the project in the slot.

    Raises:
        GitError: the origin cannot be reached.
        BukvaError: the installed packages differ from the versions that the commit needs, or DVC cannot read the
            project.
    """
    of_origin = hashlib.sha256(location.origin.encode()).hexdigest()[:12]
    node = Path(os.environ.get("BUKVA_NODE", NODES)).expanduser() / of_origin
    slots = location.project / ".bukva" / "slots" if location.project else node
    slots.mkdir(parents=True, exist_ok=True)
    with _lock_free_slot(slots) as clone:
        _wait_for_processes(clone)
        try:
            _check_out(clone, location)
        except GitError:
            # if the origin cannot be reached, this command raises the same error
            run_git(slots, "ls-remote", location.origin, base_ref(location.commit))
            # otherwise the clone is damaged, because git was killed; everything in the clone can be recreated
            shutil.rmtree(clone, ignore_errors=True)
            _check_out(clone, location)
        run_git(clone, "update-ref", "-d", experiment_ref(location.commit, trial))
        folder = clone / location.prefix
        shutil.rmtree(folder / ".dvc" / "tmp", ignore_errors=True)  # locks that a killed DVC process left
        _check_packages(folder / NUMERICS)
        _share_cache(folder, location, slots)
        yield folder


@contextlib.contextmanager
def _lock_free_slot(slots: Path) -> Iterator[Path]:
    for number in itertools.count():
        lock = FileLock(slots / f"slot-{number}.lock", blocking=False)
        with contextlib.suppress(Timeout):
            lock.acquire()
        if lock.is_locked:
            try:
                yield slots / f"slot-{number}"
            finally:
                lock.release()
            return


def _wait_for_processes(clone: Path) -> None:
    """Wait until the stages of earlier trials in `clone` have ended."""

    def is_stage_here(process: psutil.Process) -> bool:
        with contextlib.suppress(psutil.Error, OSError):
            return "DVC_STAGE" in process.environ() and Path(process.cwd()).is_relative_to(clone)
        return False

    _, left = psutil.wait_procs(list(filter(is_stage_here, psutil.process_iter())), SAVE_SECONDS)
    for process in left:
        process.kill()


def _check_out(clone: Path, location: TrialLocation) -> None:
    """Check out `location.commit` in `clone`."""
    if not (clone / ".git").exists():
        shutil.rmtree(clone, ignore_errors=True)
        run_git(clone.parent, "clone", "--quiet", "--no-checkout", location.origin, str(clone))
    ref = base_ref(location.commit)
    run_git(clone, "fetch", "--quiet", location.origin, f"+{ref}:{ref}")
    run_git(clone, "checkout", "--quiet", "--force", "--detach", location.commit)
    run_git(clone, "clean", "--quiet", "--force", "-d")


def _check_packages(lock: Path) -> None:
    """Check that the installed packages have the versions in the file `lock`."""
    for wrong in wrong_packages(lock):
        raise BukvaError(f"{socket.gethostname()}: {wrong}. Install the versions in its {lock.name}.")


def _share_cache(folder: Path, location: TrialLocation, slots: Path) -> None:
    """Configure the cache that DVC uses in `folder`, the project in a slot."""
    from dvc.config import Config

    cache = str(slots / "cache")
    if location.project:
        with dvc_repo(location.project) as repo:
            cache = repo.cache.local_cache_dir
        with contextlib.suppress(FileNotFoundError):
            shutil.copyfile(location.project / ".dvc" / "config.local", folder / ".dvc" / "config.local")
    with Config(str(folder / ".dvc"), validate=False).edit("local") as settings:
        # a relative path, because DVC writes ASCII only and the absolute path may contain other characters
        settings.setdefault("cache", {})["dir"] = os.path.relpath(cache)
