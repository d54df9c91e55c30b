"""Trained models in an MLflow store: logged with the run of their training, and later with their scores.

Each step looks first for what the store has, so that a process that was stopped between two of them is completed by the
next one, and nothing is there twice.
"""

import re
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from bukva.core.files import read_json, sha256
from bukva.tracking import entries
from bukva.tracking.models.registry import SCORED_ON, Registry
from bukva.tracking.models.saving import kept_folder, save
from bukva.tracking.models.scores import Scored
from bukva.tracking.reading import Journal
from bukva.tracking.records import Record

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities import LoggedModel, Metric

WEIGHTS = "best.safetensors"


class Models:
    """The models of one store."""

    def __init__(self, client: "MlflowClient", experiment_id: str) -> None:
        self._client, self._experiment = client, experiment_id
        self._registry = Registry(client)

    def log(self, journal: Journal, record: Record, run_id: str) -> None:
        """Give the run of a training its model, if the store does not have it.

        record: kind "model" (writing.py).
        """
        from mlflow.entities import LoggedModelOutput, LoggedModelStatus

        kept = kept_folder(journal, record)
        digest = sha256(kept / WEIGHTS)
        model = next((known for known in self._of_run(run_id) if known.tags.get("bukva.weights") == digest), None)
        if model is None:
            model = self._create(journal, record, run_id, {"bukva.weights": digest, **_arithmetic(kept)})
        if model.model_id not in self._outputs_of(run_id):
            self._client.log_outputs(run_id, [LoggedModelOutput(model.model_id, step=0)])
        if model.status != LoggedModelStatus.READY:
            with tempfile.TemporaryDirectory(prefix="bukva-") as folder:
                save(Path(folder) / "model", journal, record, model)
                self._client.log_model_artifacts(model.model_id, str(Path(folder) / "model"))
            self._client.finalize_logged_model(model.model_id, LoggedModelStatus.READY)

    def score(self, journal: Journal, name: str, scored: Scored) -> None:
        """Give a model its scores, and register it.

        journal: of stage evaluate. Does nothing if the store has no model of its experiment: then its training is part
            of another one.
        """
        from mlflow.entities import LoggedModelStatus

        model = self._of_experiment(journal.key, name)
        if model is None or model.source_run_id is None or model.status != LoggedModelStatus.READY:
            return
        self._client.log_batch(model.source_run_id, _metrics(model, name, scored))
        if SCORED_ON in scored.bits:
            self._registry.add(model, name, journal.start, scored.bits[SCORED_ON])

    def _create(self, journal: Journal, record: Record, run_id: str, tags: dict[str, str]) -> "LoggedModel":
        return self._client.create_logged_model(
            self._experiment,
            _logged_name(journal.start["experiment"], record["name"]),
            run_id,
            tags={
                "bukva.model": record["name"],
                "bukva.experiment": journal.start["experiment"],
                "bukva.key": journal.key,
                "bukva.commit": journal.start["commit"],
                **tags,
            },
            params={param.key: param.value for param in entries.own_params([journal.start])},
            model_type=record["name"],
        )

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


def _metrics(model: "LoggedModel", name: str, scored: Scored) -> list["Metric"]:
    """The scores of a model, each with the split that it was scored on."""
    from mlflow.entities import Metric

    unknown = None, None
    return [
        Metric(
            f"{name}.{split}",  # as in metrics.json; val_bits_per_char is a curve of the training
            bits,
            scored.at,
            0,
            model_id=model.model_id,
            dataset_name=scored.datasets.get(split, unknown)[0],
            dataset_digest=scored.datasets.get(split, unknown)[1],
            run_id=model.source_run_id,
        )
        for split, bits in scored.bits.items()
    ]


def _arithmetic(kept: Path) -> dict[str, str]:
    return {f"bukva.{name}": text for name, text in read_json(kept / "numerics.json").items()}


def _logged_name(experiment: str, model: str) -> str:
    """MLflow lists models by name; it does not allow all characters that a name in git may have."""
    return f"{re.sub(r'[^A-Za-z0-9_ -]', '-', experiment)}-{model}"
