"""Upload trained models to MLflow, log their scores, register the scored models, and download registered models.

An uploaded model contains no pickle. Each step first checks what MLflow already has, so a later process completes an
interrupted upload, and nothing is stored twice.
"""

import contextlib
import json
import re
import shutil
import sqlite3
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

from bukva.core.errors import BukvaError
from bukva.core.files import read_json
from bukva.core.params import flatten
from bukva.core.schema import BITS, CONTINUATION, PROMPT, SETTINGS, TEXT
from bukva.project.baseline import SPLIT
from bukva.project.lock import digest
from bukva.project.stages import trained_models
from bukva.tracking.record import MAIN, REQUIREMENTS, Event, Run, code_archive
from bukva.tracking.store import KEY, PARENT, Store, connect, database_path, errors_in_one_line, tracking_uri

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities import LoggedModel
    from mlflow.entities import Run as MlflowRun
    from mlflow.entities.model_registry import ModelVersion
    from mlflow.models import ModelSignature

LEFT_OUT = "initial.safetensors"  # untrained weights, which are not needed to use a model
EXAMPLE = "\n"  # the prompt of the lecture notes
DESCRIPTION = (
    "Each version is the model of one scored experiment of bukva. The alias `best` points to the version with the "
    "fewest bits per character on val. It compares only scores on one text: the newest text on which every model was "
    "scored. `best-CORPUS` is the best version for one corpus. See docs/sharing.md for how to use a version."
)
VERSIONS = "mlflow.modelVersions"  # tag from which MLflow's page of a model reads its registered versions
SCORE, SCORED_TEXT, CORPUS = f"bukva.{SPLIT}_{BITS}", "bukva.text", "bukva.corpus"  # tags of a version
SCHEME = "models:"
NAME = re.compile(r"models:/[^/@]+(@[^/@]+|/\d+)")  # models:/NAME@ALIAS or models:/NAME/VERSION


# ---- log, score and register


def log_model(
    store: Store, run: Run, name: str, weights: Path, run_ids: Sequence[str], params: Mapping[str, str]
) -> None:
    """Upload a trained model from its folder, unless MLflow already has the complete model.

    run_ids: runs that will list the model as an output. The first one is the run of the training.
    """
    from mlflow.entities import LoggedModelOutput, LoggedModelStatus

    client = store.client
    tags = {f"bukva.{key}": text for key, text in read_json(weights / "numerics.json").items()}
    tags |= {"bukva.model": name, "bukva.experiment": run.experiment, KEY: run.key}
    logged = client.search_logged_models([store.experiment_id], f"source_run_id = '{run_ids[0]}'")
    title = f"{_allowed(run.experiment)}-{name}"
    model = next(iter(logged), None) or client.create_logged_model(
        store.experiment_id, title, run_ids[0], tags, params, model_type=name
    )
    if model.status == LoggedModelStatus.READY:
        return
    (weights / LEFT_OUT).unlink(missing_ok=True)
    with tempfile.TemporaryDirectory(prefix="bukva-") as folder:
        _save(Path(folder) / "model", weights, run, model)
        client.log_model_artifacts(model.model_id, str(Path(folder) / "model"))
    for run_id in run_ids:
        outputs = client.get_run(run_id).outputs
        if model.model_id not in [output.model_id for output in (outputs.model_outputs if outputs else ())]:
            client.log_outputs(run_id, [LoggedModelOutput(model.model_id, step=0)])
    client.finalize_logged_model(model.model_id, LoggedModelStatus.READY)


