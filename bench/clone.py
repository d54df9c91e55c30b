"""A clone of the last commit, and what a user runs in it."""

import os
import sys
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML

from bench.measure import ROOT, Outcome, command
from bukva.config.load import read_yaml
from bukva.core.files import resolve

NOT_INHERITED = "DVC_", "MLFLOW_", "PYTHON", "BUKVA_MIRROR"  # prefixes of what points to another project


def clone(folder: Path) -> Path:
    """A clone of the last commit; uncommitted changes are not measured."""
    command(["git", "clone", "--quiet", "--local", str(ROOT), str(folder)])
    return folder


def dvc(folder: Path, *arguments: str) -> Outcome:
    """Run DVC in a clone."""
    return command([str(Path(sys.executable).with_name("dvc")), *arguments], folder, environment(folder))


def stage(folder: Path, name: str, params: dict[str, Any]) -> Outcome:
    """Run a stage in a clone with these parameters, as DVC runs it."""
    write_params(folder, params)
    return command([sys.executable, "-m", f"stages.{name}"], folder, {**environment(folder), "PYTHONPATH": "src"})


def params_with(changes: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """params.yaml with changes by section."""
    raw = read_yaml(ROOT / "params.yaml")
    for section, values in changes.items():
        raw[section].update(values)
    return raw


def write_params(folder: Path, params: dict[str, Any]) -> None:
    """Write params.yaml of a clone."""
    YAML().dump(params, folder / "params.yaml")


def environment(folder: Path) -> dict[str, str]:
    """Return the environment of a command in a clone: nothing in it points to another project."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(NOT_INHERITED)}
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    own = {"PATH": path, "DVC_SITE_CACHE_DIR": str(folder.parent / "site-cache")}
    mirror = os.environ.get("BUKVA_MIRROR")
    if mirror is not None:  # a folder becomes an absolute path, because the clone is in another folder
        own["BUKVA_MIRROR"] = mirror if "://" in mirror else str(resolve(mirror).absolute())
    return kept | own
