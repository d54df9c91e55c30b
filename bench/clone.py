"""Clones of the last commit, and commands that run in them."""

import os
import sys
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML

from bench.measure import ROOT, Outcome, command, path_with
from bukva.config.load import read_yaml
from bukva.core.files import resolve_path

NOT_INHERITED = "DVC_", "MLFLOW_", "PYTHON", "BUKVA_MIRROR"  # prefixes of variables that can point to another project


def clone(folder: Path) -> Path:
    """Clone the last commit, without uncommitted changes, and return the folder."""
    command(["git", "clone", "--quiet", "--local", str(ROOT), str(folder)])
    return folder


def dvc(folder: Path, *arguments: str) -> Outcome:
    """Run DVC in a clone."""
    return command([str(Path(sys.executable).with_name("dvc")), *arguments], folder, environment(folder))


def stage(folder: Path, name: str, params: dict[str, Any]) -> Outcome:
    """Write these parameters into a clone and run a stage there, as DVC would run it."""
    write_params(folder, params)
    return command(
        [sys.executable, "-m", f"stages.{name}"], folder, {**environment(folder), "PYTHONPATH": path_with("src")}
    )


def params_with(changes: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """Return the content of params.yaml with changes, given by section."""
    raw = read_yaml(ROOT / "params.yaml")
    for section, values in changes.items():
        raw[section].update(values)
    return raw


def write_params(folder: Path, params: dict[str, Any]) -> None:
    """Write params.yaml in a clone."""
    YAML().dump(params, folder / "params.yaml")


def environment(folder: Path) -> dict[str, str]:
    """Return the environment for commands in a clone, without variables that point to another project."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(NOT_INHERITED)}
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    own = {"PATH": path, "DVC_SITE_CACHE_DIR": str(folder.parent / "site-cache")}
    mirror = os.environ.get("BUKVA_MIRROR")
    if mirror is not None:  # a relative path would be wrong in the folder of the clone
        own["BUKVA_MIRROR"] = mirror if "://" in mirror else str(resolve_path(mirror).absolute())
    return kept | own
