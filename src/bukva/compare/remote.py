"""Sends what this project has computed to DVC's remote, so that another clone need not compute it again.

`dvc push --run-cache` sends the entries of the run cache, but of the outputs that they name only those of the present
dvc.lock, and none that DVC does not keep in its cache (`cache: false`, the small files in git). A clone that lacks one
output of a stage runs the stage. With all objects, `dvc exp run --pull` restores it.
"""

import contextlib
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from bukva.core.errors import BukvaError
from bukva.core.files import project_root, write_text
from bukva.project.cache import has_remote

NO_REMOTE = "push: this project has no DVC remote; add one: dvc remote add --local -d NAME ADDRESS."


def push() -> tuple[int, int]:
    """Send the run cache and the objects of its entries that are here.

    Returns:
        How many stage executions the run cache has, and how many objects were sent.

    Raises:
        BukvaError: there is no remote, it cannot be reached, or it cannot keep a run cache.
    """
    with _repo(project_root()) as repo:
        entries = repo.stage_cache.push(None)
        return len(entries), _push_objects(repo, entries)


def is_uncommitted() -> bool:
    """Whether .dvc/config has a default remote that the last commit lacks, so that `dvc exp apply` removes it."""
    command = ["git", "-C", str(project_root()), "diff", "HEAD", "--", ".dvc/config"]
    added = subprocess.run(command, capture_output=True, text=True).stdout
    return re.search(r"^\+\s*remote\s*=", added, re.MULTILINE) is not None


def push_objects(folder: Path) -> dict[str, str]:
    """Send the objects of all stages in the dvc.lock of a clone; returns their entries of the run cache.

    Returns:
        path in the run cache -> entry.

    Raises:
        BukvaError: there is no remote, or it cannot be reached.
    """
    with _repo(folder) as repo:
        entries = [entry for stage in repo.index.stages for entry in _entries(repo, stage)]
        _push_objects(repo, entries)
        files = [Path(repo.stage_cache._get_cache_path(*entry)) for entry in entries]
        return {
            file.relative_to(repo.stage_cache.cache_dir).as_posix(): file.read_text(encoding="utf-8") for file in files
        }


def add_entries(folder: Path, entries: dict[str, str]) -> None:
    """Put entries that another machine has sent into the run cache of a project.

    Raises:
        BukvaError: there is no remote, or the cache cannot be written.
    """
    with _repo(folder, "DVC's run cache cannot be written") as repo:
        for path, entry in entries.items():
            file = Path(repo.stage_cache.cache_dir) / path
            if not file.exists():
                file.parent.mkdir(parents=True, exist_ok=True)
                write_text(file, entry)


def _entries(repo: Any, stage: Any) -> list[tuple[str, str]]:
    """The entries of a stage as its dvc.lock has it: key, and the name of a file."""
    from dvc.stage.cache import _can_hash, _get_stage_hash  # DVC tells it to nobody

    if not _can_hash(stage):
        return []
    key = _get_stage_hash(stage)
    return [(key, file.name) for file in Path(repo.stage_cache._get_cache_dir(key)).glob("*")]


def _push_objects(repo: Any, entries: list[tuple[str, str]]) -> int:
    """Send the objects of these entries that are here; returns how many the remote did not have."""
    used = repo.stage_cache.get_used_objs(entries)
    cache = repo.cache.local
    here = {found for objects in used.values() for found in objects if cache.exists(found.value)}
    sent, failed = repo.cloud.push(here)
    if failed:
        raise BukvaError(f"push: {len(failed)} of {len(here)} objects could not be sent; give the same command again.")
    return len(sent)


@contextlib.contextmanager
def _repo(folder: Path, trouble: str = "push: DVC cannot send it") -> Iterator[Any]:
    """DVC's view of a project; its errors become a sentence that begins with the trouble."""
    from dvc.exceptions import DvcException
    from dvc.repo import Repo

    if not has_remote():
        raise BukvaError(NO_REMOTE)
    try:
        with Repo(str(folder)) as repo:
            yield repo
    except (DvcException, OSError) as error:
        raise BukvaError(f"{trouble}: {' '.join(str(error).split())}.") from None
