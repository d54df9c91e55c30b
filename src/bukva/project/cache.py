"""Files of outputs, where DVC's cache has them: <cache>/files/md5/<2 digits>/<30 digits>.

The digest of a folder ends in `.dir` and names a list of the files in it, in JSON.
"""

import functools
import json
from collections.abc import Sequence
from pathlib import Path

from bukva.core.errors import BukvaError
from bukva.core.files import project_root
from bukva.project.digests import md5_of
from bukva.project.revisions import Revision


def cached_files(digest: str, path: str) -> dict[str, Path]:
    """The files of an output, by their names in it, "." if it is a file: from the cache, else from the checkout.

    path: where the output is in the checkout, which serves every revision that recorded the same digest.

    Returns:
        name -> file; empty if files are missing in both places.
    """
    root = project_root()
    cache = _folder(root)
    found = _object(cache, digest)
    if found.is_file():
        listed = json.loads(found.read_bytes()) if digest.endswith(".dir") else [{"relpath": ".", "md5": digest}]
        files = {item["relpath"]: _object(cache, item["md5"]) for item in listed}
        if all(file.is_file() for file in files.values()):
            return files
    output = root / path
    if md5_of(output, root) != digest:
        return {}
    within = sorted(output.rglob("*")) if output.is_dir() else [output]
    return {file.relative_to(output).as_posix(): file for file in within if file.is_file()}


def has_remote() -> bool:
    """Whether DVC has a remote from which it can fetch."""
    return bool(_config(project_root()).get("core", {}).get("remote"))


def fetch(revisions: Sequence[Revision], path: str) -> None:
    """Let DVC copy this output of these revisions from the remote into the cache; the checkout stays as it is.

    Raises:
        BukvaError: DVC could not; the sentence has its reason.
    """
    from dvc.exceptions import DvcException  # type: ignore[import-untyped]
    from dvc.repo import Repo  # type: ignore[import-untyped]

    try:
        with Repo(str(project_root())) as repo:
            commits = [revision.commit for revision in revisions if not revision.is_workspace]
            repo.fetch(targets=[path], revs=commits or None, workspace=len(commits) < len(revisions))
    except DvcException as error:
        raise BukvaError(f"{path}: DVC cannot fetch it: {error}.") from None


def _object(cache: Path, digest: str) -> Path:
    return cache / digest[:2] / digest[2:]


def _folder(root: Path) -> Path:
    return Path(_config(root).get("cache", {}).get("dir", root / ".dvc" / "cache")) / "files" / "md5"


@functools.cache
def _config(root: Path) -> dict[str, dict[str, str]]:
    """DVC's settings of the machine, the user and the project; paths in them are absolute."""
    from dvc.config import Config  # type: ignore[import-untyped]

    return dict(Config(str(root / ".dvc"), validate=False))
