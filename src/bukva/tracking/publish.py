"""Stage publish: send an experiment to MLflow, including stages that DVC restored from its run cache.

A restored stage does not run, so it writes no journal. Its journal is written here from its outputs. MLflow also gets
dvc.lock, which contains the digests of all inputs and outputs.
"""

import csv
import math
import os
from pathlib import Path

from bukva.core.files import read_json, sha256
from bukva.core.processes import fails_within, start_detached
from bukva.core.schema import Params
from bukva.project.baseline import SCORED, lock_of_baseline
from bukva.project.lock import LOCK, StageRecord, parse_yaml, read_lock
from bukva.project.stages import paths, recorded_stages, trained_models
from bukva.tracking.experiment import this_experiment
from bukva.tracking.journal import ARTIFACTS, REMEDY, Journal, JournalWriter, read_journals, save_note, why_failed
from bukva.tracking.sync import LATER

SHOWN = ("reports/", "data/models/")  # outputs that are useful in MLflow; texts and ids stay in DVC
SYNC_SECONDS = 60
RESTORED = (
    "Restored by DVC from its run cache. All times are the times of the restore. The speed of a training and the norm "
    "of its gradient are only in the run of the stage that trained the model."
)


def publish(params: Params) -> None:
    """Send all journals to MLflow, and print whether this succeeded.

    No error is raised, because the results of the experiment are complete.
    """
    from dvc.utils.serialize import dumps_yaml

    try:
        experiment, records = this_experiment(params), read_lock()
        name, key, commit = experiment["experiment"], experiment["key"], experiment["commit"]
        journals, before = read_journals(name, key), lock_of_baseline(commit)
        restored = []
        for stage in [each for each in recorded_stages() if each in records]:
            finished = [each for each in journals if each.start["stage"] == stage and each.status()[0] == "FINISHED"]
            # a model that was trained again to the same bytes also needs its scores
            is_scored = stage == SCORED and any(each.start["kind"] == "training" for each in journals)
            is_new = is_scored or records[stage] != before.get(stage)
            if not _has_present_files(finished[-1]) if finished else is_new:
                _write_journal(stage, records[stage], params)
                restored.append(stage)
        for made in read_journals(name, key)[-1:]:
            text = Path(LOCK).read_text(encoding="utf-8")
            save_note(made, {}, {LOCK: dumps_yaml(parse_yaml(text)).encode()})  # without secrets in URLs
        note = f" Restored by DVC: {', '.join(restored)}." if restored else ""
        if os.environ.get(LATER):
            print(f"MLflow receives experiment {experiment['shown']} at the end of the sweep.{note}")
        elif fails_within(start_detached("bukva.tracking.sync"), SYNC_SECONDS):
            print(f"MLflow is missing results of {experiment['shown']}. {REMEDY}{note}")
        else:
            print(f"MLflow receives experiment {experiment['shown']}. Run `bukva ui` to see it.{note}")
        if edited := ", ".join(experiment["edited"]):
            print(f"The code or text of this experiment differs from commit {commit[:7]}: {edited}.")
    except Exception as error:  # a damaged dvc.lock or journal can cause any exception
        print(f"MLflow is missing results of this experiment, because stage publish failed ({why_failed(error)}).")


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
    about = Path(paths()["scores"]) / "about.json"
    described = read_json(about)["models"] if about.exists() else {}
    curves = [model.curve for model in trained_models().values()]
    for path in filter(Path.exists, map(Path, entry.outs)):
        if path in models:
            log.model(models[path], path)
            if known := described.get(models[path]):
                log.metrics({"n_parameters": known["parameters"]})
        elif path.as_posix().startswith(SHOWN):
            log.artifact(path)
        if path in curves:
            _log_curve(log, path)
    log.end("FINISHED", RESTORED)


def _log_curve(log: JournalWriter, curve: Path) -> None:
    best = math.inf
    with curve.open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            values = {name: float(cell) for name, cell in row.items() if cell and name != "step"}
            if "val_nats_per_char" in values:
                best = min(best, values["val_nats_per_char"])
                values["best_val_nats_per_char"] = best
            log.metrics(values, int(row["step"]))
