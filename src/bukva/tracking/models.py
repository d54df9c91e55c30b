"""Upload trained models to MLflow, log their scores, register the scored models, and download registered models.

An uploaded model contains no pickle. Each step first checks what MLflow already has, so a later process completes an
interrupted upload, and nothing is stored twice.
"""

import json
import re
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bukva.core.errors import BukvaError
from bukva.core.files import read_json
from bukva.core.schema import BITS, CONTINUATION, PROMPT, SETTINGS, TEXT
from bukva.project.lock import digest
from bukva.project.stages import trained_models
from bukva.tracking.journal import ARTIFACTS, CODE, Event, Journal
from bukva.tracking.store import Store, connect, database_path, errors_in_one_line, tracking_uri

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities import LoggedModel, Run
    from mlflow.entities.model_registry import ModelVersion
    from mlflow.models import ModelSignature

LEFT_OUT = "initial.safetensors"  # untrained weights, which are not needed to use a model
EXAMPLE = "\n"  # the prompt of the lecture notes
SCORED_ON = "val"  # split whose score decides which version gets the alias `best`
DESCRIPTION = (
    "Each version is the model of one scored experiment of bukva. The alias `best` points to the version with the "
    "fewest bits per character on val. It compares only scores on one text: the newest text on which every model was "
    "scored. `best-CORPUS` is the best version for one corpus. See docs/sharing.md for how to use a version."
)
VERSIONS = "mlflow.modelVersions"  # tag from which MLflow's page of a model reads its registered versions
SCORE, SCORED_TEXT, CORPUS = f"bukva.{SCORED_ON}_{BITS}", "bukva.text", "bukva.corpus"  # tags of a version
SCHEME = "models:"
NAME = re.compile(r"models:/[^/@]+(@[^/@]+|/\d+)")  # models:/NAME@ALIAS or models:/NAME/VERSION


# ---- log, score and register


def log_model(
    client: "MlflowClient", journal: Journal, event: Event, runs: Sequence["Run"], params: dict[str, str]
) -> None:
    """Upload the trained model of a model event, unless MLflow already has the complete model.

    `runs` will list the model as an output. The first is the run of the training.
    """
    from mlflow.entities import LoggedModelOutput, LoggedModelStatus

    run_id, experiment_id, name = runs[0].info.run_id, runs[0].info.experiment_id, event["name"]
    artifact = journal.folder / ARTIFACTS / event["path"]
    tags = {"model": name, "experiment": journal.start["experiment"], "key": journal.key}
    tags = {f"bukva.{key}": text for key, text in (tags | read_json(artifact / "numerics.json")).items()}
    title = f"{_allowed(journal.start['experiment'])}-{name}"
    logged = client.search_logged_models([experiment_id], f"source_run_id = '{run_id}'")
    if logged:
        model = logged[0]
    else:
        model = client.create_logged_model(experiment_id, title, run_id, tags, params, model_type=name)
    if model.status != LoggedModelStatus.READY:
        with tempfile.TemporaryDirectory(prefix="bukva-") as folder:
            _save(Path(folder) / "model", artifact, journal, event, model)
            client.log_model_artifacts(model.model_id, str(Path(folder) / "model"))
        for each in [run.info.run_id for run in runs]:
            outputs = client.get_run(each).outputs
            if model.model_id not in [output.model_id for output in (outputs.model_outputs if outputs else ())]:
                client.log_outputs(each, [LoggedModelOutput(model.model_id, step=0)])
        client.finalize_logged_model(model.model_id, LoggedModelStatus.READY)


def _save(folder: Path, artifact: Path, journal: Journal, event: Event, model: "LoggedModel") -> None:
    import mlflow.pyfunc
    import pandas as pd
    from mlflow.models import Model

    code, weights = folder.parent / "code", folder.parent / event["name"]
    shutil.unpack_archive(journal.folder / CODE, code)
    shutil.copytree(artifact, weights, ignore=shutil.ignore_patterns(LEFT_OUT))  # MLflow rejects links
    mlflow.pyfunc.save_model(
        folder,
        python_model=str(code / "bukva" / "serving" / "pyfunc.py"),
        artifacts={"model": str(weights)},
        code_paths=[str(code / "bukva")],
        pip_requirements=event["requirements"],
        signature=_signature(journal.start["params"]),
        input_example=(pd.DataFrame({PROMPT: [EXAMPLE]}), {"n_chars": 20}),
        mlflow_model=Model(model_uuid=model.model_id, run_id=model.source_run_id, model_id=model.model_id),
    )


def _signature(params: Mapping[str, Any]) -> "ModelSignature":
    from mlflow.models import ModelSignature
    from mlflow.types import ColSpec, ParamSchema, ParamSpec, Schema

    return ModelSignature(
        inputs=Schema([ColSpec("string", name, required=False) for name in (PROMPT, TEXT)]),
        outputs=Schema([ColSpec("string", CONTINUATION, required=False), ColSpec("double", BITS, required=False)]),
        params=ParamSchema([ParamSpec(name, kind, params[f"sample.{name}"]) for name, kind in SETTINGS.items()]),
    )


