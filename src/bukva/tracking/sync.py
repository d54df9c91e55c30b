"""Send journals, the local files with the results of stages, to an MLflow store.

`python -m bukva.tracking.sync` sends all journals once. With the arguments `live FOLDER`, it sends those of the
experiment of a running training at intervals until the training ends.

Sending a journal twice adds nothing: runs are identified by their tags, MLflow ignores a metric value that it has with
the same name, step, time and value, and an artifact replaces an earlier one with the same name. A tag of each run
contains the number of bytes of its journal that were sent, so the next call completes a transfer that was interrupted.
"""

import contextlib
import json
import os
import sys
import time
import warnings
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bukva.core.errors import BukvaError
from bukva.core.files import read_json
from bukva.core.params import flatten
from bukva.core.words import count
from bukva.project.lock import digest
from bukva.project.stages import trained_models
from bukva.text.ids import bits
from bukva.tracking.journal import ARTIFACTS, NOTES, Event, Journal, open_journal, read_journals
from bukva.tracking.models import log_model, move_aliases, score_model
from bukva.tracking.store import KEY, Store, connect, errors_in_one_line, explain, lock, lost_models, store_name

if TYPE_CHECKING:
    from mlflow.entities import DatasetInput, Metric, Run

LATER = "BUKVA_SYNC_LATER"  # set where several machines would write to one SQLite database
ROUND_SECONDS = 10.0  # interval between transfers, long because the training needs the cores
# Interval between checks whether the stage has ended. It is short, because a stage waits for the last transfer.
PAUSE_SECONDS = 0.5
# Tags of a stage's run: `Journal.id`, and the number of bytes of the journal that were sent
JOURNAL, SYNCED = "bukva.journal", "bukva.synced"
# Tags of a run: its description, and of an experiment's run, the digest of the last description that bukva wrote
DESCRIPTION, DESCRIBED = "mlflow.note.content", "bukva.described"
USES = {"train": "training", "val": "validation", "test": "test"}  # MLflow's names for the uses of the splits
NATS, BITS = "nats_per_char", "bits_per_char"
SCORES = "evaluate", "metrics.json"  # stage and artifact with the scores of all models, named as in DVC
# The run of the stage gets everything. The run of the experiment also gets the scores, the artifacts SAMPLES, the model
# MAIN with its metrics COMPARED, and the metrics LOSSES of the other models. It has no more metrics, because MLflow
# draws a chart for each metric, and many charts would hide the important ones.
SAMPLES = ("train-gpt", "samples.txt"), ("sample", "samples.md")
MAIN, LOSSES = "gpt", ("train_bits_per_char", "val_bits_per_char")
COMPARED = *LOSSES, "train_nats_per_char", "val_nats_per_char", "chars_per_second"
SIZE = "n_parameters"  # becomes a tag, because MLflow would draw a chart of a metric


def sync() -> str:
    """Send all journals to MLflow. Return a summary for the user.

    Raises:
        BukvaError: some results could not be sent. The message gives the reasons without passwords.
    """
    if not (journals := read_journals()):
        return "There is nothing to send, because no stage has run in this checkout. Run `make repro`."
    with errors_in_one_line():
        store = connect()
        troubles = send_journals(store, journals)
        runs, lost = _by_identity(store.runs()), lost_models()
    if troubles:
        raise BukvaError("\n".join(troubles))
    summary = f"{store_name()} has the results of {count(len(journals), 'stage execution')}"
    if deleted := sum(_is_deleted(runs.get(journal.id)) or _is_deleted(runs.get(journal.key)) for journal in journals):
        summary += f", except for {deleted} that {'was' if deleted == 1 else 'were'} deleted there. To restore a run, "
        summary += "run `mlflow runs restore --run-id ID`"
    if lost:
        summary += (
            f".\nModels in MLflow without files: {lost}. To recreate the files, delete the database and run `bukva "
            "sync`. This also deletes your own edits in MLflow"
        )
    return f"{summary}."


