"""dvc.yaml, the one home of paths, and dvc.lock: what each stage depends on, and what DVC has of it."""

import hashlib
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bukva.errors import BukvaError
from bukva.files import sha256
from bukva.params import SECTIONS, Params, read_raw_params

PIPELINE = Path("dvc.yaml")
LOCK = Path("dvc.lock")
Identity = Mapping[str, Any]  # what the outputs of a stage are a function of: values and digests by name

NAMED = 3  # differences that a sentence names


def paths(pipeline: Path = PIPELINE) -> dict[str, str]:
    """The paths by the names that dvc.yaml gives them.

    Raises:
        BukvaError: dvc.yaml cannot be read.
    """
    return dict(_read(pipeline)["vars"][0]["path"])


def identity(stage: str, params: Params, pipeline: Path = PIPELINE) -> Identity:
    """What the outputs of a stage are a function of: its parameters by dotted name, its files' digests by path.

    The files, data and code, are those that dvc.yaml lists under `deps`, so that what makes DVC run a stage anew
    makes another identity.

    Raises:
        BukvaError: one of them cannot be read.
    """
    named = paths(pipeline)
    known = {f"{section}.{key}": value for section in SECTIONS[stage] for key, value in getattr(params, section)}
    for dep in _read(pipeline)["stages"][stage]["deps"]:
        path = Path(re.sub(r"\$\{path\.(\w+)\}", lambda match: named[match[1]], dep))
        known |= {file.as_posix(): sha256(file) for file in _files(path)}
    return known


def digest(known: Identity) -> str:
    """An identity in 64 hexadecimal digits."""
    return hashlib.sha256(json.dumps(known, sort_keys=True).encode()).hexdigest()


def differences(before: Identity, now: Identity) -> str:
    """What tells one identity from another, in a few words."""
    told = []
    for name in sorted(before.keys() | now.keys()):
        if before.get(name) != now.get(name):
            is_file = "/" in name or name.endswith(".lock")
            told.append(f"{name} is another" if is_file else f"{name} was {before.get(name)} and is {now.get(name)}")
    more = [f"{len(told) - NAMED} more"] if len(told) > NAMED else []
    return ", ".join([*told[:NAMED], *more])


def locked(text: str) -> dict[str, Any]:
    """The stages in the text of a dvc.lock: what DVC has of each."""
    from ruamel.yaml import YAML

    return dict((YAML(typ="safe").load(text) or {}).get("stages", {}))


def has(stage: str, path: str, md5: str, lock: Path = LOCK) -> bool:
    """Whether DVC has this output of a stage with this digest, and so the run of the stage that made it."""
    from ruamel.yaml.error import YAMLError

    try:
        outs = locked(lock.read_text(encoding="utf-8"))[stage]["outs"]
    except (OSError, ValueError, KeyError, YAMLError):  # there is none, or DVC is writing it
        return False
    return any((out["path"], out["md5"]) == (path, md5) for out in outs)


def _read(pipeline: Path) -> dict[str, Any]:
    return read_raw_params(pipeline)


def _files(path: Path) -> list[Path]:
    """A file, or those below a folder that DVC counts: byte code and hidden files are none of them."""
    if path.is_file():
        return [path]
    found = [file for file in path.rglob("*") if file.is_file() and "__pycache__" not in file.parts]
    if not found:
        raise BukvaError(f"{path}: named in dvc.yaml, and not there; `dvc repro` would make it.")
    return sorted(file for file in found if not file.name.startswith("."))
