"""Read the MLflow store of a project."""

import json
import sqlite3
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from chaos.project import Project

VAL = "val_nats_per_char"  # metric with a point for each scoring of val

READ_ALL = """
import json, os, sys, warnings
warnings.simplefilter("ignore")
from mlflow import MlflowClient
client = MlflowClient(tracking_uri=f"sqlite:///{os.getcwd()}/mlflow.db")
experiment = client.get_experiment_by_name("bukva")
def files(run, path=None):
    for item in client.list_artifacts(run, path):
        yield from files(run, item.path) if item.is_dir else [item.path]
found = [
    {"name": run.info.run_name, "status": run.info.status, "tags": dict(run.data.tags), "params": dict(run.data.params),
     "metrics": dict(run.data.metrics), "artifacts": sorted(files(run.info.run_id)), "id": run.info.run_id,
     "parent": run.data.tags.get("mlflow.parentRunId"), "where": experiment.artifact_location,
     "models": [model.model_id for model in (run.outputs.model_outputs if run.outputs else [])],
     "points": {key: len(client.get_metric_history(run.info.run_id, key)) for key in run.data.metrics}}
    for run in client.search_runs([experiment.experiment_id])
]
print("RUNS" + json.dumps(found))
"""


def all_runs(project: "Project") -> list[dict[str, Any]]:
    """Return all runs, read with mlflow."""
    printed = project.run(sys.executable, "-c", READ_ALL, MLFLOW_DISABLE_TELEMETRY="true")
    runs: list[dict[str, Any]] = json.loads(printed.split("RUNS", 1)[1])
    return runs


def training_runs(folder: Path) -> list[dict[str, Any]]:
    """Return the runs of training stages, oldest first: name, status, tags, and the steps at which val was scored.

    `experiment`, `kind` and `stage` are the tags `bukva.experiment` and so on. The database is read without mlflow.
    """
    with _database(folder) as database:
        runs = database.execute("select run_uuid, name, status from runs order by start_time").fetchall()
        tags = database.execute("select run_uuid, key, value from tags where key like 'bukva.%'").fetchall()
        points = database.execute("select run_uuid, step from metrics where key = ? order by step", [VAL]).fetchall()
    found = [
        {"name": name, "status": status, "steps": [step for run, step in points if run == uuid]}
        | {key.removeprefix("bukva."): value for run, key, value in tags if run == uuid}
        for uuid, name, status in runs
    ]
    return [run for run in found if run.get("kind") == "training"]


def statuses(folder: Path) -> list[str]:
    """Return the statuses that occur among all runs."""
    with _database(folder) as database:
        return [status for (status,) in database.execute("select distinct status from runs order by status")]


def versions(folder: Path) -> list[tuple[str, int]]:
    """Return all registered versions as pairs of model name and version number."""
    with _database(folder) as database:
        return database.execute("select name, version from model_versions order by name, version").fetchall()


@contextmanager
def _database(folder: Path) -> Iterator[sqlite3.Connection]:
    # SQLite rolls back the unfinished writes of a killed process only if the database is opened for writing
    connection = sqlite3.connect(f"file:{folder / 'mlflow.db'}?mode=rw", uri=True, timeout=30)
    try:
        yield connection
    finally:
        connection.close()
