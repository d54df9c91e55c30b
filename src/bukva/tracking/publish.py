"""Stage publish: send an experiment to MLflow, including stages that DVC restored from its run cache.

A restored stage does not run, so it writes no journal. Its journal is written here from its outputs. MLflow also gets
dvc.lock, which contains the digests of all inputs and outputs.
"""

import csv
import math
from pathlib import Path

from bukva.core.files import sha256
from bukva.core.processes import fails_within, start_detached
from bukva.core.schema import Params
from bukva.project.baseline import lock_of_baseline
from bukva.project.lock import LOCK, StageRecord, StageRecords, read_lock
from bukva.project.stages import recorded_stages, trained_models
from bukva.tracking.experiment import Experiment, baseline, this_experiment
from bukva.tracking.journal import ARTIFACTS, REMEDY, Journal, JournalWriter, read_journals, save_note
from bukva.tracking.store import explain
from bukva.tracking.sync import SCORES

SHOWN = ("reports/", "data/models/")  # outputs that are useful in MLflow; texts and ids stay in DVC
SYNC_SECONDS = 60


def publish(params: Params) -> None:
    """Send all journals to MLflow, and print whether this succeeded.

    No error is raised, because a tracking error must not fail an experiment whose results are complete.
    """
    try:
        experiment, lock = this_experiment(params), read_lock()
        missing = [stage for stage in recorded_stages() if stage in lock and _needs_journal(stage, lock, experiment)]
        for stage in missing:
            _write_journal(stage, lock[stage], params)
        for made in read_journals(experiment.name, experiment.key)[-1:]:
            save_note(made, {}, {LOCK: Path(LOCK).read_bytes()})
        restored = f" Restored by DVC: {', '.join(missing)}." if missing else ""
        if fails_within(start_detached("bukva.tracking.sync"), SYNC_SECONDS):
            print(f"MLflow is missing results of {experiment.shown}. {REMEDY}{restored}")
        else:
            print(f"MLflow receives experiment {experiment.shown}. Run `bukva ui` to see it.{restored}")
        if experiment.edited:
            print(
                f"The code or text of this experiment differs from commit {experiment.commit[:7]}: "
                f"{', '.join(experiment.folders)}."
            )
    except Exception as error:  # a damaged dvc.lock or journal can cause any exception
        print(f"MLflow is missing results of this experiment, because stage publish failed ({explain(error)}).")


def _needs_journal(stage: str, lock: StageRecords, experiment: Experiment) -> bool:
    """Return whether the current outputs of a stage have no journal, and differ from those of the baseline."""
    journals = read_journals(experiment.name, experiment.key)
    finished = [each for each in journals if each.start["stage"] == stage and each.status()[0] == "FINISHED"]
    if finished:
        return not _has_present_files(finished[-1])
    before = lock_of_baseline(baseline())
    is_scored = stage == SCORES[0] and any(each.start["kind"] == "training" for each in journals)
    return is_scored or lock[stage] != before.get(stage)


def _has_present_files(journal: Journal) -> bool:
    """Return whether the artifacts of a journal equal the files in the checkout."""
    return all(
        _digests(journal.folder / ARTIFACTS / event["path"]) == _digests(Path(event["source"]))
        for event in journal.read()[0]
        if event.get("source") and Path(event["source"]).exists()
    )


def _digests(path: Path) -> dict[Path, str]:
    return {file.relative_to(path): sha256(file) for file in [path, *path.rglob("*")] if file.is_file()}


def _write_journal(stage: str, entry: StageRecord, params: Params) -> None:
    log = JournalWriter(stage, params, restored=True)
    models = {model.folder: model.name for model in trained_models().values()}
    curves = [model.curve for model in trained_models().values()]
    for path in filter(Path.exists, map(Path, entry.outs)):
        if path in models:
            log.model(models[path], path)
        elif path.as_posix().startswith(SHOWN):
            log.artifact(path)
        if path in curves:
            _log_curve(log, path)
    log.end("FINISHED", "Restored by DVC from its run cache. All times are the times of the restore.")


def _log_curve(log: JournalWriter, curve: Path) -> None:
    best = math.inf
    with curve.open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            values = {name: float(cell) for name, cell in row.items() if cell and name != "step"}
            if "val_nats_per_char" in values:
                best = min(best, values["val_nats_per_char"])
                values["best_val_nats_per_char"] = best
            log.metrics(values, int(row["step"]))
