"""Files of outputs, where DVC's cache has them: <cache>/files/md5/<2 digits>/<30 digits>; and their digests.

The digest of a folder ends in `.dir` and names a list of the files in it, in JSON.
"""

import functools
import hashlib
import json
from pathlib import Path
from typing import TYPE_CHECKING

from bukva.core.files import project_root

if TYPE_CHECKING:
    from pathspec import GitIgnoreSpec

IGNORED = ".dvcignore"


def md5_of(path: Path, root: Path) -> str:
    """The digest of a file or a folder of the project at `root`; "" if it does not exist.

    That of a folder is the digest of the list of its files in JSON, with `.dir` behind it; it has no ignored files.
    """
    if path.is_dir():
        return f"{hashlib.md5(_listing(path, root)).hexdigest()}.dir"
    return _md5(path) if path.is_file() else ""


def _listing(folder: Path, root: Path) -> bytes:
    ignored = _ignored(root)
    files = {
        file.relative_to(folder).as_posix(): file
        for file in folder.rglob("*")
        if file.is_file() and not ignored.match_file(file.relative_to(root).as_posix())
    }
    return json.dumps([{"md5": _md5(files[name]), "relpath": name} for name in sorted(files)], sort_keys=True).encode()


def _md5(file: Path) -> str:
    with file.open("rb") as content:
        return hashlib.file_digest(content, "md5").hexdigest()


@functools.cache
def _ignored(root: Path) -> "GitIgnoreSpec":
    from pathspec import GitIgnoreSpec

    file = root / IGNORED
    return GitIgnoreSpec.from_lines(file.read_text(encoding="utf-8").splitlines() if file.exists() else [])


def cached_files(digest: str) -> dict[str, Path]:
    """The files of an output in DVC's cache, by their names in it, "." if it is a file; empty if some are missing."""
    cache = _folder(project_root())
    found = _object(cache, digest)
    if not found.is_file():
        return {}
    listed = json.loads(found.read_bytes()) if digest.endswith(".dir") else [{"relpath": ".", "md5": digest}]
    files = {item["relpath"]: _object(cache, item["md5"]) for item in listed}
    return files if all(file.is_file() for file in files.values()) else {}


def has_remote() -> bool:
    """Whether DVC has a remote from which it can fetch."""
    return bool(_config(project_root()).get("core", {}).get("remote"))


def _object(cache: Path, digest: str) -> Path:
    return cache / digest[:2] / digest[2:]


def _folder(root: Path) -> Path:
    return Path(_config(root).get("cache", {}).get("dir", root / ".dvc" / "cache")) / "files" / "md5"


@functools.cache
def _config(root: Path) -> dict[str, dict[str, str]]:
    """DVC's settings of the machine, the user and the project; paths in them are absolute."""
    from dvc.config import Config  # type: ignore[import-untyped]

    return dict(Config(str(root / ".dvc"), validate=False))
