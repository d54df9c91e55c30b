"""Stage publish: send an experiment to MLflow, including stages that DVC restored from its run cache.

A restored stage does not run, so its record is written here.
"""

import os
from pathlib import Path

from bukva.core.files import read_json
from bukva.core.processes import fails_within, start_detached
from bukva.core.schema import Params
from bukva.project.baseline import SCORED, lock_of_baseline
from bukva.project.lock import LOCK, parse_yaml, read_lock
from bukva.project.stages import paths, recorded_stages, trained_models
from bukva.tracking.experiment import this_experiment
from bukva.tracking.record import CURVE, REMEDY, Recorder, Run, explain, read_runs, save_note
from bukva.tracking.sync import LATER

SYNC_SECONDS = 60
RESTORED = (
    "Restored by DVC from its run cache. All times are the times of the restore. Only the points of a loss curve that "
    "was computed on this machine keep their times."
)


def publish(params: Params) -> None:
    """Send all runs to MLflow, and print whether this succeeded.

    No error is raised, because the results of the experiment are complete.
    """
    from dvc.utils.serialize import dumps_yaml

    try:
        experiment, lock, runs = this_experiment(params), read_lock(), read_runs()
        before, restored = lock_of_baseline(experiment.commit), []
        is_trained = any(run.key == experiment.key and run.kind == "training" for run in runs)
        for stage in [each for each in recorded_stages() if each in lock]:
            finished = [run for run in runs if run.stage == stage and run.state()[0]["status"] == "FINISHED"]
            # runs whose known outputs are all in the lock file
            made = [run for run in finished if run.state()[0]["outs"].items() <= lock[stage].outs.items()]
            own = [run for run in finished if run.key == experiment.key]
            # a model that was trained again to the same bytes also needs its scores
            is_new = lock[stage] != before.get(stage) or (stage == SCORED and is_trained)
            if own[-1] not in made if own else is_new:
                _write_record(stage, params, [run for run in made if not run.restored])
                restored.append(stage)
        for run in read_runs(experiment.experiment, experiment.key)[-1:]:
            text = Path(LOCK).read_text(encoding="utf-8")
            save_note(run, {}, {LOCK: dumps_yaml(parse_yaml(text)).encode()})  # without secrets in URLs
        note = f" Restored by DVC: {', '.join(restored)}." if restored else ""
        if os.environ.get(LATER):
            print(f"MLflow receives experiment {experiment.shown} at the end of the sweep.{note}")
        elif fails_within(start_detached("bukva.tracking.sync"), SYNC_SECONDS):
            print(f"MLflow is missing results of {experiment.shown}. {REMEDY}{note}")
        else:
            print(f"MLflow receives experiment {experiment.shown}. Run `bukva ui` to see it.{note}")
        if experiment.edited:
            commit = experiment.commit[:7]
            print(f"The code or text of this experiment differs from commit {commit}: {experiment.edits}.")
    except Exception as error:  # a damaged dvc.lock or record can cause any exception
        print(f"MLflow is missing results of this experiment, because stage publish failed ({explain(error)}).")


def _write_record(stage: str, params: Params, made: list[Run]) -> None:
    """Record a restored stage. `made`: the runs on this machine that made its outputs, oldest first."""
    n_parameters, curve = 0, ""
    if model := next((model for model in trained_models().values() if model.stage == stage), None):
        about = Path(paths()["scores"]) / "about.json"
        described = read_json(about)["models"] if about.exists() else {}
        n_parameters = described.get(model.name, {}).get("parameters", 0)
        curves = [*(run.folder / CURVE for run in made), model.curve]
        curve = next(file.read_text(encoding="utf-8") for file in curves if file.exists())
    log = Recorder(stage, params, restored=True, n_parameters=n_parameters)
    if curve:
        log.text(CURVE, curve)
    log.end("FINISHED", RESTORED)
