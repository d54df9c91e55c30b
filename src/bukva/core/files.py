"""Files that are either complete or absent, and the folder of the project.

Every output is written under a temporary name beside its final one, flushed to the disk and renamed: neither a killed
process nor a full disk leaves half a file under a final name. Temporary names are fixed (`.NAME.part`), so the next
run overwrites what a killed one left.
"""

import contextlib
import hashlib
import json
import os
import shutil
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

PIECE_BYTES = 1 << 20  # of a file or a response in memory, where it is read in pieces


def project_root() -> Path:
    """The folder of the original repository.

    DVC sets DVC_ROOT, also when it runs a stage in a temporary copy (dvc exp run --temp, the queue). A worker of a
    cluster sets BUKVA_ROOT, because its clone is temporary and DVC does not know that. Without either, the project is
    the nearest folder above that contains .dvc.
    """
    if root := os.environ.get("BUKVA_ROOT") or os.environ.get("DVC_ROOT"):
        return Path(root).resolve()
    here = Path.cwd().resolve()
    return next((folder for folder in (here, *here.parents) if (folder / ".dvc").is_dir()), here)


def resolve(path: str | Path) -> Path:
    """A path that a user wrote: absolute, or relative to the snapshot that DVC runs in, else to the project.

    The snapshot (the current folder) comes first because DVC recorded the digest of that copy.
    """
    path = Path(path).expanduser()
    return path if path.is_absolute() or path.exists() else project_root() / path


def existing(path: str) -> Path | None:
    """The same, or None if nothing is there."""
    try:
        found = resolve(path)
        return found if found.exists() else None
    except (OSError, RuntimeError):  # the name is too long, or the home of an unknown user
        return None


@contextlib.contextmanager
def atomic_file(path: Path) -> Iterator[Path]:
    """Yield a temporary path beside `path`; when the block ends without an error, it becomes `path` in one step."""
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_name(f".{path.name}.part")
    try:
        with _final_name_in_errors(path, unfinished):
            yield unfinished
            _fsync(unfinished)
            unfinished.replace(path)
            _fsync(path.parent)
    finally:
        unfinished.unlink(missing_ok=True)


@contextlib.contextmanager
def atomic_folder(path: Path) -> Iterator[Path]:
    """Yield a new temporary folder beside `path`; when the block ends without an error, it replaces `path`."""
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished, old = path.with_name(f".{path.name}.part"), path.with_name(f".{path.name}.old")

    def tidy() -> None:
        if old.exists() and not path.exists():  # killed or interrupted between the two renames
            old.rename(path)
        for leftover in (unfinished, old):
            shutil.rmtree(leftover, ignore_errors=True)

    tidy()
    try:
        with _final_name_in_errors(path, unfinished):
            unfinished.mkdir()
            yield unfinished
            with ThreadPoolExecutor() as pool:  # 400 files take 0.1 s instead of 1.2 s
                list(pool.map(_fsync, unfinished.rglob("*")))
            _fsync(unfinished)
            if path.exists():
                path.rename(old)
            unfinished.rename(path)
            _fsync(path.parent)
    finally:
        tidy()


def write_text(path: Path, text: str) -> None:
    """Write UTF-8 text atomically; line ends stay as they are in `text`."""
    with atomic_file(path) as unfinished:
        unfinished.write_bytes(text.encode())


def write_json(path: Path, value: Any) -> None:
    """Write JSON, readable and easy to diff: indented by two spaces, keys in the given order, Cyrillic unescaped."""
    write_text(path, json.dumps(value, ensure_ascii=False, indent=2) + "\n")


def read_json(path: Path) -> Any:
    """Read a JSON file."""
    return json.loads(path.read_text(encoding="utf-8"))


def sha256(path: Path) -> str:
    """The SHA-256 digest of a file, in hexadecimal digits."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@contextlib.contextmanager
def _final_name_in_errors(path: Path, unfinished: Path) -> Iterator[None]:
    """Let an OSError of this block name the final path instead of the temporary one."""
    try:
        yield
    except OSError as error:
        if error.filename is None or str(error.filename).startswith(str(unfinished)):
            error.filename = str(path)
        raise


def _fsync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
