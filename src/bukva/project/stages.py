"""Read dvc.yaml, which defines the order, kind, parameters and dependencies of all stages, and the paths of files."""

import functools
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bukva.core.errors import BukvaError
from bukva.core.files import PACKAGE, sha256
from bukva.core.params import read_yaml
from bukva.core.schema import Params
from bukva.core.words import few

# relative to the running code, so that a queued experiment reads the dvc.yaml in its own copy of the project
PIPELINE = PACKAGE.parents[1] / "dvc.yaml"

# in models/, because stages write the labels into outputs and DVC tracks that folder as a dependency
LABELS = PACKAGE / "models/labels.yaml"

_read = functools.cache(read_yaml)


@dataclass(frozen=True)
class Stage:
    name: str
    kind: str  # data, training, report or publish
    sections: tuple[str, ...]  # sections of params.yaml that the stage reads
    deps: tuple[str, ...]  # files and folders that the stage depends on
    outs: tuple[str, ...]  # files and folders that the stage writes


@dataclass(frozen=True)
class TrainedModel:
    """The model that a training stage trains."""

    stage: str
    name: str  # key of the model in metrics.json
    label: str  # name of the model in tables and figures
    folder: Path  # weights and tokenizer
    curve: Path  # CSV file with the losses


@functools.cache
def paths() -> dict[str, str]:
    """Return all paths in the section `vars` of dvc.yaml, by name."""
    return dict(_read(PIPELINE)["vars"][0]["path"])


@functools.cache
def stages() -> dict[str, Stage]:
    """Return all stages by name, in the order of dvc.yaml."""
    found = {}
    for name, spec in _read(PIPELINE)["stages"].items():
        sections = dict.fromkeys(key.partition(".")[0] for key in spec.get("params", ()))
        listed = [key for kind in ("outs", "metrics", "plots") for key in spec.get(kind, ())]
        outs = [key if isinstance(key, str) else next(iter(key)) for key in listed]
        found[name] = Stage(name, spec["meta"]["kind"], tuple(sections), _resolved(spec["deps"]), _resolved(outs))
    return found


def _resolved(templates: Iterable[str]) -> tuple[str, ...]:
    """Replace `${path.NAME}` by paths. Other variables are parameters and stay."""
    return tuple(re.sub(r"\$\{path\.(\w+)\}", lambda match: paths()[match[1]], each) for each in templates)


def recorded_stages() -> dict[str, Stage]:
    """Return the stages that have runs in MLflow, by name: all except `publish`, which has no outputs."""
    return {name: stage for name, stage in stages().items() if stage.kind != "publish"}


@functools.cache
def trained_models() -> dict[str, TrainedModel]:
    """Return the models of all training stages by name, such as "gpt", in the order of dvc.yaml."""
    models = {}
    for stage in stages().values():
        if stage.kind == "training":
            name = stage.name.removeprefix("train-")
            folder, curve = Path(paths()[name]), Path(paths()[f"{name}_curve"])
            models[name] = TrainedModel(stage.name, name, _read(LABELS).get(name, name), folder, curve)
    return models


# ---- fingerprints: everything that the outputs of a stage depend on


Fingerprint = Mapping[str, Any]  # values of parameters by dotted name, and SHA-256 of files by path


def fingerprint(stage: str, params: Params) -> Fingerprint:
    """Return all parameters and files on which the outputs of a stage depend; n-grams only if the GPT uses them."""
    spec = stages()[stage]
    values = {f"{section}.{key}": value for section in spec.sections for key, value in getattr(params, section)}
    for dep in spec.deps:
        if dep != paths()["ngrams"] or params.model.ngrams != "none":
            values |= {file.as_posix(): sha256(file) for file in _files(Path(dep))}
    return values


def differences(before: Fingerprint, now: Fingerprint) -> str:
    """Describe the first differences of two fingerprints, and count the rest; "" if there are none."""
    names = sorted(name for name in before.keys() | now.keys() if before.get(name) != now.get(name))
    phrases = [
        f"{name} has changed"
        if "/" in name or name.endswith(".lock")
        else f"{name} was {before.get(name)} and is {now.get(name)}"
        for name in names
    ]
    return ", ".join(few(phrases))


def _files(path: Path) -> list[Path]:
    """Return the file `path`, or all files in the folder `path` except bytecode and hidden (temporary) files."""
    if path.is_file():
        return [path]
    files = [file for file in path.rglob("*") if file.is_file() and "__pycache__" not in file.parts]
    if not files:
        raise BukvaError(f"{path} does not exist. Run `dvc repro` to create it.")
    return sorted(file for file in files if not file.name.startswith("."))
