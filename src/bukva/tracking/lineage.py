"""Where the results of an experiment come from: commit, digests of all inputs and outputs, versions, machine.

MLflow gets a file with all of it, and tags with what people search for: which runs used this text, made this model, or
ran on this processor.
"""

import platform
from importlib.metadata import version
from typing import Any

from bukva.core.files import read_json
from bukva.core.machine import machine
from bukva.project.lock import LOCK, recorded
from bukva.project.stages import paths, trained_models
from bukva.tracking.models.package import requirements

FILE = "lineage.json"


def lineage(commit: str) -> dict[str, Any]:
    """What made the files of the checkout.

    Raises:
        OSError, ValueError, KeyError: dvc.lock cannot be read.
    """
    stages = recorded(LOCK.read_text(encoding="utf-8"))
    return {
        "commit": commit,
        "stages": {
            name: {
                "command": entry["cmd"],
                "inputs": {item["path"]: item["md5"] for item in entry.get("deps", ())},
                "outputs": {item["path"]: item["md5"] for item in entry.get("outs", ())},
            }
            for name, entry in stages.items()
        },
        "packages": {"python": platform.python_version(), "dvc": version("dvc")}
        | dict(line.split("==") for line in requirements()),
        "machine": machine(),
    }


def lineage_tags(content: dict[str, Any]) -> dict[str, str]:
    """What people search for: digests of the text and the models, and the arithmetic that trained them."""
    outputs = {path: md5 for stage in content["stages"].values() for path, md5 in stage["outputs"].items()}
    digests = {f"dvc.{name}": outputs.get(paths()[name]) for name in ("split", *trained_models())}
    gpt = trained_models()["gpt"].folder / "numerics.json"
    arithmetic = {f"bukva.{name}": text for name, text in read_json(gpt).items()} if gpt.exists() else {}
    return {
        **{name: md5 for name, md5 in digests.items() if md5},
        **arithmetic,
        "bukva.processor": content["machine"]["cpu"],
    }
