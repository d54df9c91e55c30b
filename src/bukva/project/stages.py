"""The table of stages: dvc.yaml, the only place of their names, order, kinds, parameter sections and paths."""

import functools
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, cast

from bukva.config.load import read_yaml

PIPELINE = Path(__file__).parents[3] / "dvc.yaml"  # beside the code that runs, also in the snapshot of an experiment

LABELS = Path(__file__).parents[1] / "models" / "labels.yaml"  # there, because DVC watches it: stages write labels

Kind = Literal["data", "training", "report", "publish"]


@dataclass(frozen=True)
class Stage:
    """One stage of dvc.yaml."""

    name: str
    kind: Kind
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
            cast("Kind", spec["meta"]["kind"]),
            tuple(dict.fromkeys(key.partition(".")[0] for key in spec.get("params", ()))),
            tuple(_with_paths(dep, named) for dep in spec.get("deps", ())),
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


def _with_paths(text: str, named: dict[str, str]) -> str:
    """A dependency of dvc.yaml with the path in it."""
    return re.sub(r"\$\{path\.(\w+)\}", lambda found: named[found[1]], text)


@functools.cache
def _read(file: Path) -> dict[str, Any]:
    return read_yaml(file)