def score_model(store: Store, journal: Journal, name: str, scores: Mapping[str, float], at: int) -> None:
    """Log the scores of a trained model in MLflow. If val was scored, also add the model to MLflow's registry.

    Do nothing if MLflow has no model of this experiment, because an earlier experiment trained it.

    journal: journal of stage evaluate.
    scores: bits per character by split, and the accuracy with the key `accuracy`.
    at: time of the scores, in milliseconds since 1970.
    """
    from mlflow.entities import LoggedModelStatus, Metric

    newest = store.client.search_logged_models(
        [store.experiment_id],
        f"tags.`bukva.key` = '{journal.key}' AND tags.`bukva.model` = '{name}'",
        order_by=[{"field_name": "creation_timestamp", "ascending": False}],
        max_results=1,
    )
    if not newest or newest[0].status != LoggedModelStatus.READY:
        return
    model = newest[0]
    datasets = {each["split"]: (each["name"], each["digest"]) for each in journal.start["datasets"]}
    metrics = [  # named as in metrics.json, because val_bits_per_char already names a curve of the training
        Metric(f"{name}.{key}", value, at, 0, model.model_id, *datasets.get(key, (None, None)), model.source_run_id)
        for key, value in scores.items()
    ]
    store.client.log_batch(model.source_run_id, metrics)
    if SCORED_ON in scores:
        _register(store.client, model, f"bukva-{name}", journal.start, scores[SCORED_ON])


def _register(client: "MlflowClient", model: "LoggedModel", name: str, start: Event, bits: float) -> None:
    """Add a scored model to MLflow's registry, unless the registry already has it."""
    tags = {"bukva.experiment": start["experiment"]}
    if edited := start.get("edited"):  # the commit cannot produce this version
        tags["bukva.edited"] = ", ".join(edited)
    else:
        tags["bukva.commit"] = start["commit"]
    tags |= {SCORE: repr(bits), SCORED_TEXT: _text(start), CORPUS: start["params"]["download.corpus"]}
    source, by_name = model.artifact_location, f"name = '{name}'"
    version = next((each for each in client.search_model_versions(by_name) if each.source == source), None)
    if version is None:
        if not client.search_registered_models(by_name):
            client.create_registered_model(name, description=DESCRIPTION)
        version = client.create_model_version(name, source, model.source_run_id, tags, model_id=model.model_id)
    # a tag differs if another version of the code has scored the model
    for key, value in tags.items() - version.tags.items():
        client.set_model_version_tag(name, version.version, key, value)
    # an MLflow server sets this tag itself, but if the store is a database, bukva has to set it
    if VERSIONS not in model.tags:
        registered = json.dumps([{"name": name, "version": int(version.version)}])
        client.set_logged_model_tags(model.model_id, {VERSIONS: registered})


def _text(start: Event) -> str:
    """Return a digest that identifies the text on which models were scored."""
    cleaned = sorted({each["text"] for each in start["datasets"] if each.get("text")})
    sections = ("split",) if cleaned else ("download", "clean", "split")  # journals of older versions have no digest
    params = {key: value for key, value in start["params"].items() if key.partition(".")[0] in sections}
    return digest([cleaned, params] if cleaned else params)


def move_aliases(client: "MlflowClient", corpus: str) -> None:
    """Set the aliases `best` and `best-CORPUS` of each registered model to the version with the best score.

    For each alias, scores are compared on one text: the newest text (of this corpus) on which every registered model
    was scored. If no such text exists, the alias does not change.
    """
    registered = [each for name in trained_models() for each in client.search_model_versions(f"name = 'bukva-{name}'")]
    scored = [each for each in registered if SCORED_TEXT in each.tags]
    of_corpus = [each for each in scored if each.tags.get(CORPUS) == corpus]
    for alias, versions in (("best", scored), (f"best-{_allowed(corpus)}", of_corpus)):
        names = {each.name for each in versions}
        by_text: dict[str, list[ModelVersion]] = {}
        for version in sorted(versions, key=lambda each: each.creation_timestamp, reverse=True):
            by_text.setdefault(version.tags[SCORED_TEXT], []).append(version)
        newest = next((same for same in by_text.values() if {each.name for each in same} == names), [])
        for name in names if newest else ():
            rivals = [each for each in newest if each.name == name]
            best = min(rivals, key=lambda each: (float(each.tags[SCORE]), int(each.version)))
            client.set_registered_model_alias(name, alias, best.version)


def _allowed(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9_-]", "-", name)


# ---- download


def fetch(uri: str, into: Path) -> Path:
    """Download a model from MLflow's registry into the folder `into`, and return the folder of its weights.

    Raises:
        BukvaError: `uri` is invalid, the model is not registered, or MLflow cannot be reached.
    """
    if not NAME.fullmatch(uri):
        raise BukvaError(f"{uri} is not the URI of a registered model. Use models:/NAME@ALIAS or models:/NAME/VERSION.")
    if (path := database_path()) and not path.exists():  # connect would create an empty database
        raise BukvaError(
            f"The MLflow database {path} does not exist. Go to the folder of the project, or set MLFLOW_TRACKING_URI."
        )
    with errors_in_one_line():
        connect()  # connect also limits what MLflow prints
        from mlflow.artifacts import download_artifacts

        files = download_artifacts(f"{uri}/artifacts", None, None, str(into), tracking_uri(), tracking_uri())
        return next(path for path in sorted(Path(files).iterdir()) if path.is_dir())
