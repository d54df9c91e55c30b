"""Trained models in MLflow: logged with the run of their training, scored, registered; and fetched by whoever uses one.

A model carries code, weights, requirements, signature and an example, and no pickle. Each step looks first for what the
store has, so that a process that was stopped between two of them is completed by the next one, and nothing is there
twice.
"""

import hashlib
import json
import re
import shutil
import tempfile
import zipfile
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bukva.config.schema import BITS, CONTINUATION, PROMPT, SETTINGS, TEXT
from bukva.core.errors import BukvaError
from bukva.core.files import read_json, sha256

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities import LoggedModel, Metric
    from mlflow.entities.model_registry import ModelVersion
    from mlflow.models import ModelSignature

    from bukva.tracking.journal import Event, Journal

PACKAGE = Path(__file__).parents[1]  # bukva, beside the code that runs, also in the snapshot of an experiment
CODE = "code.zip"  # beside the journal of a training: what runs its model
# what of bukva serving/pyfunc.py imports; a test walks its imports
NEEDED = (
    "__init__.py",
    "config",
    "core",
    "generation",
    "models",
    "project/__init__.py",
    "project/stages.py",
    "serving/__init__.py",
    "serving/pyfunc.py",
    "serving/writer.py",
    "text",
)
# packages that these import; MLflow adds what it needs itself
DISTRIBUTIONS = (
    "jinja2",
    "mlflow",
    "numba",
    "numpy",
    "pandas",
    "pydantic",
    "pyyaml",
    "ruamel.yaml",
    "safetensors",
    "tokenizers",
    "torch",
)
EPOCH = (1980, 1, 1, 0, 0, 0)  # of the files in the archive: its bytes are a function of the code
WEIGHTS = "best.safetensors"
LEFT_OUT = ("initial.safetensors", "exact.safetensors")  # of no use to whoever writes with the model
EXAMPLE = "\n"  # the prompt of the lecture notes
SCORED_ON = "val"  # what `best` means
BEST = "best"
MAKES_THE_TEXT = ("download", "clean", "split")  # sections of params.yaml
DESCRIPTION = (
    "A version for each experiment of bukva that was scored. Alias best: the fewest bits per character on val of the "
    "text that was registered last; best-CORPUS: on that corpus. To use one: docs/sharing.md."
)
MOST_VERSIONS = 10_000  # of one answer of MLflow
VERSIONS = "mlflow.modelVersions"  # by which the page of a model finds its versions
SCORE, SCORED_TEXT = f"bukva.{SCORED_ON}_{BITS}", "bukva.text"  # tags of a version
SCHEME = "models:"
NAME = re.compile(r"models:/([^/@]+)(?:@([^/@]+)|/(\d+))")  # name, and alias or version


# ---- what a training keeps


def requirements() -> list[str]:
    """The packages at the versions of this environment, without what only this machine can install (2.13.0+cpu)."""
    return [f"{name}=={version(name).partition('+')[0]}" for name in DISTRIBUTIONS]


def write_code(archive: Path) -> None:
    """Pack what runs a model without the repository into a zip file, below a folder bukva."""
    files = [file for name in NEEDED for file in [PACKAGE / name, *sorted((PACKAGE / name).rglob("*"))]]
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as packed:
        for file in files:
            if file.is_file() and "__pycache__" not in file.parts:
                member = zipfile.ZipInfo(file.relative_to(PACKAGE.parent).as_posix(), EPOCH)
                packed.writestr(member, file.read_bytes(), zipfile.ZIP_DEFLATED)


# ---- into the store


def log_model(client: "MlflowClient", journal: "Journal", event: "Event", run_id: str, params: dict[str, str]) -> None:
    """Give the run of a training its model, if the store does not have it.

    Args:
        event: kind "model" (journal.py).
        params: of the training stage.
    """
    from mlflow.entities import LoggedModelOutput, LoggedModelStatus

    run, weights = client.get_run(run_id), journal.folder / "artifacts" / event["path"]
    digest, experiment = sha256(weights / WEIGHTS), journal.start["experiment"]
    known = client.search_logged_models([run.info.experiment_id], f"source_run_id = '{run_id}'")
    model = next((each for each in known if each.tags.get("bukva.weights") == digest), None)
    if model is None:
        arithmetic = {f"bukva.{name}": text for name, text in read_json(weights / "numerics.json").items()}
        tags = {"bukva.model": event["name"], "bukva.experiment": experiment, "bukva.key": journal.key}
        model = client.create_logged_model(
            run.info.experiment_id,
            f"{re.sub(r'[^A-Za-z0-9_ -]', '-', experiment)}-{event['name']}",  # MLflow allows no other characters
            run_id,
            tags={**tags, "bukva.commit": journal.start["commit"], "bukva.weights": digest, **arithmetic},
            params=params,
            model_type=event["name"],
        )
    outputs = run.outputs.model_outputs if run.outputs else []
    if model.model_id not in [each.model_id for each in outputs]:
        client.log_outputs(run_id, [LoggedModelOutput(model.model_id, step=0)])
    if model.status != LoggedModelStatus.READY:
        with tempfile.TemporaryDirectory(prefix="bukva-") as folder:
            _save(Path(folder) / "model", journal, event, model)
            client.log_model_artifacts(model.model_id, str(Path(folder) / "model"))
        client.finalize_logged_model(model.model_id, LoggedModelStatus.READY)


