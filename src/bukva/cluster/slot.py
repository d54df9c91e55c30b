"""The clone in which a worker runs trials, one after the other.

On the driver's machine the slots lie in its project and use the project's cache, journals, checkpoints and MLflow, so
that results appear there as those of DVC's queue do. Another machine has a clone of its own for these (a node):

    <node>/project/         a clone of the origin, with DVC's cache and .bukva
    <slots>/slot-0/         a clone in which one trial runs at a time
    <slots>/slot-0.lock     held by its worker
"""

import contextlib
import hashlib
import os
import re
import shutil
import socket
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from filelock import FileLock, Timeout

from bukva.cluster.job import Job
from bukva.cluster.origin import GitError, base_ref, result_ref, run_git
from bukva.core.errors import BukvaError

MOST_SLOTS = 1024
LOCK = "numerics.lock"  # the packages on which bytes depend
PIN = re.compile(r"^([\w.-]+)==([\w.]+)", re.MULTILINE)
NODES = Path("~/.cache/bukva/nodes")  # BUKVA_NODE is another place, for example a large disk


@dataclass(frozen=True)
class Slot:
    """A clone that nobody else uses now.

    number: counts from 0 on each machine, and tells which cores are its own.
    folder: the root of the project in the clone.
    project: where cache, journals, checkpoints and MLflow are.
    """

    number: int
    folder: Path
    project: Path


@contextlib.contextmanager
def slot_for(job: Job) -> Iterator[Slot]:
    """A slot with the commit of the job checked out.

    Raises:
        GitError: the origin cannot be reached.
        BukvaError: all slots are in use, this machine has other packages than the commit, or DVC cannot read the
            project.
    """
    project, slots = _places(job)
    slots.mkdir(parents=True, exist_ok=True)
    with _free(slots) as number:
        if not job.project:
            _bring(project, job)
        clone = slots / f"slot-{number}"
        _check_out(clone, project, job)
        folder = clone / _prefix(project)
        _check_packages(folder / LOCK)
        _share_cache(folder, project)
        yield Slot(number, folder, project)


def _places(job: Job) -> tuple[Path, Path]:
    """The project, and the folder of the slots."""
    if job.project:
        return Path(job.project), Path(job.project) / ".bukva" / "slots"
    node = Path(os.environ.get("BUKVA_NODE", NODES)).expanduser() / hashlib.sha256(job.origin.encode()).hexdigest()[:12]
    return node / "project", node / "slots"


@contextlib.contextmanager
def _free(slots: Path) -> Iterator[int]:
    for number in range(MOST_SLOTS):
        lock = FileLock(slots / f"slot-{number}.lock", blocking=False)
        with contextlib.suppress(Timeout):
            lock.acquire()
            try:
                yield number
            finally:
                lock.release()
            return
    raise BukvaError(f"{slots}: all {MOST_SLOTS} slots are in use.")


def _bring(project: Path, job: Job) -> None:
    """Get the commit of the job from the origin, into a clone that all slots of this machine use."""
    with FileLock(project.with_suffix(".lock")):
        if not (project / ".git").exists():
            _clone(job.origin, project)
        run_git(project, "fetch", "--quiet", job.origin, f"+{base_ref(job.commit)}:{base_ref(job.commit)}")
        run_git(project, "checkout", "--quiet", "--force", "--detach", job.commit)


def _clone(source: str, folder: Path) -> None:
    unfinished = folder.with_name(f".{folder.name}.part")
    shutil.rmtree(unfinished, ignore_errors=True)
    run_git(folder.parent, "clone", "--quiet", "--no-checkout", source, str(unfinished))
    unfinished.rename(folder)


def _check_out(clone: Path, project: Path, job: Job) -> None:
    """Leave nothing of a former trial but ignored files, from which DVC takes what fits."""
    source = run_git(project, "rev-parse", "--show-toplevel").strip()
    try:
        _go_to(clone, source, job)
    except GitError:  # a worker was killed while git wrote; all of the clone can be made again
        shutil.rmtree(clone, ignore_errors=True)
        _go_to(clone, source, job)
    run_git(clone, "clean", "--quiet", "--force", "-d")
    run_git(clone, "update-ref", "-d", result_ref(job.commit, job.trial))
    shutil.rmtree(clone / _prefix(project) / ".dvc" / "tmp", ignore_errors=True)  # locks of a DVC that was killed


def _go_to(clone: Path, source: str, job: Job) -> None:
    if not (clone / ".git").exists():
        _clone(source, clone)
    run_git(clone, "fetch", "--quiet", source, f"+{base_ref(job.commit)}:{base_ref(job.commit)}")
    run_git(clone, "checkout", "--quiet", "--force", "--detach", job.commit)


def _prefix(project: Path) -> str:
    """The path of the project in its repository."""
    return run_git(project, "rev-parse", "--show-prefix").strip()


def _check_packages(lock: Path) -> None:
    """The commit says which versions made its results; this machine must have the same."""
    pinned = PIN.findall(lock.read_text(encoding="utf-8")) if lock.exists() else []
    for name, wanted in pinned:
        try:
            here = version(name).partition("+")[0]
        except PackageNotFoundError:
            here = "missing"
        if here != wanted:
            raise BukvaError(
                f"{socket.gethostname()}: {name} is {here} here, and {wanted} at this commit; install its {lock.name}."
            )


def _share_cache(folder: Path, project: Path) -> None:
    """Let DVC use the cache and the settings of the project."""
    from dvc.config import Config, ConfigError
    from dvc.repo import Repo

    local = project / ".dvc" / "config.local"
    if local.exists():
        shutil.copyfile(local, folder / ".dvc" / "config.local")
    try:
        with Repo(str(project)) as repo:
            cache = repo.cache.local_cache_dir
        with Config(str(folder / ".dvc"), validate=False).edit("local") as settings:
            settings.setdefault("cache", {})["dir"] = cache
    except ConfigError as error:
        raise BukvaError(f"{project}/.dvc: DVC cannot read its settings ({error}).") from None
