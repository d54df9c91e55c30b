"""dvc.yaml as it is written: the one home of paths, and what each stage depends on."""

import hashlib
import json
import re
from pathlib import Path
from typing import Any

from bukva.errors import BukvaError
from bukva.files import sha256
from bukva.params import SECTIONS, Params, read_raw_params

PIPELINE = Path("dvc.yaml")


def paths(pipeline: Path = PIPELINE) -> dict[str, str]:
    """The paths by the names that dvc.yaml gives them.

    Raises:
        BukvaError: dvc.yaml cannot be read.
    """
    return dict(_read(pipeline)["vars"][0]["path"])


def digest(stage: str, params: Params, pipeline: Path = PIPELINE) -> str:
    """What the outputs of a stage are a function of, in 64 hexadecimal digits: its parameters, its data and its code.

    The files are those that dvc.yaml lists under `deps`, so that what makes DVC run a stage anew makes another digest.

    Raises:
        BukvaError: one of them cannot be read.
    """
    named = paths(pipeline)
    sections = {section: getattr(params, section).model_dump() for section in SECTIONS[stage]}
    found = hashlib.sha256(json.dumps(sections, sort_keys=True).encode())
    for dep in _read(pipeline)["stages"][stage]["deps"]:
        path = Path(re.sub(r"\$\{path\.(\w+)\}", lambda match: named[match[1]], dep))
        for file in _files(path):
            found.update(f"\0{file.as_posix()}\0{sha256(file)}".encode())
    return found.hexdigest()


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
