"""The digests by which DVC knows files and folders."""

import functools
import hashlib
import json
from pathlib import Path
from typing import TYPE_CHECKING

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
