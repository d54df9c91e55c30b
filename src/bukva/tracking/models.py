"""Trained models in MLflow: logged with the run of their training, scored, registered, and fetched to be used.

A model has code, weights, requirements, a signature and an example, and no pickle. Each step first looks up what the
store has. So the next process completes the work of one that was stopped, and nothing is stored twice.
"""

import json
import re
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bukva.config.schema import BITS, CONTINUATION, PROMPT, SETTINGS, TEXT
from bukva.core.errors import BukvaError
from bukva.core.files import read_json
from bukva.project.lock import digest
from bukva.project.stages import trained_models
from bukva.tracking.journal import ARTIFACTS, CODE, Event, Journal
from bukva.tracking.store import Store, connect, database_path, errors_in_one_line, tracking_uri

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities import LoggedModel, Run
    from mlflow.entities.model_registry import ModelVersion
    from mlflow.models import ModelSignature

LEFT_OUT = "initial.safetensors"  # the untrained weights, which no user of a model needs
EXAMPLE = "\n"  # the prompt of the lecture notes
SCORED_ON = "val"  # what `best` means
DESCRIPTION = (
    "A version for each experiment of bukva that was scored. Alias best: the fewest bits per character on val, among "
    "versions of the newest text on which every model was scored, so that all models have learned the same text. "
    "best-CORPUS: the same among the texts of one corpus. To use a version: docs/sharing.md."
)
VERSIONS = "mlflow.modelVersions"  # by which the page of a model finds its versions
SCORE, SCORED_TEXT, CORPUS = f"bukva.{SCORED_ON}_{BITS}", "bukva.text", "bukva.corpus"  # tags of a version
SCHEME = "models:"
NAME = re.compile(r"models:/[^/@]+(@[^/@]+|/\d+)")  # name, and alias or version


# ---- into the store


def log_model(
    client: "MlflowClient", journal: Journal, event: Event, runs: Sequence["Run"], params: dict[str, str]
) -> None:
    """Log the model of an event (journal.py), if the store does not have it.

    runs: the training, then other runs that show the model as an output.
    """
    from mlflow.entities import LoggedModelOutput, LoggedModelStatus

    run_id, place, name = runs[0].info.run_id, runs[0].info.experiment_id, event["name"]
    kept = journal.folder / ARTIFACTS / event["path"]
    tags = {"model": name, "experiment": journal.start["experiment"], "key": journal.key}
    tags = {f"bukva.{key}": text for key, text in (tags | read_json(kept / "numerics.json")).items()}
    title = f"{_plain(journal.start['experiment'])}-{name}"
    found = client.search_logged_models([place], f"source_run_id = '{run_id}'")
    model = found[0] if found else client.create_logged_model(place, title, run_id, tags, params, model_type=name)
    if model.status != LoggedModelStatus.READY:
        with tempfile.TemporaryDirectory(prefix="bukva-") as folder:
            _save(Path(folder) / "model", kept, journal, event, model)
            client.log_model_artifacts(model.model_id, str(Path(folder) / "model"))
        for each in [run.info.run_id for run in runs]:
            outputs = client.get_run(each).outputs
            if model.model_id not in [output.model_id for output in (outputs.model_outputs if outputs else ())]:
                client.log_outputs(each, [LoggedModelOutput(model.model_id, step=0)])
        client.finalize_logged_model(model.model_id, LoggedModelStatus.READY)


def _save(folder: Path, kept: Path, journal: Journal, event: Event, model: "LoggedModel") -> None:
    """Write a model from a journal to a new folder in MLflow's format; its parent gets copies of code and weights."""
    import mlflow.pyfunc
    import pandas as pd
    from mlflow.models import Model

    code, weights = folder.parent / "code", folder.parent / event["name"]
    shutil.unpack_archive(journal.folder / CODE, code)
    shutil.copytree(kept, weights, ignore=shutil.ignore_patterns(LEFT_OUT))  # MLflow refuses links
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
    """Return the signature: two columns, of which a row needs one, and the settings of section sample."""
    from mlflow.models import ModelSignature
    from mlflow.types import ColSpec, ParamSchema, ParamSpec, Schema

    return ModelSignature(
        inputs=Schema([ColSpec("string", name, required=False) for name in (PROMPT, TEXT)]),
        outputs=Schema([ColSpec("string", CONTINUATION, required=False), ColSpec("double", BITS, required=False)]),
        params=ParamSchema([ParamSpec(name, kind, params[f"sample.{name}"]) for name, kind in SETTINGS.items()]),
    )


