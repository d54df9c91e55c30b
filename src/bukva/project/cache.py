"""The project by DVC's API: its cache and remote, and the digests of what lies in the checkout."""

import contextlib
import functools
import json
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from bukva.core.errors import BukvaError
from bukva.core.files import project_root


@contextlib.contextmanager
def dvc_repo(folder: Path | None = None) -> Iterator[Any]:
    """A dvc.repo.Repo of the project, or of another folder.

    Raises:
        BukvaError: what DVC raises in the block, or because it cannot read the project, in one sentence.
    """
    from dvc.exceptions import DvcException
    from dvc.repo import Repo

    try:
        with Repo(str(folder or project_root())) as repo:
            yield repo
    except (DvcException, OSError) as error:
        raise BukvaError(f"DVC: {' '.join(str(error).split()).rstrip('.')}.") from None


def digests(paths: Iterable[str]) -> dict[str, str]:
    """path -> the digest by which DVC would record this file or folder of the project now; "" if it does not exist."""
    from dvc_data.hashfile.build import build

    def md5(path: Path) -> str:
        _, _, found = build(repo.cache.local, str(path), repo.fs, "md5", ignore=repo.dvcignore, dry_run=True)
        return str(found.hash_info.value)

    root = project_root()
    with dvc_repo() as repo:
        places = {path: Path(os.path.normpath(root / path)) for path in paths}  # DVC takes .. for the name of a folder
        return {path: md5(place) if place.exists() else "" for path, place in places.items()}


def cached_files(digest: str) -> dict[str, Path]:
    """The files of an output in DVC's cache, by their names in it, "." if it is a file; empty if some are missing.

    The digest of a folder ends in `.dir` and names a list of the files in it, in JSON.
    """
    folder = _cache_folder(project_root())
    found = folder / digest[:2] / digest[2:]
    if not found.is_file():
        return {}
    listed = json.loads(found.read_bytes()) if digest.endswith(".dir") else [{"relpath": ".", "md5": digest}]
    files = {item["relpath"]: folder / item["md5"][:2] / item["md5"][2:] for item in listed}
    return files if all(file.is_file() for file in files.values()) else {}


@functools.cache
def _cache_folder(root: Path) -> Path:
    with dvc_repo(root) as repo:
        return Path(repo.cache.local.path)


# ---- the remote


def has_remote() -> bool:
    """Whether DVC has a remote from which it can fetch."""
    with dvc_repo() as repo:
        return bool(repo.config["core"].get("remote"))


def push() -> tuple[int, int]:
    """Send all results; returns how many stage executions the run cache has, and how many objects were sent.

    `dvc push --run-cache` sends all entries of the run cache, but of their outputs only those of the present dvc.lock,
    and none with `cache: false`; a clone that lacks one output of a stage runs it.
    """
    with dvc_repo() as repo:
        entries = repo.stage_cache.push(None)
        return len(entries), send_objects(repo, entries)


def send_objects(repo: Any, entries: list[tuple[str, str]]) -> int:
    """Send the objects of these entries of the run cache that are here; returns how many the remote did not have."""
    used = repo.stage_cache.get_used_objs(entries)
    cache = repo.cache.local
    here = {found for objects in used.values() for found in objects if cache.exists(found.value)}
    sent, failed = repo.cloud.push(here)
    if failed:
        raise BukvaError(f"push: {len(failed)} of {len(here)} objects could not be sent; give the same command again.")
    return len(sent)
