"""Trained models in an MLflow store: logged with their run, registered once they have a score, the best under an alias.

A model carries all that it needs (package.py). Each step looks first for what the store has, so that a process that was
stopped between two of them is completed by the next one, and nothing is there twice.
"""

import hashlib
import json
import re
import shutil
import tempfile
import zipfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bukva.base.files import read_json, sha256
from bukva.tracking.reading import Journal
from bukva.tracking.records import CODE, Record
from bukva.tracking.store import with_second_look

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities import LoggedModel
    from mlflow.entities.model_registry import ModelVersion
    from mlflow.models import ModelSignature

WEIGHTS = "best.safetensors"
LEFT_OUT = ("initial.safetensors", "exact.safetensors")  # of no use to whoever writes with the model
SCORED_ON = "val"  # what `best` means
BEST = "best"
SETTINGS = {  # keys of section sample that a request may set, with MLflow's types
    "n_chars": "long",
    "temperature": "double",
    "top_k": "long",
    "top_p": "double",
    "seed": "long",
    "unknown": "string",
}
MAKES_THE_TEXT = ("download", "clean", "split")  # sections of params.yaml
BITS = "bits_per_char"
DESCRIPTION = (
    "A version for each experiment of bukva that was scored. Alias best: the fewest bits per character on val of the "
    "text that was registered last; best-CORPUS: on that corpus. To use one: docs/sharing.md."
)
VERSIONS = "mlflow.modelVersions"  # by which the page of a model finds its versions
EXAMPLE = "\n"  # the prompt of the lecture notes
SCORE, TEXT = f"bukva.{SCORED_ON}_{BITS}", "bukva.text"  # tags of a version


@dataclass(frozen=True)
class Scored:
    """The scores of a model: bits per character by split, and DVC's digest of the splits."""

    bits: Mapping[str, float]
    datasets: Mapping[str, tuple[str, str]]  # name and digest by split
    at: int


def registered_name(model: str) -> str:
    """What the registry calls the versions of a model: bukva-gpt, bukva-bigram."""
    return f"bukva-{model}"


