"""What the outputs of a stage are a function of: its parameters, and the digests of its `deps` in dvc.yaml.

An interrupted training finds its checkpoints by it.
"""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bukva.config.schema import Params
from bukva.core.errors import BukvaError
from bukva.core.files import sha256
from bukva.project.stages import stages

Fingerprint = Mapping[str, Any]  # dotted parameter -> value, path -> digest

MAX_NAMED = 3  # differences that a sentence names


def fingerprint(stage: str, params: Params) -> Fingerprint:
    """The parameters of a stage by dotted name, and the digests of its files by path.

    Raises:
        BukvaError: a file cannot be read.
    """
    spec = stages()[stage]
    known = {f"{section}.{key}": value for section in spec.sections for key, value in getattr(params, section)}
    for dep in spec.deps:
        known |= {file.as_posix(): sha256(file) for file in _files(Path(dep))}
    return known


def digest(known: Fingerprint) -> str:
    """A fingerprint in 64 hexadecimal digits."""
    return hashlib.sha256(json.dumps(known, sort_keys=True).encode()).hexdigest()


def differences(before: Fingerprint, now: Fingerprint) -> str:
    """How one fingerprint differs from another, in a few words."""
    found = []
    for name in sorted(before.keys() | now.keys()):
        if before.get(name) != now.get(name):
            is_file = "/" in name or name.endswith(".lock")
            found.append(f"{name} has changed" if is_file else f"{name} was {before.get(name)} and is {now.get(name)}")
    more = [f"{len(found) - MAX_NAMED} more"] if len(found) > MAX_NAMED else []
    return ", ".join([*found[:MAX_NAMED], *more])


def _files(path: Path) -> list[Path]:
    """A file, or the files below a folder that DVC counts: no byte code, no hidden files."""
    if path.is_file():
        return [path]
    found = [file for file in path.rglob("*") if file.is_file() and "__pycache__" not in file.parts]
    if not found:
        raise BukvaError(f"{path}: missing, though dvc.yaml lists it; run `dvc repro` to make it.")
    return sorted(file for file in found if not file.name.startswith("."))
