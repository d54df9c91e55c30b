"""Files of outputs in DVC's cache, and the digests of what lies in the checkout: both by DVC's API.

The digest of a folder ends in `.dir` and names a list of the files in it, in JSON.
"""

import functools
import json
from pathlib import Path
from typing import Any

from bukva.core.files import project_root


def md5_of(path: Path) -> str:
    """The digest by which DVC knows a file or folder of the project; "" if it does not exist."""
    from dvc_data.hashfile.build import build

    if not path.exists():
        return ""
    repo = _repo(project_root())
    _, _, found = build(repo.cache.local, str(path), repo.fs, "md5", ignore=repo.dvcignore, dry_run=True)
    return str(found.hash_info.value)


def cached_files(digest: str) -> dict[str, Path]:
    """The files of an output in DVC's cache, by their names in it, "." if it is a file; empty if some are missing."""
    cache = _repo(project_root()).cache.local
    found = Path(cache.oid_to_path(digest))
    if not found.is_file():
        return {}
    listed = json.loads(found.read_bytes()) if digest.endswith(".dir") else [{"relpath": ".", "md5": digest}]
    files = {item["relpath"]: Path(cache.oid_to_path(item["md5"])) for item in listed}
    return files if all(file.is_file() for file in files.values()) else {}


def has_remote() -> bool:
    """Whether DVC has a remote from which it can fetch."""
    return bool(_repo(project_root()).config["core"].get("remote"))


@functools.cache
def _repo(root: Path) -> Any:
    """The project as DVC sees it, with the settings of the machine, the user and the project."""
    from dvc.repo import Repo

    return Repo(str(root))