def follow(journal: Journal) -> bool:
    """Send the results of a training and of its experiment at intervals until the training has ended.

    Each problem is printed once. Return whether everything was sent after the end.
    """
    store, printed = None, set[str]()
    while True:
        is_running = journal.is_running()  # checked first, so that the last attempt reads all events
        try:
            store = store or connect()
            troubles = send_journals(store, read_journals(journal.start["experiment"], journal.key))
        except Exception as error:
            store, troubles = None, [explain(error)]
        for trouble in set(troubles) - printed:
            with contextlib.suppress(OSError):  # the disk of the log may be full
                print(
                    f"{time.strftime('%Y-%m-%d %H:%M:%S')} {store_name()} is missing results of {journal.id}: "
                    f"{trouble.rstrip('.')}. bukva retries while the stage runs. After that, run `bukva sync`.",
                    flush=True,
                )
        printed.update(troubles)
        if not is_running:
            return not troubles
        again_at = time.monotonic() + ROUND_SECONDS
        while journal.is_running() and time.monotonic() < again_at:
            time.sleep(PAUSE_SECONDS)


def send_journals(store: Store, journals: Sequence[Journal]) -> list[str]:
    """Send journals. Return a message for each journal that was not sent, because its content is invalid."""
    from mlflow.exceptions import MlflowException

    keys, troubles = {journal.key for journal in journals}, list[str]()
    runs = _by_identity(store.runs(keys.pop() if len(keys) == 1 else ""))
    for journal in journals:
        if _is_complete(runs.get(journal.id), journal):
            continue
        try:
            with lock():
                _send(store, journal)
        except (KeyError, ValueError, MlflowException) as error:
            if isinstance(error, MlflowException) and error.error_code != "INVALID_PARAMETER_VALUE":
                raise
            troubles.append(f"{journal.folder}: {explain(error)}")
    return troubles


def _by_identity(runs: Iterable["Run"]) -> dict[str, "Run"]:
    """Return the runs of stages by `Journal.id`, and those of experiments by `Experiment.key`."""
    return {run.data.tags.get(JOURNAL, run.data.tags[KEY]): run for run in runs}


def _is_complete(run: "Run | None", journal: Journal) -> bool:
    """Return whether the MLflow run of a stage execution has everything from its journal."""
    if run is None or _is_deleted(run):
        return run is not None
    status = journal.status()[0]
    # in a copied project, a journal that was running has the status KILLED, although its stage may have finished
    has_ended = status == "KILLED" and run.info.status != "RUNNING"
    return (run.info.status == status or has_ended) and not journal.read(_synced(run))[0]


def _is_deleted(run: "Run | None") -> bool:
    return run is not None and run.info.lifecycle_stage == "deleted"


def _synced(run: "Run") -> int:
    return int(run.data.tags.get(SYNCED, 0))


# ---- one journal


def _send(store: Store, journal: Journal) -> None:
    """Send the new events of a journal to the run of its stage, and some also to the run of the experiment."""
    start, client = journal.start, store.client
    runs = _by_identity(store.runs(journal.key))
    parent = runs.get(journal.key) or _create(store, start)
    if _is_deleted(parent):
        return
    run = runs.get(journal.id) or _create(store, start, parent)
    status, ended_at = journal.status()  # read the status before the events: after the end, no event is added
    events, offset = journal.read(_synced(run))
    if not _synced(run):
        _send_inputs(store, start, parent, run)
    points = _points(events)
    client.log_batch(run.info.run_id, points)
    _send_curve(store, start, points, parent)
    if sizes := [event["values"][SIZE] for event in events if SIZE in event.get("values", {})]:
        for each in (run, parent) if start["stage"] == f"train-{MAIN}" else (run,):
            _tag(store, each, {f"bukva.{SIZE}": f"{sizes[-1]:.0f}"})
    for path in dict.fromkeys(event["path"] for event in events if event["record"] == "artifact"):
        for each in (run, parent) if (start["stage"], path) in SAMPLES else (run,):
            client.log_artifact(each.info.run_id, str(journal.folder / ARTIFACTS / path))
    for event in events:
        if event["record"] == "model":
            owners = [run, parent] if event["name"] == MAIN else [run]
            log_model(client, journal, event, owners, _params_of_stage(start))
    if scored_at := [event["at"] for event in events if (start["stage"], event.get("path")) == SCORES]:
        _send_scores(store, journal, scored_at[-1], parent, run)
    notes = [event for event in events if event["record"] == "note"]
    if any(note["files"] for note in notes):
        client.log_artifacts(parent.info.run_id, str(journal.folder / NOTES))
    for note in notes:
        _tag(store, parent, note["tags"])
    _set_status(store, run, status, ended_at)
    _update_parent(store, start)
    if why := [event["note"] for event in events if event["record"] == "end" and event["note"]]:
        _tag(store, run, {DESCRIPTION: why[-1]})
    # set this tag last: after an interruption, the same events are sent again, which changes nothing
    _tag(store, run, {SYNCED: str(offset)})