def _save(folder: Path, journal: "Journal", event: "Event", model: "LoggedModel") -> None:
    """Write a model as MLflow reads it into a new folder, whose parent is used for copies of code and weights."""
    import mlflow.pyfunc
    import pandas as pd
    from mlflow.models import Model

    code, weights = folder.parent / "code", folder.parent / event["name"]
    with zipfile.ZipFile(journal.folder / CODE) as packed:
        packed.extractall(code)
    kept = journal.folder / "artifacts" / event["path"]
    shutil.copytree(kept, weights, ignore=shutil.ignore_patterns(*LEFT_OUT))  # MLflow refuses links
    mlflow.pyfunc.save_model(
        folder,
        python_model=str(code / "bukva" / "serving" / "pyfunc.py"),
        artifacts={"model": str(weights)},
        code_paths=[str(code / "bukva")],
        pip_requirements=event["requirements"],
        signature=_signature(journal.start["params"]),
        input_example=(pd.DataFrame({PROMPT: [EXAMPLE]}), {"n_chars": 20}),
        mlflow_model=Model(
            artifact_path=model.artifact_location,
            model_uuid=model.model_id,
            run_id=model.source_run_id,
            model_id=model.model_id,
        ),
    )


def _signature(params: Mapping[str, Any]) -> "ModelSignature":
    """Two columns, of which a row needs one, and the settings of section sample as in the experiment."""
    from mlflow.models import ModelSignature
    from mlflow.types import ColSpec, ParamSchema, ParamSpec, Schema

    return ModelSignature(
        inputs=Schema([ColSpec("string", name, required=False) for name in (PROMPT, TEXT)]),
        outputs=Schema([ColSpec("string", CONTINUATION, required=False), ColSpec("double", BITS, required=False)]),
        params=ParamSchema([ParamSpec(name, kind, params[f"sample.{name}"]) for name, kind in SETTINGS.items()]),
    )


def score_model(
    client: "MlflowClient", experiment_id: str, journal: "Journal", name: str, bits: Mapping[str, float], at: int
) -> None:
    """Give a model its scores, and register it.

    Does nothing if the store has no model of its experiment: then its training is part of another one.

    Args:
        journal: of stage evaluate.
        name: gpt, or bigram.
        bits: per character, by split.
        at: when they were written.
    """
    from mlflow.entities import LoggedModelStatus

    found = client.search_logged_models(
        [experiment_id],
        f"tags.`bukva.key` = '{journal.key}' AND tags.`bukva.model` = '{name}'",
        order_by=[{"field_name": "creation_timestamp", "ascending": False}],
        max_results=1,
    )
    model = found[0] if found else None
    if model and model.source_run_id and model.status == LoggedModelStatus.READY:
        client.log_batch(model.source_run_id, _metrics(model, journal, name, bits, at))
        if SCORED_ON in bits:
            _register(client, model, f"bukva-{name}", journal, bits[SCORED_ON])


def _metrics(model: "LoggedModel", journal: "Journal", name: str, bits: Mapping[str, float], at: int) -> list["Metric"]:
    """The scores of a model, each with the split that it was scored on."""
    from mlflow.entities import Metric

    datasets = {each["split"]: (each["name"], each["digest"]) for each in journal.start["datasets"]}
    return [
        Metric(
            f"{name}.{split}",  # as in metrics.json; val_bits_per_char is a curve of the training
            value,
            at,
            0,
            model_id=model.model_id,
            dataset_name=datasets.get(split, (None, None))[0],
            dataset_digest=datasets.get(split, (None, None))[1],
            run_id=model.source_run_id,
        )
        for split, value in bits.items()
    ]