class Models:
    """The models of one store."""

    def __init__(self, client: "MlflowClient", experiment_id: str) -> None:
        self._client, self._experiment = client, experiment_id

    def log(self, journal: Journal, record: Record, run_id: str) -> None:
        """Give the run of a training its model, if the store does not have it.

        record: kind "model" (writing.py).
        """
        from mlflow.entities import LoggedModelOutput, LoggedModelStatus

        kept = journal.folder / "artifacts" / record["path"]
        digest = sha256(kept / WEIGHTS)
        model = next((known for known in self._of_run(run_id) if known.tags.get("bukva.weights") == digest), None)
        if model is None:
            model = self._client.create_logged_model(
                self._experiment,
                _logged_name(journal.start["experiment"], record["name"]),
                run_id,
                tags={
                    "bukva.weights": digest,
                    "bukva.model": record["name"],
                    "bukva.experiment": journal.start["experiment"],
                    "bukva.key": journal.key,
                    "bukva.commit": journal.start["commit"],
                    **{f"bukva.{name}": text for name, text in read_json(kept / "numerics.json").items()},
                },
                params=_own_params(journal),
                model_type=record["name"],
            )
        if model.model_id not in self._outputs_of(run_id):
            self._client.log_outputs(run_id, [LoggedModelOutput(model.model_id, step=0)])
        if model.status != LoggedModelStatus.READY:
            with tempfile.TemporaryDirectory(prefix="bukva-") as folder:
                _save(Path(folder) / "model", journal, record, kept, model, run_id)
                self._client.log_model_artifacts(model.model_id, str(Path(folder) / "model"))
            self._client.finalize_logged_model(model.model_id, LoggedModelStatus.READY)

    def score(self, journal: Journal, name: str, scored: Scored) -> None:
        """Give a model its scores, register it, and move the aliases to the best.

        journal: of stage evaluate. Does nothing if the store has no model of its experiment: then its training is part
            of another one.
        """
        from mlflow.entities import LoggedModelStatus, Metric

        model = self._of_experiment(journal.key, name)
        if model is None or model.source_run_id is None or model.status != LoggedModelStatus.READY:
            return
        self._client.log_batch(
            model.source_run_id,
            [
                Metric(
                    f"{name}.{split}.{BITS}",  # as in metrics.json; val_bits_per_char is a curve of the training
                    bits,
                    scored.at,
                    0,
                    model_id=model.model_id,
                    dataset_name=scored.datasets.get(split, (None, None))[0],
                    dataset_digest=scored.datasets.get(split, (None, None))[1],
                    run_id=model.source_run_id,
                )
                for split, bits in scored.bits.items()
            ],
        )
        if SCORED_ON in scored.bits:
            version = self._register(model, registered_name(name), journal, scored.bits[SCORED_ON])
            self._point_to_best(version, str(journal.start["params"]["download.corpus"]))

    def _register(self, model: "LoggedModel", name: str, journal: Journal, bits: float) -> "ModelVersion":
        """The model's version in the registry, created if it is missing."""
        tags = {
            SCORE: repr(bits),
            TEXT: _text_of(journal),
            "bukva.experiment": journal.start["experiment"],
            "bukva.commit": journal.start["commit"],
        }
        corpus = journal.start["params"]["download.corpus"]
        description = f"{journal.start['experiment']}: {bits:.3f} bits per character on {SCORED_ON} of {corpus}"
        version = next((each for each in self._versions(name) if each.source == model.artifact_location), None)
        if version is None:
            self._create_registered_model(name)
            version = self._client.create_model_version(
                name,
                model.artifact_location,
                model.source_run_id,
                tags,
                description=description,
                model_id=model.model_id,
            )
        elif tags.items() - version.tags.items():  # scored again, by other code
            for key, text in tags.items():
                self._client.set_model_version_tag(name, version.version, key, text)
            self._client.update_model_version(name, version.version, description)
        if VERSIONS not in model.tags:  # an MLflow server notes this itself, a database does not
            noted = json.dumps([{"name": name, "version": int(version.version)}])
            self._client.set_logged_model_tags(model.model_id, {VERSIONS: noted})
        return self._client.get_model_version(name, version.version)

    def _create_registered_model(self, name: str) -> None:
        """Create the entry of the registry; if it is there, also from another machine a moment ago, take that."""
        from mlflow.exceptions import MlflowException

        try:
            self._client.create_registered_model(name, description=DESCRIPTION)
        except MlflowException as error:
            if error.error_code != "RESOURCE_ALREADY_EXISTS":
                raise

    def _point_to_best(self, version: "ModelVersion", corpus: str) -> None:
        """Let the aliases name the best version on the text of this one.

        Another machine may register meanwhile, so the versions are read again after each change.
        """
        aliases = (BEST, f"{BEST}-{re.sub(r'[^A-Za-z0-9_-]', '-', corpus)}")
        while True:
            rivals = [each for each in self._versions(version.name) if each.tags.get(TEXT) == version.tags[TEXT]]
            best = min(rivals, key=lambda each: (float(each.tags[SCORE]), int(each.version)))
            known = self._client.get_registered_model(version.name).aliases
            if all(str(known.get(alias)) == str(best.version) for alias in aliases):
                return
            for alias in aliases:
                with_second_look(partial(self._client.set_registered_model_alias, version.name, alias, best.version))

    def _versions(self, name: str) -> list["ModelVersion"]:
        found: list[ModelVersion] = []
        token: str | None = None
        while True:
            page = self._client.search_model_versions(f"name = '{name}'", page_token=token)
            found += page
            if not (token := page.token):
                return found

    def _of_run(self, run_id: str) -> list["LoggedModel"]:
        return list(self._client.search_logged_models([self._experiment], f"source_run_id = '{run_id}'"))

    def _of_experiment(self, key: str, name: str) -> "LoggedModel | None":
        found = self._client.search_logged_models(
            [self._experiment],
            f"tags.`bukva.key` = '{key}' AND tags.`bukva.model` = '{name}'",
            order_by=[{"field_name": "creation_timestamp", "ascending": False}],
            max_results=1,
        )
        return found[0] if found else None

    def _outputs_of(self, run_id: str) -> list[str]:
        outputs = self._client.get_run(run_id).outputs
        return [each.model_id for each in (outputs.model_outputs if outputs else None) or []]