def _create(store: Store, start: Event, parent: "Run | None" = None) -> "Run":
    """Create the run of a stage execution below the run of its experiment, or without `parent`, the latter."""
    tags = {
        "bukva.experiment": start["experiment"],
        KEY: start["key"],
        "bukva.commit": start["commit"],
        "mlflow.source.type": "LOCAL",
        "mlflow.source.name": "dvc.yaml",
        "mlflow.user": start["user"],
        "bukva.processor": start.get("processor", ""),  # missing in journals of older versions
    }
    if edited := start.get("edited"):  # the commit alone cannot produce the results
        tags["bukva.edited"] = ", ".join(edited)
    else:
        tags["mlflow.source.git.commit"] = start["commit"]
    name = start["label"]
    if parent:
        siblings = [run for run in store.runs(start["key"]) if run.data.tags.get("bukva.stage") == start["stage"]]
        number = f" {len(siblings) + 1}" if siblings else ""  # executed again, or on another machine
        name = f"{start.get('shown', start['experiment'])}/{start['stage']}{number}"
        tags |= {
            "bukva.stage": start["stage"],
            "bukva.kind": start["kind"],
            "bukva.restored": str(start["restored"]).lower(),
            JOURNAL: start["id"],
            "mlflow.parentRunId": parent.info.run_id,
        }
    return store.client.create_run(store.experiment_id, start["at"], tags, name)


def _send_inputs(store: Store, start: Event, parent: "Run", run: "Run") -> None:
    from mlflow.entities import Param

    datasets = [_dataset(split) for split in start["datasets"]]
    for each, params in ((parent, _as_text(start["params"])), (run, _params_of_stage(start))):
        store.client.log_batch(each.info.run_id, params=[Param(*item) for item in params.items()])
        if datasets:
            store.client.log_inputs(each.info.run_id, datasets)


def _send_scores(store: Store, journal: Journal, at: int, parent: "Run", run: "Run") -> None:
    """Send the scores of stage evaluate to both runs and to the logged and registered models."""
    from mlflow.entities import Metric

    content = read_json(journal.folder / ARTIFACTS / SCORES[1])
    scores = [Metric(name, value, at, 0) for name, value in flatten(content).items() if value is not None]
    known = parent.data.metrics
    store.client.log_batch(run.info.run_id, scores)
    store.client.log_batch(parent.info.run_id, [each for each in scores if known.get(each.key) != each.value])
    for name in content.keys() & trained_models().keys():
        values = {measure: value for measure, value in content[name].items() if isinstance(value, float)}
        score_model(store, journal, name, values, at)
    move_aliases(store.client, journal.start["params"]["download.corpus"])


def _points(events: Iterable[Event]) -> list["Metric"]:
    """Return the values of all metrics in `events` except SIZE, and losses also in bits."""
    from mlflow.entities import Metric

    points: list[Metric] = []
    for event in events:
        values = {name: value for name, value in event.get("values", {}).items() if name != SIZE}
        in_bits = {name.replace(NATS, BITS): bits(value) for name, value in values.items() if name.endswith(NATS)}
        points += [Metric(name, value, event["at"], event["step"]) for name, value in (values | in_bits).items()]
    return points


