"""Send journals, the local files with the results of stages, to an MLflow store.

`python -m bukva.tracking.sync` sends all journals once. With the arguments `live FOLDER`, it sends the new events of a
running training at intervals until the training ends. FOLDER is the journal of this training.

Sending a journal twice adds nothing. Runs are identified by their tags. MLflow ignores a metric value if it already has
the same name, step, time and value. An artifact replaces an earlier artifact with the same name.

A tag of each run contains the number of bytes of the journal that were sent. So the next call completes a transfer that
was interrupted, or that failed because another machine sent the same journal at the same time.
"""

import contextlib
import json
import sys
import time
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bukva.config.load import flatten
from bukva.core.errors import BukvaError
from bukva.core.files import read_json, sha256
from bukva.core.words import count
from bukva.project.lock import digest
from bukva.project.stages import trained_models
from bukva.text.ids import bits
from bukva.tracking.journal import ARTIFACTS, TAGS, Event, Journal, open_journal, read_journals
from bukva.tracking.models import log_model, move_aliases, score_model
from bukva.tracking.store import (
    JOURNAL,
    KEY,
    Store,
    connect,
    errors_in_one_line,
    explain,
    lock,
    lost_models,
    store_name,
)

if TYPE_CHECKING:
    from mlflow.entities import DatasetInput, Metric, Run

ROUND_SECONDS = 10.0  # interval between transfers, long because the training needs the cores
# Interval between checks whether the stage has ended. It is short, because a stage waits for the last transfer.
PAUSE_SECONDS = 0.5
# Tags of a run: the number of bytes of the journal that were sent, and the digest of the notes that were sent.
SYNCED, NOTES = "bukva.synced", "bukva.notes"
# Tags of a run: its description, and the digest of the last description that bukva wrote.
DESCRIPTION, DESCRIBED = "mlflow.note.content", "bukva.described"
USES = {"train": "training", "val": "validation", "test": "test"}  # MLflow's names for the uses of the splits
NATS, BITS = "nats_per_char", "bits_per_char"
SCORES = "evaluate", "metrics.json"  # stage and artifact with the scores of all models, named as in DVC
# All results are sent to the run of the stage. These are also sent to the run of the experiment: the artifacts SAMPLES,
# the model MAIN with its metrics COMPARED, and the metrics LOSSES of the other models. There are no more metrics there,
# because MLflow draws a chart for each metric, and many charts would hide the important ones.
SAMPLES = ("train-gpt", "samples.txt"), ("sample", "samples.md")
MAIN, LOSSES = "gpt", ("train_bits_per_char", "val_bits_per_char")
SIZE = "n_parameters"  # becomes a tag, because MLflow would draw a chart of a metric
COMPARED = (
    *LOSSES, "train_nats_per_char", "val_nats_per_char", "chars_per_second",
)  # fmt: skip


def sync() -> str:
    """Send all journals, the local files with the results of stages, to MLflow. Return a summary for the user.

    Raises:
        BukvaError: some results could not be sent. The message gives the reasons without passwords.
    """
    if not (journals := read_journals()):
        return "There is nothing to send, because no stage has run in this checkout. Run `make repro`."
    with errors_in_one_line():
        store = connect()
        troubles = send_journals(store, journals)
        sent = _by_identity(store.runs())
        lost = lost_models()
    if troubles:
        raise BukvaError("\n".join(troubles))
    runs = [(sent.get(journal.id), sent.get(journal.key)) for journal in journals]
    deleted = sum(any(run and _is_deleted(run) for run in each) for each in runs)
    were_deleted = f"{deleted} that {'was' if deleted == 1 else 'were'} deleted there"
    restore = "To restore a run, run `mlflow runs restore --run-id ID`."
    summary = f", except for {were_deleted}. {restore}" if deleted else "."
    if lost:
        summary += (
            f"\nModels in MLflow without files: {lost}. To recreate the files, delete the database and run `bukva "
            "sync`. This also deletes your own edits in MLflow."
        )
    return f"{store_name()} has the results of {count(len(journals), 'stage execution')}{summary}"