def scores_in(journal: Journal, metrics: Path, models: Iterable[str], at: int) -> Iterator[tuple[str, Scored]]:
    """The scores of each model in metrics.json of stage evaluate."""
    content: Any = read_json(metrics)
    datasets = {each["split"]: (each["name"], each["digest"]) for each in journal.start.get("datasets", ())}
    for name in models:
        if name in content:
            yield name, Scored({split: value[BITS] for split, value in content[name].items()}, datasets, at)


def _save(folder: Path, journal: Journal, record: Record, kept: Path, model: "LoggedModel", run_id: str) -> None:
    """Write the model as MLflow reads it: code, weights, requirements, signature and an example; no pickle."""
    import mlflow.pyfunc
    import pandas as pd
    from mlflow.models import Model

    code, weights = folder.parent / "code", folder.parent / record["name"]
    with zipfile.ZipFile(journal.folder / CODE) as packed:
        packed.extractall(code)
    weights.mkdir()
    for file in kept.iterdir():
        if file.name not in LEFT_OUT:
            shutil.copyfile(file, weights / file.name)  # MLflow refuses links
    mlflow.pyfunc.save_model(
        folder,
        python_model=str(code / "bukva" / "serving" / "pyfunc.py"),
        artifacts={"model": str(weights)},
        code_paths=[str(code / "bukva")],
        pip_requirements=record["requirements"],
        signature=_signature(journal.start["params"]),
        input_example=(pd.DataFrame({"prompt": [EXAMPLE]}), {"n_chars": 20}),
        mlflow_model=Model(
            artifact_path=model.artifact_location, model_uuid=model.model_id, run_id=run_id, model_id=model.model_id
        ),
    )


def _signature(params: Mapping[str, Any]) -> "ModelSignature":
    """Two columns, of which a row needs one, and the settings of section sample as in the experiment."""
    from mlflow.models import ModelSignature
    from mlflow.types import ColSpec, ParamSchema, ParamSpec, Schema

    return ModelSignature(
        inputs=Schema([ColSpec("string", name, required=False) for name in ("prompt", "text")]),
        outputs=Schema([ColSpec("string", "continuation", required=False), ColSpec("double", BITS, required=False)]),
        params=ParamSchema([ParamSpec(name, kind, params[f"sample.{name}"]) for name, kind in SETTINGS.items()]),
    )


def _logged_name(experiment: str, model: str) -> str:
    """MLflow lists models by name; it does not allow all characters that a name in git may have."""
    return f"{re.sub(r'[^A-Za-z0-9_ -]', '-', experiment)}-{model}"


def _own_params(journal: Journal) -> dict[str, str]:
    """The parameters that the training reads, as text."""
    own = {
        key: value
        for key, value in journal.start["params"].items()
        if key.partition(".")[0] in journal.start["sections"]
    }
    return {key: value if isinstance(value, str) else json.dumps(value) for key, value in own.items()}


def _text_of(journal: Journal) -> str:
    """Equal for experiments whose texts are the same: scores on others cannot be compared."""
    made = {key: value for key, value in journal.start["params"].items() if key.partition(".")[0] in MAKES_THE_TEXT}
    return hashlib.sha256(json.dumps(made, sort_keys=True).encode()).hexdigest()[:16]
