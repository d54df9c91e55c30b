"""The table of stages: dvc.yaml, the only place of their names, order, kinds, parameter sections and paths."""

import functools
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bukva.config.load import read_yaml
from bukva.config.schema import Params
from bukva.core.errors import BukvaError
from bukva.core.files import sha256

PIPELINE = Path(__file__).parents[3] / "dvc.yaml"  # beside the code that runs, also in the snapshot of an experiment

LABELS = Path(__file__).parents[1] / "models" / "labels.yaml"  # there, because DVC watches it: stages write labels

_read = functools.cache(read_yaml)


@dataclass(frozen=True)
class Stage:
    """One stage of dvc.yaml."""

    name: str
    kind: str  # data, training, report or publish
    sections: tuple[str, ...]  # of params.yaml that it reads
    deps: tuple[str, ...]  # files and folders


@functools.cache
def stages() -> dict[str, Stage]:
    """The stages by name, in their order.

    Raises:
        BukvaError: dvc.yaml cannot be read.
    """
    named = paths()
    return {
        name: Stage(
            name,
            spec["meta"]["kind"],
            tuple(dict.fromkeys(key.partition(".")[0] for key in spec.get("params", ()))),
            tuple(re.sub(r"\$\{path\.(\w+)\}", lambda found: named[found[1]], dep) for dep in spec["deps"]),
        )
        for name, spec in _read(PIPELINE)["stages"].items()
    }


def recorded_stages() -> dict[str, Stage]:
    """The stages whose runs MLflow shows: all with outputs."""
    return {name: stage for name, stage in stages().items() if stage.kind != "publish"}


@dataclass(frozen=True)
class TrainedModel:
    """What a training stage makes: `name` is that of the model in metrics.json, `label` that in tables and figures."""

    stage: str
    name: str
    label: str
    folder: Path
    curve: Path


@functools.cache
def trained_models() -> dict[str, TrainedModel]:
    """The models of the training stages by name, in the order of the stages."""
    named, labels, models = paths(), _read(LABELS), {}
    for stage, spec in _read(PIPELINE)["stages"].items():
        if spec["meta"]["kind"] == "training":
            name = stage.removeprefix("train-")
            folder, curve = Path(named[name]), Path(named[f"{name}_curve"])
            models[name] = TrainedModel(stage, name, labels.get(name, name), folder, curve)
    return models


@functools.cache
def paths() -> dict[str, str]:
    """The paths by the names that dvc.yaml gives them.

    Raises:
        BukvaError: dvc.yaml cannot be read.
    """
    return dict(_read(PIPELINE)["vars"][0]["path"])


# ---- what the outputs of a stage are a function of


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