def _send_curve(store: Store, start: Event, points: Iterable["Metric"], parent: "Run") -> None:
    """Send the losses of a training to the run of the experiment, at steps at which it has none yet."""
    # So a training that is resumed, restored or executed again adds no second curve.
    from mlflow.entities import Metric

    model = start["stage"].removeprefix("train-")  # other stages have no such metrics
    names = {name: name for name in COMPARED} if model == MAIN else {name: f"{model}.{name}" for name in LOSSES}
    curve = [Metric(names[each.key], each.value, each.timestamp, each.step) for each in points if each.key in names]
    run_id = parent.info.run_id
    history = [
        point for name in {each.key for each in curve} for point in store.client.get_metric_history(run_id, name)
    ]
    known = {(point.key, point.step) for point in history}
    store.client.log_batch(run_id, [each for each in curve if (each.key, each.step) not in known])


def _set_status(store: Store, run: "Run", status: str, ended_at: int | None) -> None:
    if status == "RUNNING":
        store.client.update_run(run.info.run_id, status)
    else:
        store.client.set_terminated(run.info.run_id, status, ended_at)


def _tag(store: Store, run: "Run", tags: Mapping[str, str]) -> None:
    from mlflow.entities import RunTag

    store.client.log_batch(run.info.run_id, tags=[RunTag(name, text) for name, text in tags.items()])


def _update_parent(store: Store, start: Event) -> None:
    """Update the status of an experiment's run, and its description unless a user has edited it."""
    runs = store.runs(start["key"])
    parent = _by_identity(runs)[start["key"]]
    newest = max((run for run in runs if JOURNAL in run.data.tags), key=lambda run: run.info.start_time)
    _set_status(store, parent, newest.info.status, newest.info.end_time)
    text, tags = _description(start, runs, parent.data.metrics), parent.data.tags
    if tags.get(DESCRIBED, digest("")) == digest(tags.get(DESCRIPTION, "")):
        _tag(store, parent, {DESCRIPTION: text, DESCRIBED: digest(text)})


def _description(start: Event, runs: Iterable["Run"], metrics: Mapping[str, float]) -> str:
    """Describe an experiment in Markdown."""
    lines = list[str]()
    if start["commit"]:
        changed = ", ".join(f"`{each}`" for each in [*start["changed"], *start.get("edited", ())])
        commit = f"commit `{start['commit'][:7]}`"
        lines.append(f"Differs from {commit} in {changed}." if changed else f"Same parameters and code as {commit}.")
    scores = {model.label: metrics.get(f"{name}.val") for name, model in reversed(trained_models().items())}
    if texts := [f"{label} **{score:.3f}**" for label, score in scores.items() if score is not None]:
        lines.append(f"Scores on val, bits per character: {', '.join(texts)}.")
    for how, restored in (("Trained", "false"), ("Restored by DVC from its run cache", "true")):
        kind = {"bukva.kind": "training", "bukva.restored": restored}.items()
        made = [run for run in runs if run.data.tags.items() >= kind and run.info.status == "FINISHED"]
        stages = sorted({run.data.tags["bukva.stage"] for run in made})
        lines += [f"{how}: {', '.join(stages)}."] if stages else []
    return "  \n".join(lines)  # in Markdown, two spaces at the end of a line are a line break


# ---- parameters and datasets in MLflow's types


def _as_text(params: Mapping[str, Any]) -> dict[str, str]:
    return {
        name: value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        for name, value in params.items()
    }


def _params_of_stage(start: Event) -> dict[str, str]:
    """Return the parameters in the sections that a stage reads, as text by parameter name."""
    sections = start["sections"]
    return {name: text for name, text in _as_text(start["params"]).items() if name.partition(".")[0] in sections}


def _dataset(split: Mapping[str, Any]) -> "DatasetInput":
    from mlflow.entities import Dataset, DatasetInput, InputTag

    source, profile = json.dumps(split["source"]), json.dumps(split["profile"])
    dataset = Dataset(split["name"], split["digest"], "dvc", source, profile=profile)
    return DatasetInput(dataset, [InputTag("mlflow.data.context", USES[split["split"]])])


if __name__ == "__main__":
    if os.environ.get(LATER):
        sys.exit()
    warnings.simplefilter("ignore")  # warnings of other packages do not help users
    try:
        if len(sys.argv) == 1:
            print(sync())
        elif not (opened := open_journal(Path(sys.argv[2]))) or not follow(opened):
            sys.exit(1)
    except BukvaError as error:
        sys.exit(str(error))
