"""Runs in MLflow whose machine was lost: another machine takes them over, or they are ended.

A machine that is cut off goes on for a while, and so do its points in MLflow: some are later than the checkpoint from
which the next attempt continues. That attempt would log the same steps again, at other times, and MLflow would show
both. So it first puts the points of MLflow into its journal, with their times.

python -m bukva.cluster.losing take-over FOLDER ATTEMPT, or end EXPERIMENT COMMIT
"""

import contextlib
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from bukva.core.errors import BukvaError
from bukva.core.processes import leave_running, start_detached
from bukva.tracking.journal import FILE, Journal, open_journal
from bukva.tracking.store import JOURNAL, Store, connect, errors_in_one_line
from bukva.tracking.sync import ATTEMPT, BITS, NATS, SYNCED

if TYPE_CHECKING:
    from mlflow.entities import Run


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
        if run.data.tags.get(JOURNAL) == journal.id:
            _add_points(journal, store, run)
            store.tag(run, {ATTEMPT: str(attempt), SYNCED: "0"})


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


def start_ending(experiment: str, commit: str) -> None:
    """Start end_runs in a process of its own, and do not wait. Never raises."""
    with contextlib.suppress(OSError):
        leave_running(start_detached("bukva.cluster.losing", "end", experiment, commit))


def _add_points(journal: Journal, store: Store, run: "Run") -> None:
    metrics = [event for event in journal.read()[0] if event["record"] == "metrics"]
    known = {(name, event["step"]) for event in metrics for name in event["values"]}
    derived = {name for name in run.data.metrics if name.replace(BITS, NATS) in run.data.metrics and BITS in name}
    missing = [
        (point.timestamp, point.step, name, point.value)
        for name in run.data.metrics.keys() - derived
        for point in store.client.get_metric_history(run.info.run_id, name)
        if (name, point.step) not in known
    ]
    with (journal.folder / FILE).open("a", encoding="utf-8") as file:
        file.write("\n")  # ends a line that was copied while it was written
        for at, step, name, value in sorted(missing):
            file.write(json.dumps({"record": "metrics", "at": at, "step": step, "values": {name: value}}) + "\n")


if __name__ == "__main__":
    try:
        with errors_in_one_line():
            if sys.argv[1] == "end":
                end_runs(*sys.argv[2:])
            else:
                take_over(Path(sys.argv[2]), int(sys.argv[3]))
    except BukvaError as error:
        sys.exit(str(error))
