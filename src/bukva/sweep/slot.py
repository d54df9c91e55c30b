"""The clone in which trials run, one after the other: <slots>/slot-0, with slot-0.lock beside it, and so on.

Where no cluster is named, the slots lie in the project and use its cache, journals, checkpoints and MLflow, so that
results appear there as those of DVC's queue do. On a machine of a cluster each slot has its own, but for DVC's cache.
"""

import contextlib
import hashlib
import itertools
import os
import re
import shutil
import socket
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import psutil
from filelock import FileLock, Timeout

from bukva.core.errors import BukvaError
from bukva.project.cache import dvc_repo
from bukva.project.revisions import experiment_ref
from bukva.sweep.origin import GitError, base_ref, run_git

LOCK = "numerics.lock"  # the packages on which bytes depend
PIN = re.compile(r"^([\w.-]+)==([\w.]+)", re.MULTILINE)
NODES = Path("~/.cache/bukva/nodes")  # BUKVA_NODE is another location, for example a large disk
SAVE_SECONDS = 120.0  # for a training whose trial has ended to save, before it is killed


@dataclass(frozen=True)
class TrialLocation:
    """Repository and storage locations of a sweep.

    origin: the address of the repository that all machines share.
    commit: from which all start.
    prefix: the path of the project in its repository.
    project: the project whose cache, journals and MLflow they use, on its machine; None for trials of a cluster.
    """

    origin: str
    commit: str
    prefix: str
    project: Path | None


@contextlib.contextmanager
def slot_for(location: TrialLocation, trial: str) -> Iterator[Path]:
    """The root of the project in a clone that nobody else uses, with the commit of the location checked out.

    Raises:
        GitError: the origin cannot be reached.
        BukvaError: this machine has other packages than the commit, or DVC cannot read the project.
    """
    of_origin = hashlib.sha256(location.origin.encode()).hexdigest()[:12]
    node = Path(os.environ.get("BUKVA_NODE", NODES)).expanduser() / of_origin
    slots = location.project / ".bukva" / "slots" if location.project else node
    slots.mkdir(parents=True, exist_ok=True)
    with _free(slots) as clone:
        _wait_for_processes(clone)
        try:
            _check_out(clone, location)
        except GitError:
            run_git(
                slots, "ls-remote", location.origin, base_ref(location.commit)
            )  # raises the same if the origin is away
            shutil.rmtree(clone, ignore_errors=True)  # else git was killed while it wrote; all can be made again
            _check_out(clone, location)
        run_git(clone, "update-ref", "-d", experiment_ref(location.commit, trial))
        folder = clone / location.prefix
        shutil.rmtree(folder / ".dvc" / "tmp", ignore_errors=True)  # locks of a DVC that was killed
        _check_packages(folder / LOCK)
        _share_cache(folder, location, slots)
        yield folder


@contextlib.contextmanager
def _free(slots: Path) -> Iterator[Path]:
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
    """A stage whose trial was killed or stopped saves for some seconds more; kill what does not end."""

    def is_stage_here(process: psutil.Process) -> bool:
        with contextlib.suppress(psutil.Error, OSError):
            return "DVC_STAGE" in process.environ() and Path(process.cwd()).is_relative_to(clone)
        return False

    _, left = psutil.wait_procs(list(filter(is_stage_here, psutil.process_iter())), SAVE_SECONDS)
    for process in left:
        process.kill()


def _check_out(clone: Path, location: TrialLocation) -> None:
    """Leave nothing of a former trial but ignored files, from which DVC takes what fits."""
    if not (clone / ".git").exists():
        shutil.rmtree(clone, ignore_errors=True)
        run_git(clone.parent, "clone", "--quiet", "--no-checkout", location.origin, str(clone))
    ref = base_ref(location.commit)
    run_git(clone, "fetch", "--quiet", location.origin, f"+{ref}:{ref}")
    run_git(clone, "checkout", "--quiet", "--force", "--detach", location.commit)
    run_git(clone, "clean", "--quiet", "--force", "-d")


def _check_packages(lock: Path) -> None:
    """The commit says which versions made its results; this machine must have the same."""
    for name, wanted in PIN.findall(lock.read_text(encoding="utf-8")) if lock.exists() else ():
        try:
            here = version(name).partition("+")[0]
        except PackageNotFoundError:
            here = "missing"
        if here != wanted:
            raise BukvaError(
                f"{socket.gethostname()}: {name} is {here} here, and {wanted} at this commit; install its {lock.name}."
            )


def _share_cache(folder: Path, location: TrialLocation, slots: Path) -> None:
    """Let DVC use the cache and the settings of the project, or the cache of the machine."""
    from dvc.config import Config

    cache = str(slots / "cache")
    if location.project:
        with dvc_repo(location.project) as repo:
            cache = repo.cache.local_cache_dir
        with contextlib.suppress(FileNotFoundError):
            shutil.copyfile(location.project / ".dvc" / "config.local", folder / ".dvc" / "config.local")
    with Config(str(folder / ".dvc"), validate=False).edit("local") as settings:
        # relative, because DVC writes ASCII only, and the path of the project may have other letters
        settings.setdefault("cache", {})["dir"] = os.path.relpath(cache)
