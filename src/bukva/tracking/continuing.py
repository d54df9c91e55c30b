"""Continues the journal of an interrupted training, so that MLflow shows the training as one run."""

from bukva.core.files import write_json
from bukva.tracking.experiment import Experiment
from bukva.tracking.reading import Journal, new_folder, read_journals
from bukva.tracking.records import ADOPTED, Record, experiment_fields


def find_interrupted(experiment: Experiment, stage: str, training_id: str, resumes: bool) -> Journal | None:
    """The last journal of a training that can continue.

    That is one that was killed; in the same experiment also one that failed, on a full disk for example; and if there
    is a checkpoint, also one that finished, because it was then killed before DVC recorded its outputs.
    """
    for journal in reversed(read_journals()):
        if (journal.start["stage"], journal.start.get("training_id")) == (stage, training_id):
            status, is_ours = journal.status()[0], journal.key == experiment.key
            if status == "KILLED" or (status == "FAILED" and is_ours) or (status == "FINISHED" and resumes):
                return journal
    return None


def move_to(experiment: Experiment, journal: Journal) -> Journal:
    """Move an interrupted journal to the experiment that continues it: `dvc exp run` gives a new name each time."""
    if journal.key == experiment.key:
        return journal
    folder = new_folder(experiment.name, journal.start["stage"])
    journal.folder.rename(folder)
    fields = experiment_fields(experiment)
    write_json(folder / ADOPTED, fields)
    return Journal(folder, journal.start | fields)


def logged_points(records: list[Record]) -> set[tuple[str, int]]:
    """Name and step of each metric among the records."""
    return {(name, record["step"]) for record in records if record["record"] == "metrics" for name in record["values"]}


def seconds_logged(records: list[Record]) -> float:
    """How long an execution ran, all its parts together, each until its last record."""
    total, began, last = 0, 0, 0
    for record in records:
        if record["record"] in ("start", "resumed"):
            total, began = total + last - began, record["at"]
        last = record["at"]
    return (total + last - began) / 1000