def live(journal: Journal) -> bool:
    """Send the results of a training to MLflow at intervals until the training has ended, and once more after its end.

    Each error message is printed once.

    Args:
        journal: journal of the training. Other journals of the same experiment are also sent.

    Returns:
        True if everything was sent after the end of the training.
    """
    store, printed = None, set[str]()
    while True:
        # check this before reading the events, so that the last attempt reads all events
        size, is_running = journal.size(), journal.is_running()
        try:
            store = store or connect()
            troubles = send_journals(store, read_journals(journal.start["experiment"], journal.key))
        except Exception as error:
            store, troubles = None, [explain(error)]
        for trouble in set(troubles) - printed:
            _print_trouble(journal, trouble)
        printed.update(troubles)
        if not is_running:
            return not troubles
        again_at = time.monotonic() + ROUND_SECONDS
        while journal.is_running() and (time.monotonic() < again_at or (journal.size() == size and not troubles)):
            time.sleep(PAUSE_SECONDS)


def _print_trouble(journal: Journal, trouble: str) -> None:
    now, where = time.strftime("%Y-%m-%d %H:%M:%S"), store_name()
    with contextlib.suppress(OSError):  # the disk of the log may be full
        print(
            f"{now} {where} is missing results of {journal.id}: {trouble.rstrip('.')}. bukva retries while the stage "
            "runs. After that, run `bukva sync`.",
            flush=True,
        )


def send_journals(store: Store, journals: Sequence[Journal]) -> list[str]:
    """Send journals to an MLflow store.

    The notes of their experiments (tags and files that were added later) are also sent.

    Returns:
        A message for each folder that was not sent because its content is invalid.
    """
    keys, troubles = {journal.key for journal in journals}, list[str]()
    key = keys.pop() if len(keys) == 1 else ""
    sent = _by_identity(store.runs(key))
    for journal in journals:
        if not _is_complete(sent.get(journal.id), journal):
            with lock(), _errors_collected(journal.folder, troubles):
                _send(store, journal)
    sent = _by_identity(store.runs(key))
    for notes, parent in {journal.notes: sent.get(journal.key) for journal in journals}.items():
        if parent and not _is_deleted(parent) and (unsent := _unsent_digest(notes, parent)):
            with _errors_collected(notes, troubles):
                store.client.log_artifacts(parent.info.run_id, str(notes / ARTIFACTS))
                store.tag(parent, read_json(notes / TAGS) | {NOTES: unsent})
    return troubles


def _by_identity(runs: Iterable["Run"]) -> dict[str, "Run"]:
    """Return the MLflow runs by identifier.

    The identifier is `Journal.id` for the run of a stage, and `Experiment.key` for the run of an experiment.
    """
    return {run.data.tags.get(JOURNAL, run.data.tags[KEY]): run for run in runs}


def _is_complete(run: "Run | None", journal: Journal) -> bool:
    """Return whether `run`, the MLflow run of a stage execution, has everything from its journal.

    Return True for a run that a user has deleted, so that the run is not created again. Return False if `run` is None.
    """
    if run is None or _is_deleted(run):
        return run is not None
    status = journal.status()[0]
    # a copied journal (bukva.sweep.transfer) has the status KILLED, although its stage may have finished elsewhere
    has_ended = status == "KILLED" and run.info.status != "RUNNING"
    return (run.info.status == status or has_ended) and not journal.read(_synced(run))[0]


def _is_deleted(run: "Run") -> bool:
    return bool(run.info.lifecycle_stage == "deleted")


def _synced(run: "Run") -> int:
    """Return the number of bytes of the journal that were already sent to an MLflow run."""
    return int(run.data.tags.get(SYNCED, 0))


def _unsent_digest(notes: Path, parent: "Run") -> str:
    """Return the digest of the notes of an experiment, or "" if MLflow already has these notes.

    notes: folder with the tags and files that were added to the experiment.
    parent: MLflow run of the experiment.
    """
    files = [file for file in sorted(notes.rglob("*")) if file.is_file() and not file.name.startswith(".")]
    current = digest([(str(file.relative_to(notes)), sha256(file)) for file in files]) if files else ""
    return "" if parent.data.tags.get(NOTES) == current else current


@contextlib.contextmanager
def _errors_collected(folder: Path, troubles: list[str]) -> Iterator[None]:
    """Append errors in the content of `folder` to `troubles` instead of raising them.

    Other folders can then still be sent. Errors of the MLflow store are raised.
    """
    from mlflow.exceptions import MlflowException

    try:
        yield
    except (KeyError, ValueError, MlflowException) as error:
        if isinstance(error, MlflowException) and error.error_code != "INVALID_PARAMETER_VALUE":
            raise
        troubles.append(f"{folder}: {explain(error)}")