def score_model(store: Store, journal: Journal, name: str, scores: Mapping[str, float], at: int) -> None:
    """Give a model (gpt or bigram) what stage evaluate measured, and register it.

    scores: bits per character by split, and `accuracy`.

    Does nothing if the store has no model of its experiment: then its training is part of another one.
    """
    from mlflow.entities import LoggedModelStatus, Metric

    found = store.client.search_logged_models(
        [store.experiment_id],
        f"tags.`bukva.key` = '{journal.key}' AND tags.`bukva.model` = '{name}'",
        order_by=[{"field_name": "creation_timestamp", "ascending": False}],
        max_results=1,
    )
    if not found or found[0].status != LoggedModelStatus.READY:
        return
    model = found[0]
    datasets = {each["split"]: (each["name"], each["digest"]) for each in journal.start["datasets"]}
    metrics = [  # named as in metrics.json: val_bits_per_char is a curve of the training
        Metric(f"{name}.{key}", value, at, 0, model.model_id, *datasets.get(key, (None, None)), model.source_run_id)
        for key, value in scores.items()
    ]
    store.client.log_batch(model.source_run_id, metrics)
    if SCORED_ON in scores:
        _register(store.client, model, f"bukva-{name}", journal.start, scores[SCORED_ON])


def _register(client: "MlflowClient", model: "LoggedModel", name: str, start: Event, bits: float) -> None:
    """Register a scored model, if it is not registered yet."""
    tags = {f"bukva.{key}": start[key] for key in ("experiment", "commit")}
    tags |= {SCORE: repr(bits), SCORED_TEXT: _text(start), CORPUS: start["params"]["download.corpus"]}
    this = f"name = '{name}'"
    known = next((each for each in client.search_model_versions(this) if each.source == model.artifact_location), None)
    if known is None:
        if not client.search_registered_models(this):
            client.create_registered_model(name, description=DESCRIPTION)
        place, run_id = model.artifact_location, model.source_run_id
        known = client.create_model_version(name, place, run_id, tags, model_id=model.model_id)
    for key, value in tags.items() - known.tags.items():  # scored again, by other code
        client.set_model_version_tag(name, known.version, key, value)
    if VERSIONS not in model.tags:  # an MLflow server notes this itself, a database does not
        noted = json.dumps([{"name": name, "version": int(known.version)}])
        client.set_logged_model_tags(model.model_id, {VERSIONS: noted})


def _text(start: Event) -> str:
    """Identify the text of the scores, by the cleaned text and its split. Scores on other texts are not comparable."""
    cleaned = sorted({each["text"] for each in start["datasets"] if each.get("text")})
    sections = ("split",) if cleaned else ("download", "clean", "split")  # journals of older versions have no digest
    params = {key: value for key, value in start["params"].items() if key.partition(".")[0] in sections}
    return digest([cleaned, params] if cleaned else params)


def move_aliases(client: "MlflowClient", corpus: str) -> None:
    """Point `best` and best-CORPUS of every registered model to its best version on one text.

    That is the newest text on which every model was scored. If there is none, the aliases stay where they are.
    """
    registered = [each for name in trained_models() for each in client.search_model_versions(f"name = 'bukva-{name}'")]
    scored = [each for each in registered if SCORED_TEXT in each.tags]
    of_corpus = [each for each in scored if each.tags.get(CORPUS) == corpus]
    for alias, versions in (("best", scored), (f"best-{_plain(corpus)}", of_corpus)):
        names = {each.name for each in versions}
        by_text: dict[str, list[ModelVersion]] = {}
        for version in sorted(versions, key=lambda each: each.creation_timestamp, reverse=True):
            by_text.setdefault(version.tags[SCORED_TEXT], []).append(version)
        newest = next((same for same in by_text.values() if {each.name for each in same} == names), [])
        for name in names if newest else ():
            rivals = [each for each in newest if each.name == name]
            best = min(rivals, key=lambda each: (float(each.tags[SCORE]), int(each.version)))
            client.set_registered_model_alias(name, alias, best.version)


def _plain(name: str) -> str:
    """Replace the characters that MLflow does not allow in a name."""
    return re.sub(r"[^A-Za-z0-9_-]", "-", name)


# ---- out of the store


def fetch(uri: str, into: Path) -> Path:
    """Copy the weights of a registered model (models:/NAME@ALIAS or models:/NAME/VERSION); return their folder.

    Raises:
        BukvaError: it is not registered, or MLflow cannot be reached.
    """
    if not NAME.fullmatch(uri):
        raise BukvaError(f"{uri}: not the name of a registered model; use models:/NAME@ALIAS or models:/NAME/VERSION.")
    if (path := database_path()) and not path.exists():  # rather than create one
        raise BukvaError(f"{path}: no MLflow is here; go to the folder of the project, or set MLFLOW_TRACKING_URI.")
    with errors_in_one_line():
        connect()  # which also sets what MLflow prints
        from mlflow.artifacts import download_artifacts

        files = download_artifacts(f"{uri}/artifacts", None, None, str(into), tracking_uri(), tracking_uri())
        return next(path for path in sorted(Path(files).iterdir()) if path.is_dir())