def _save(folder: Path, weights: Path, run: Run, model: "LoggedModel") -> None:
    import mlflow.pyfunc
    import pandas as pd
    from mlflow.models import Model

    code = folder.parent / "code"
    shutil.unpack_archive(code_archive(run.code), code)
    mlflow.pyfunc.save_model(
        folder,
        python_model=str(code / "bukva" / "serving" / "pyfunc.py"),
        artifacts={"model": str(weights)},
        code_paths=[str(code / "bukva")],
        pip_requirements=str(code / REQUIREMENTS),
        signature=_signature(run.params),
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


def send_scores(store: Store, run: Run, content: Event, at: int, run_id: str, parent: "MlflowRun") -> None:
    """Log the scores of stage evaluate to the runs of the stage and of the experiment, and to the trained models.

    Models with a score on val are also registered. Models that an earlier experiment trained are left out. `content` is
    that of metrics.json, and `at` its time in milliseconds since 1970.
    """
    scores, known = flatten(content), parent.data.metrics
    headline = [name for name in scores if name.startswith(f"{MAIN}.") or name.endswith((".val", ".test"))]
    store.log(run_id, [(name, value, at, 0) for name, value in scores.items()])
    store.log(parent.info.run_id, [(name, scores[name], at, 0) for name in headline if known.get(name) != scores[name]])
    splits = {each["split"]: (each["name"], each["digest"]) for each in run.datasets}
    for name in content.keys() & trained_models().keys():
        if model := _newest(store, run, name, parent.info.run_id):
            # named as in metrics.json, because val_bits_per_char already names a curve of the training
            linked = [
                (f"{name}.{measure}", value, at, 0, model.model_id, *splits.get(measure, (None, None)))
                for measure, value in content[name].items()
            ]
            store.log(model.source_run_id, [(*point, model.source_run_id) for point in linked])
            if SPLIT in content[name]:
                _register(store.client, model, f"bukva-{name}", run, content[name][SPLIT])
    move_aliases(store.client, run.params["download.corpus"])


def _newest(store: Store, run: Run, name: str, parent_id: str) -> "LoggedModel | None":
    """Return the complete model that was trained last in the experiment, or None."""
    from mlflow.entities import LoggedModelStatus

    below = {each.info.run_id for each in store.runs(run.key).values() if each.data.tags.get(PARENT) == parent_id}
    logged = store.client.search_logged_models(
        [store.experiment_id],
        f"tags.`{KEY}` = '{run.key}' AND tags.`bukva.model` = '{name}'",
        order_by=[{"field_name": "creation_timestamp", "ascending": False}],
    )
    newest = next((each for each in logged if each.source_run_id in below), None)
    return newest if newest and newest.status == LoggedModelStatus.READY else None


def _register(client: "MlflowClient", model: "LoggedModel", name: str, run: Run, bits: float) -> None:
    """Add a scored model to MLflow's registry, unless the registry already has it."""
    corpus = run.params["download.corpus"]
    tags = {"bukva.experiment": run.experiment, SCORE: repr(bits), SCORED_TEXT: _text(run), CORPUS: corpus}
    # the commit does not contain edited code
    tags |= {"bukva.edited": run.edits} if run.edited else {"bukva.commit": run.commit}
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


def _text(run: Run) -> str:
    """Return a digest that identifies the text on which models were scored."""
    cleaned = sorted({each["text"] for each in run.datasets})
    return digest([cleaned, {key: value for key, value in run.params.items() if key.startswith("split.")}])


def move_aliases(client: "MlflowClient", corpus: str) -> None:
    """Set the aliases `best` and `best-CORPUS` of each registered model to the version with the best score.

    Each compares scores on the newest text (of this corpus) on which every registered model was scored. If there is
    none, it does not move.
    """
    registered = [each for name in trained_models() for each in client.search_model_versions(f"name = 'bukva-{name}'")]
    scored = [each for each in registered if SCORED_TEXT in each.tags]
    of_corpus = [each for each in scored if each.tags.get(CORPUS) == corpus]
    for alias, versions in (("best", scored), (f"best-{_allowed(corpus)}", of_corpus)):
        by_text: dict[str, dict[str, list[ModelVersion]]] = {}
        for each in sorted(versions, key=lambda each: each.creation_timestamp, reverse=True):
            by_text.setdefault(each.tags[SCORED_TEXT], {}).setdefault(each.name, []).append(each)
        n_models = len({each.name for each in versions})
        for name, rivals in next((same for same in by_text.values() if len(same) == n_models), {}).items():
            best = min(rivals, key=lambda each: (float(each.tags[SCORE]), int(each.version)))
            client.set_registered_model_alias(name, alias, best.version)


def _allowed(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9_-]", "-", name)


# ---- files of models


def lost_models() -> int:
    """Return the number of models in the SQLite database whose files are missing on this machine."""
    if not (path := database_path()):
        return 0
    query = "SELECT artifact_location FROM logged_models WHERE lifecycle_stage = 'active' AND status = 2"  # READY
    with contextlib.closing(sqlite3.connect(path)) as database:
        locations = [urlsplit(location) for (location,) in database.execute(query)]
    return sum(each.scheme == "file" and not Path(unquote(each.path)).exists() for each in locations)


def fetch(uri: str, into: Path) -> Path:
    """Download a model from MLflow's registry into the folder `into`, and return the folder of its weights.

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