# ---- one journal


def _send(store: Store, journal: Journal) -> None:
    """Send the new events of a journal to the MLflow run of its stage, and some also to the run of the experiment.

    Missing runs are created. If a user has deleted the run of the experiment, nothing is sent.
    """
    sent = _by_identity(store.runs(journal.key))
    parent = sent.get(journal.key) or store.create(journal.start)
    if _is_deleted(parent):
        return
    run = sent.get(journal.id) or store.create(journal.start, parent)
    status, ended_at = journal.status()  # read the status before the events: after the end, no event is added
    events, offset = journal.read(_synced(run))
    if _synced(run) == 0:
        _send_inputs(store, journal.start, parent, run)
    _send_points(store, journal.start, events, parent, run)
    _send_artifacts(store, journal, events, parent, run)
    for event in events:
        if event["record"] == "model":
            runs = [run, parent] if event["name"] == MAIN else [run]
            log_model(store.client, journal, event, runs, _params_of_stage(journal.start))
    _send_scores(store, journal, events, parent, run)
    store.set_status(run, status, ended_at)
    _update_parent(store, journal.start)
    if why := [event["note"] for event in events if event["record"] == "end" and event["note"]]:
        store.tag(run, {DESCRIPTION: why[0]})
    # set this tag last: after an interruption, the same events are sent again, which changes nothing
    store.tag(run, {SYNCED: str(offset)})


def _send_inputs(store: Store, start: Event, parent: "Run", run: "Run") -> None:
    """Send the parameters and datasets of a stage to MLflow.

    parent: run of the experiment. It gets all parameters, and the datasets of the stage.
    run: run of the stage. It gets the parameters and the datasets of the stage.
    """
    from mlflow.entities import Param

    datasets = [_dataset(split) for split in start["datasets"]]
    for each, params in ((parent, _as_text(start["params"])), (run, _params_of_stage(start))):
        store.client.log_batch(each.info.run_id, params=[Param(*item) for item in params.items()])
        if datasets:
            store.client.log_inputs(each.info.run_id, datasets)


def _send_points(store: Store, start: Event, events: Sequence[Event], parent: "Run", run: "Run") -> None:
    """Send metric values to MLflow.

    run: run of the stage. It gets all values in `events`.
    parent: run of the experiment. It gets the values that `_compared` selects.
    """
    points = _points(events)
    store.log_points(run, points)
    if sizes := [event["values"][SIZE] for event in events if SIZE in event.get("values", {})]:
        for each in (run, parent) if start["stage"] == f"train-{MAIN}" else (run,):
            store.tag(each, {f"bukva.{SIZE}": f"{sizes[-1]:.0f}"})
    if not _is_second(store, start, run):
        store.log_points(parent, _new_points(store, parent, _compared(points, start)))


def _is_second(store: Store, start: Event, run: "Run") -> bool:
    """Return whether an earlier execution of this stage has finished, so that the experiment has its curve."""
    same = [each for each in store.runs(start["key"]) if each.data.tags.get("bukva.stage") == start["stage"]]
    return any(
        each.info.status == "FINISHED" and (each.info.start_time, each.info.run_id) < (start["at"], run.info.run_id)
        for each in same
    )


def _send_artifacts(store: Store, journal: Journal, events: Iterable[Event], parent: "Run", run: "Run") -> None:
    """Send artifacts to MLflow. An artifact that was logged several times is sent once.

    run: run of the stage. It gets all artifacts in `events`.
    parent: run of the experiment. It gets the artifacts in SAMPLES.
    """
    for path in dict.fromkeys(event["path"] for event in events if event["record"] == "artifact"):
        for each in (run, parent) if (journal.start["stage"], path) in SAMPLES else (run,):
            store.client.log_artifact(each.info.run_id, str(journal.folder / ARTIFACTS / path))


