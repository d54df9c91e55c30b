"""Stage publish: send an experiment to MLflow, including stages that DVC did not run.

If the outputs of a stage are in DVC's run cache, DVC restores the outputs and does not run the stage. Such a stage
writes no journal, the local file whose content is sent to MLflow. So this module writes the journal from the outputs.
MLflow also receives dvc.lock, which contains the digests of all inputs and outputs.
"""

import csv
import math
from pathlib import Path

from bukva.config.schema import Params
from bukva.core.files import sha256
from bukva.core.processes import fails_within, start_detached
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

    Journals are local files with the results of stages. If stages of this experiment were restored by DVC and have no
    journal, their journals are written first.

    No error is raised, because a tracking error must not fail an experiment whose results are complete.
    """
    try:
        experiment, lock = this_experiment(params), read_lock()
        missing = [stage for stage in recorded_stages() if stage in lock and _needs_journal(stage, lock, experiment)]
        for stage in missing:
            _write_journal(stage, lock[stage], params)
        save_note(experiment.name, {}, {LOCK: Path(LOCK).read_bytes()}, experiment.key)
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
    """Return whether a journal (a file with results for MLflow) must be written for the current outputs of a stage.

    A stage with a finished journal needs a new one if the files in the journal differ from the files in the checkout.
    This happens after an edit is undone, because DVC then restores earlier outputs.

    A stage without a finished journal needs one if its entries in dvc.lock and in the dvc.lock of the baseline differ.
    The baseline is the experiment or commit from which this experiment started. If both entries are equal, the stage is
    not part of this experiment. Stage evaluate also needs a journal if the experiment trained a model, because MLflow
    registers only models that have a score.
    """
    journals = read_journals(experiment.name, experiment.key)
    finished = [each for each in journals if each.start["stage"] == stage and each.status()[0] == "FINISHED"]
    if finished:
        return not _has_present_files(finished[-1])
    before = lock_of_baseline(baseline())
    is_scored = stage == SCORES[0] and any(each.start["kind"] == "training" for each in journals)
    return is_scored or lock[stage] != before.get(stage)


def _has_present_files(journal: Journal) -> bool:
    """Return whether the artifacts of a journal equal the files in the checkout.

    Artifacts whose files do not exist in the checkout are skipped.
    """
    return all(
        _digests(journal.folder / ARTIFACTS / event["path"]) == _digests(Path(event["source"]))
        for event in journal.read()[0]
        if event.get("source") and Path(event["source"]).exists()
    )


def _digests(path: Path) -> dict[Path, str]:
    """Return the SHA-256 of each file in the folder `path`, by relative path.

    If `path` is a file, return its SHA-256 with the key `.`.
    """
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
