"""The last stage: completes MLflow, also with stages that DVC restored instead of running.

A stage that DVC takes from its run cache is not executed and keeps no journal, so its journal is written from its
outputs.
"""

import csv
import math
import subprocess
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from bukva.config.schema import Params
from bukva.core.files import write_json
from bukva.project.lock import LOCK, recorded
from bukva.project.stages import recorded_stages, trained_models
from bukva.tracking import background
from bukva.tracking.address import explain
from bukva.tracking.experiment import Experiment, baseline, git, this_experiment
from bukva.tracking.lineage import FILE as LINEAGE
from bukva.tracking.lineage import lineage, lineage_tags
from bukva.tracking.models.scores import STAGE as SCORES
from bukva.tracking.notes import add_section, annotate, attach
from bukva.tracking.reading import Journal, has_present_files, read_journals
from bukva.tracking.writing import Log

SHOWN = ("reports/", "data/models/")  # the outputs that are of use in MLflow; texts and ids are only in DVC
SYNC_SECONDS = 60


def publish(params: Params, tags: Mapping[str, str], describe: Callable[[str], Mapping[str, str]]) -> None:
    """Write the missing journals of this experiment, fill MLflow, and print the result in one sentence.

    Args:
        params: of this experiment.
        tags: for the run of the whole experiment.
        describe: baseline -> sections of its description, by their titles.

    Never raises: an error of the tracker must not fail an experiment whose results are complete.
    """
    try:
        experiment = this_experiment(params)
        missing = _without_journal(experiment)
        for stage, entry in missing.items():
            _write_journal(stage, entry, params)
        annotate(experiment.name, tags, experiment.key)
        _attach_lineage(experiment)
        for title, markdown in describe(experiment.commit).items():
            add_section(experiment.name, title, markdown, experiment.key)
        restored = f" Restored by DVC: {', '.join(missing)}." if missing else ""
        print(_fill(experiment) + restored)
    except Exception as error:  # dvc.lock and journals may contain anything
        print(f"MLflow lacks something of this experiment. {explain(error)}")


def _without_journal(experiment: Experiment) -> dict[str, Any]:
    """The stages whose outputs no journal of this experiment describes, with their entries in dvc.lock."""
    entries = recorded(LOCK.read_text(encoding="utf-8"))
    before = recorded(git("show", f"{baseline()}:./{LOCK}") or "")
    journals = [journal for journal in read_journals(experiment.name) if journal.key == experiment.key]
    own = {stage for stage, entry in entries.items() if entry != before.get(stage)}
    if any(journal.start["kind"] == "training" for journal in journals):
        own.add(SCORES)  # also where the training has made the same model again: MLflow registers what has a score
    return {
        stage: entries[stage]
        for stage in recorded_stages()
        if stage in entries and not _needs_none(stage, journals, unchanged=stage not in own)
    }


def _needs_none(stage: str, journals: list[Journal], *, unchanged: bool) -> bool:
    """Whether a stage needs no journal.

    A stage without one needs none if it is unchanged since the baseline: it is not part of this experiment. A stage
    with one needs none if that describes the present files: after an edit is undone, DVC restores the former ones.
    """
    finished = [
        journal for journal in journals if journal.start["stage"] == stage and journal.status()[0] == "FINISHED"
    ]
    return has_present_files(finished[-1]) if finished else unchanged


def _attach_lineage(experiment: Experiment) -> None:
    content = lineage(experiment.commit)
    annotate(experiment.name, lineage_tags(content), experiment.key)
    with tempfile.TemporaryDirectory(prefix="bukva-") as folder:
        write_json(Path(folder) / LINEAGE, content)
        attach(experiment.name, experiment.key, Path(folder) / LINEAGE)


def _write_journal(stage: str, entry: dict[str, Any], params: Params) -> None:
    log = Log(stage, params, restored=True)
    models = [model for model in trained_models().values() if model.stage == stage]
    for out in entry.get("outs", []):
        path = Path(out["path"])
        if out["path"].startswith(SHOWN) and path.exists() and path not in [model.folder for model in models]:
            log.artifact(path)
    for model in models:
        if model.folder.exists():
            log.model(model.name, model.folder)
        if model.curve.exists():
            _log_curve(log, model.curve)
    log.end("FINISHED", "Restored by DVC from its run cache; the times are those of the restore.")


def _log_curve(log: Log, curve: Path) -> None:
    best = math.inf
    with curve.open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            values = {name: float(cell) for name, cell in row.items() if cell and name != "step"}
            if "val_nats_per_char" in values:
                best = min(best, values["val_nats_per_char"])
                values["best_val_nats_per_char"] = best
            log.metrics(values, int(row["step"]))


def _fill(experiment: Experiment) -> str:
    process = background.start("sync", "--experiment", experiment.name)
    try:
        if process.wait(SYNC_SECONDS) == 0:
            return f"MLflow has experiment {experiment.name}; bukva ui shows it."
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    return f"MLflow lacks something of {experiment.name}; {background.REMEDY}"