def _send_scores(store: Store, journal: Journal, events: Iterable[Event], parent: "Run", run: "Run") -> None:
    """Send the scores of stage evaluate to both runs and to the registered models, if `events` contains these scores.

    parent: run of the experiment.
    run: run of the stage.
    """
    from mlflow.entities import Metric

    scored_at = [event["at"] for event in events if (journal.start["stage"], event.get("path")) == SCORES]
    if not scored_at:
        return
    content = read_json(journal.folder / ARTIFACTS / SCORES[1])
    scores = [Metric(name, value, scored_at[-1], 0) for name, value in flatten(content).items() if value is not None]
    store.log_points(run, scores)
    store.log_points(parent, _new_points(store, parent, scores))
    for name in content.keys() & trained_models().keys():
        values = {measure: value for measure, value in content[name].items() if isinstance(value, float)}
        score_model(store, journal, name, values, scored_at[-1])
    move_aliases(store.client, journal.start["params"]["download.corpus"])


def _new_points(store: Store, parent: "Run", points: Sequence["Metric"]) -> list["Metric"]:
    """Return the metric values that `parent`, the run of an experiment, does not have yet.

    A value is new if the latest value of the same metric at the same step is missing or different. Times are ignored: a
    stage that is executed again, resumed or restored logs the same curve with other times, and MLflow would add each
    value again.
    """
    names = {point.key for point in points}
    history = [point for name in names for point in store.client.get_metric_history(parent.info.run_id, name)]
    latest = {(point.key, point.step): point.value for point in sorted(history, key=lambda point: point.timestamp)}
    return [point for point in points if latest.get((point.key, point.step)) != point.value]


# ---- the run of an experiment, which is the parent of the runs of its stages


def _update_parent(store: Store, start: Event) -> None:
    """Update the status and the description of the MLflow run of an experiment.

    The new status is the status of the stage execution that started last, so an earlier killed execution has no
    effect. A description that a user has edited is kept.

    start: start event of any journal of the experiment.
    """
    runs = store.runs(start["key"])
    parent = _by_identity(runs)[start["key"]]
    newest = max((run for run in runs if JOURNAL in run.data.tags), key=lambda run: run.info.start_time)
    store.set_status(parent, newest.info.status, newest.info.end_time)
    text, tags = _description(start, runs, parent.data.metrics), parent.data.tags
    if tags.get(DESCRIBED, digest("")) == digest(tags.get(DESCRIPTION, "")):
        store.tag(parent, {DESCRIPTION: text, DESCRIBED: digest(text)})


def _description(start: Event, runs: Iterable["Run"], metrics: Mapping[str, float]) -> str:
    """Describe an experiment in Markdown.

    The text contains the changed parameters, the scores, and the trainings that ran or were restored by DVC.
    """
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


# ---- parameters, datasets and metrics in MLflow's types


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
    """Convert the description of a split to MLflow's type. `experiment.datasets` returns such descriptions."""
    from mlflow.entities import Dataset, DatasetInput, InputTag

    source, profile = json.dumps(split["source"]), json.dumps(split["profile"])
    dataset = Dataset(split["name"], split["digest"], "dvc", source, profile=profile)
    return DatasetInput(dataset, [InputTag("mlflow.data.context", USES[split["split"]])])


def _points(events: Iterable[Event]) -> list["Metric"]:
    """Return the values of all metrics in `events` except SIZE. Each value in nats per character is also in bits.

    Each value has the time of its event, so that MLflow recognizes a value that was already sent.
    """
    from mlflow.entities import Metric

    points: list[Metric] = []
    for event in events:
        values = {name: value for name, value in event.get("values", {}).items() if name != SIZE}
        in_bits = {name.replace(NATS, BITS): bits(value) for name, value in values.items() if name.endswith(NATS)}
        points += [Metric(name, value, event["at"], event["step"]) for name, value in (values | in_bits).items()]
    return points


def _compared(points: Iterable["Metric"], start: Event) -> list["Metric"]:
    """Select the metric values of a training that are also sent to the MLflow run of the experiment.

    The metrics of the model MAIN keep their names. The metrics of other models get a prefix, as in
    `bigram.val_bits_per_char`.
    """
    from mlflow.entities import Metric

    model = start["stage"].removeprefix("train-")  # other stages have no such metrics
    names = {name: name for name in COMPARED} if model == MAIN else {name: f"{model}.{name}" for name in LOSSES}
    return [Metric(names[each.key], each.value, each.timestamp, each.step) for each in points if each.key in names]


if __name__ == "__main__":
    warnings.simplefilter("ignore")  # warnings of other packages do not help users
    try:
        if len(sys.argv) == 1:
            print(sync())
        elif not (opened := open_journal(Path(sys.argv[2]))) or not live(opened):
            sys.exit(1)
    except BukvaError as error:
        sys.exit(str(error))