def _register(client: "MlflowClient", model: "LoggedModel", name: str, journal: "Journal", bits: float) -> None:
    """Register a scored model, if it is not there, and move the aliases to the best version of its text."""
    start = journal.start
    corpus = str(start["params"]["download.corpus"])
    tags = {
        SCORE: repr(bits),
        SCORED_TEXT: _text_of(start),
        "bukva.experiment": start["experiment"],
        "bukva.commit": start["commit"],
    }
    description = f"{start['experiment']}: {bits:.3f} bits per character on {SCORED_ON} of {corpus}"
    known = next((each for each in _versions(client, name) if each.source == model.artifact_location), None)
    if known is None:
        if not client.search_registered_models(f"name = '{name}'"):
            client.create_registered_model(name, description=DESCRIPTION)
        known = client.create_model_version(
            name,
            model.artifact_location,
            model.source_run_id,
            tags,
            description=description,
            model_id=model.model_id,
        )
    elif tags.items() - known.tags.items():  # scored again, by other code
        for key, text in tags.items():
            client.set_model_version_tag(name, known.version, key, text)
        client.update_model_version(name, known.version, description)
    if VERSIONS not in model.tags:  # an MLflow server notes this itself, a database does not
        noted = json.dumps([{"name": name, "version": int(known.version)}])
        client.set_logged_model_tags(model.model_id, {VERSIONS: noted})
    rivals = [each for each in _versions(client, name) if each.tags.get(SCORED_TEXT) == tags[SCORED_TEXT]]
    best = min(rivals, key=lambda each: (float(each.tags[SCORE]), int(each.version)))
    aliases = client.get_registered_model(name).aliases
    for alias in (BEST, f"{BEST}-{re.sub(r'[^A-Za-z0-9_-]', '-', corpus)}"):
        if str(aliases.get(alias)) != str(best.version):
            client.set_registered_model_alias(name, alias, best.version)


def _versions(client: "MlflowClient", name: str) -> list["ModelVersion"]:
    return list(client.search_model_versions(f"name = '{name}'", max_results=MOST_VERSIONS))


def _text_of(start: "Event") -> str:
    """Equal for experiments whose texts are the same: scores on others cannot be compared."""
    made = {key: value for key, value in start["params"].items() if key.partition(".")[0] in MAKES_THE_TEXT}
    return hashlib.sha256(json.dumps(made, sort_keys=True).encode()).hexdigest()[:16]


# ---- out of the store


def fetch(uri: str, into: Path) -> Path:
    """The files of the weights of a registered model: where MLflow keeps them, or copied into a folder.

    Args:
        uri: models:/NAME@ALIAS or models:/NAME/VERSION.
        into: for what another machine keeps.

    Raises:
        BukvaError: it is not registered, or MLflow cannot be reached.
    """
    from bukva.tracking.sync import connect, errors_in_one_line, tracking_uri

    found = NAME.fullmatch(uri)
    if not found:
        raise BukvaError(f"{uri}: not the name of a registered model; use models:/NAME@ALIAS or models:/NAME/VERSION.")
    path = tracking_uri().removeprefix("sqlite:///")
    if path.startswith("/") and not Path(path).exists():  # rather than create one
        raise BukvaError(f"{path}: no MLflow is here; go to the folder of the project, or set MLFLOW_TRACKING_URI.")
    with errors_in_one_line():
        client = connect().client
        model = _version(client, *found.groups())
        if model is None:
            names = sorted(each.name for each in client.search_registered_models())
            known = f"it has {', '.join(names)} (see its page Models)" if names else "it has no model yet"
            raise BukvaError(f"no {uri} is registered; {known}.")
        from mlflow.artifacts import download_artifacts

        files = f"{str(model.source).rstrip('/')}/artifacts"
        kept = Path(download_artifacts(artifact_uri=files, dst_path=str(into), tracking_uri=tracking_uri()))
        return next(path for path in sorted(kept.iterdir()) if path.is_dir())


def _version(client: "MlflowClient", name: str, alias: str | None, number: str | None) -> "ModelVersion | None":
    from mlflow.exceptions import MlflowException

    try:
        return client.get_model_version_by_alias(name, alias) if alias else client.get_model_version(name, str(number))
    except MlflowException as error:
        if error.error_code in ("RESOURCE_DOES_NOT_EXIST", "INVALID_PARAMETER_VALUE"):  # the latter for an alias
            return None
        raise
