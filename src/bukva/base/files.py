"""Files that are either whole or absent, and where the project lies.

Every output is written under a temporary name beside its own, flushed to the disk and renamed: a reader, a
killed process or a full disk never leaves half a file under a final name. Temporary names are fixed
(`.NAME.part`), so what a killed run left is overwritten by the next.
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

WRITERS = 8  # files that are flushed to the disk at a time


def project_root() -> Path:
    """The folder of the original repository.

    DVC_ROOT names it even when DVC runs a stage in a temporary copy (dvc exp run --temp, the queue); by hand it
    is the nearest folder above that holds .dvc.
    """
    if root := os.environ.get("DVC_ROOT"):
        return Path(root).resolve()
    here = Path.cwd().resolve()
    return next((folder for folder in (here, *here.parents) if (folder / ".dvc").is_dir()), here)


def resolve(path: str | Path) -> Path:
    """A path that a user wrote: absolute, or relative to the snapshot DVC runs in, else to the project.

    The snapshot (the current folder) comes first because that is the copy whose digest DVC recorded.
    """
    path = Path(path).expanduser()
    return path if path.is_absolute() or path.exists() else project_root() / path


@contextlib.contextmanager
def atomic_file(path: Path) -> Iterator[Path]:
    """Yield a temporary path beside `path`; when the block ends well, it becomes `path` in one step."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f".{path.name}.part")
    try:
        with _named(path, part):
            yield part
            _fsync(part)
            part.replace(path)
            _fsync(path.parent)
    finally:
        part.unlink(missing_ok=True)


@contextlib.contextmanager
def atomic_folder(path: Path) -> Iterator[Path]:
    """Yield a new temporary folder beside `path`; when the block ends well, it takes the place of `path`."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part, old = path.with_name(f".{path.name}.part"), path.with_name(f".{path.name}.old")
    if old.exists() and not path.exists():  # killed between the two names
        old.rename(path)
    for leftover in (part, old):
        shutil.rmtree(leftover, ignore_errors=True)
    try:
        with _named(path, part):
            part.mkdir()
            yield part
            with ThreadPoolExecutor(WRITERS) as pool:  # a disk is asked for many at once: 400 take 0.1 s, not 1.2 s
                list(pool.map(_fsync, part.rglob("*")))
            _fsync(part)
            if path.exists():
                path.rename(old)
            part.rename(path)
            _fsync(path.parent)
    finally:
        if old.exists() and not path.exists():  # interrupted between the two names
            old.rename(path)
        shutil.rmtree(part, ignore_errors=True)
        shutil.rmtree(old, ignore_errors=True)


def write_text(path: Path, text: str) -> None:
    """Write UTF-8 text, lines ending as they are in `text`, atomically."""
    with atomic_file(path) as part:
        part.write_bytes(text.encode())


def write_json(path: Path, value: Any) -> None:
    """Write JSON for people and diffs: two spaces, keys in the order given, Cyrillic as it is."""
    write_text(path, json.dumps(value, ensure_ascii=False, indent=2) + "\n")


def read_json(path: Path) -> Any:
    """Read a JSON file."""
    return json.loads(path.read_text(encoding="utf-8"))


def sha256(path: Path) -> str:
    """The SHA-256 digest of a file, in hexadecimal digits."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@contextlib.contextmanager
def _named(path: Path, part: Path) -> Iterator[None]:
    """An error of the disk within this block names the file that was to be, not the one under a temporary name."""
    try:
        yield
    except OSError as error:
        if error.filename is None or str(error.filename).startswith(str(part)):
            error.filename = str(path)
        raise


def _fsync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
