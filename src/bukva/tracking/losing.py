"""Runs in MLflow whose machine was lost: another machine takes them over, or they are ended.

A machine that is cut off goes on for a while, and so do its points in MLflow: some are later than the checkpoint from
which the next attempt continues. That attempt would log the same steps again, at other times, and MLflow would show
both. So it first puts the points of MLflow into its journal, with their times.
"""

import os
from pathlib import Path
from typing import TYPE_CHECKING

from bukva.tracking import entries
from bukva.tracking.continuing import logged_points
from bukva.tracking.reading import Journal, open_journal
from bukva.tracking.records import FILE, to_line
from bukva.tracking.store import Store, connect

if TYPE_CHECKING:
    from mlflow.entities import Run

ATTEMPT = "bukva.attempt"  # tag of a run that was taken over, and which attempt did
OWN_ATTEMPT = "BUKVA_ATTEMPT"  # environment variable of a worker of a cluster


def take_over(folder: Path, attempt: int) -> None:
    """Put the points that MLflow has of a journal into the journal, and keep earlier attempts out of its run.

    Raises:
        mlflow.exceptions.MlflowException: the store does not answer.
    """
    journal = open_journal(folder)
    if journal is None:
        return
    store = connect()
    for run in store.runs(journal.key):
        if run.data.tags.get("bukva.journal") == journal.id:
            _add_points(journal, store, run)
            tags = entries.run_tags({ATTEMPT: str(attempt), **entries.synced_tags(0)})
            store.client.log_batch(run.info.run_id, tags=tags)


def end_runs(experiment: str, commit: str) -> None:
    """End the runs of an experiment that are still running: only its machine could tell that it is gone.

    Raises:
        mlflow.exceptions.MlflowException: the store does not answer.
    """
    store = connect()
    for run in store.runs():
        tags = run.data.tags
        if (tags["bukva.experiment"], tags["bukva.commit"], run.info.status) == (experiment, commit, "RUNNING"):
            store.client.set_terminated(run.info.run_id, "KILLED")


def check_not_taken(store: Store, run_id: str) -> None:
    """Check that no later attempt has taken this run over.

    Raises:
        ValueError: one has.
    """
    if own := os.environ.get(OWN_ATTEMPT):
        latest = int(store.client.get_run(run_id).data.tags.get(ATTEMPT, 0))
        if latest > int(own):
            raise ValueError(f"attempt {latest} of this training has taken over; this is attempt {own}")


def _add_points(journal: Journal, store: Store, run: "Run") -> None:
    known = logged_points(journal.read()[0])
    missing = [
        (point.timestamp, point.step, name, point.value)
        for name in run.data.metrics
        if not entries.is_derived(name, run.data.metrics)
        for point in store.client.get_metric_history(run.info.run_id, name)
        if (name, point.step) not in known
    ]
    with (journal.folder / FILE).open("ab") as file:
        file.write(b"\n")  # ends a line that was copied while it was written
        for at, step, name, value in sorted(missing):
            file.write(to_line("metrics", at, step=step, values={name: value}))
