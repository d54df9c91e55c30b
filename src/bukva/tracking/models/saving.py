"""Writes a model as MLflow reads it: code, weights, requirements, signature and an example; no pickle."""

import shutil
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bukva.config.schema import BITS, CONTINUATION, PROMPT, SETTINGS, TEXT
from bukva.tracking.reading import Journal
from bukva.tracking.records import CODE, Record

if TYPE_CHECKING:
    from mlflow.entities import LoggedModel
    from mlflow.models import ModelSignature

LEFT_OUT = ("initial.safetensors", "exact.safetensors")  # of no use to whoever writes with the model
EXAMPLE = "\n"  # the prompt of the lecture notes


def save(folder: Path, journal: Journal, record: Record, model: "LoggedModel") -> None:
    """Write the model of a training into a new folder.

    Args:
        folder: is created; its parent is used for copies of code and weights.
        journal: of the training.
        record: its record "model" (writing.py).
        model: the store's entry.
    """
    import mlflow.pyfunc
    import pandas as pd
    from mlflow.models import Model

    code, weights = folder.parent / "code", folder.parent / record["name"]
    with zipfile.ZipFile(journal.folder / CODE) as packed:
        packed.extractall(code)
    weights.mkdir()
    for file in kept_folder(journal, record).iterdir():
        if file.name not in LEFT_OUT:
            shutil.copyfile(file, weights / file.name)  # MLflow refuses links
    mlflow.pyfunc.save_model(
        folder,
        python_model=str(code / "bukva" / "serving" / "pyfunc.py"),
        artifacts={"model": str(weights)},
        code_paths=[str(code / "bukva")],
        pip_requirements=record["requirements"],
        signature=_signature(journal.start["params"]),
        input_example=(pd.DataFrame({PROMPT: [EXAMPLE]}), {"n_chars": 20}),
        mlflow_model=Model(
            artifact_path=model.artifact_location,
            model_uuid=model.model_id,
            run_id=model.source_run_id,
            model_id=model.model_id,
        ),
    )


def kept_folder(journal: Journal, record: Record) -> Path:
    """Where the journal keeps the files of a model."""
    return journal.folder / "artifacts" / str(record["path"])


def _signature(params: Mapping[str, Any]) -> "ModelSignature":
    """Two columns, of which a row needs one, and the settings of section sample as in the experiment."""
    from mlflow.models import ModelSignature
    from mlflow.types import ColSpec, ParamSchema, ParamSpec, Schema

    return ModelSignature(
        inputs=Schema([ColSpec("string", name, required=False) for name in (PROMPT, TEXT)]),
        outputs=Schema([ColSpec("string", CONTINUATION, required=False), ColSpec("double", BITS, required=False)]),
        params=ParamSchema([ParamSpec(name, kind, params[f"sample.{name}"]) for name, kind in SETTINGS.items()]),
    )
