"""Sends what this project has computed to DVC's remote, so that another clone need not compute it again.

`dvc push --run-cache` sends the entries of the run cache, but of their outputs only those of the present dvc.lock, and
none with `cache: false`; a clone that lacks one output of a stage runs it. `dvc exp run --pull` restores it from here.
"""

from pathlib import Path
from typing import Any

from bukva.core.errors import BukvaError
from bukva.core.files import write_text
from bukva.project.cache import dvc_repo, has_remote

NO_REMOTE = "push: this project has no DVC remote; add one: dvc remote add --local -d NAME ADDRESS."


def push() -> tuple[int, int]:
    """Send the run cache and the objects of its entries; returns how many entries it has, and new objects were sent.

    Raises:
        BukvaError: there is no remote, it cannot be reached, or it cannot keep a run cache.
    """
    if not has_remote():
        raise BukvaError(NO_REMOTE)
    with dvc_repo() as repo:
        entries = repo.stage_cache.push(None)
        return len(entries), _push_objects(repo, entries)


def push_objects(folder: Path) -> dict[str, str]:
    """Send the objects of all stages in the dvc.lock of a clone; returns their entries: path in the run cache -> entry.

    Raises:
        BukvaError: there is no remote, or it cannot be reached.
    """
    with dvc_repo(folder) as repo:
        entries = [entry for stage in repo.index.stages for entry in _entries(repo, stage)]
        _push_objects(repo, entries)
        files = [Path(repo.stage_cache._get_cache_path(*entry)) for entry in entries]
        return {
            file.relative_to(repo.stage_cache.cache_dir).as_posix(): file.read_text(encoding="utf-8") for file in files
        }


def add_entries(folder: Path, entries: dict[str, str]) -> None:
    """Put entries that another machine has sent into the run cache of a project."""
    with dvc_repo(folder) as repo:
        for path, entry in entries.items():
            file = Path(repo.stage_cache.cache_dir) / path
            if not file.exists():
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
