"""Sends journals to an MLflow store: `python -m bukva.tracking.sync` once, or `live FOLDER` during a training.

Sending twice adds nothing. Runs are found by their tags, MLflow ignores a point that has the same name, step, time and
value as another, and an artifact replaces the one of its name. A tag of each run says how many bytes of its journal the
store has. So the next call completes whatever was stopped, or failed because another machine did the same at that
moment.
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

ROUND_SECONDS = 10.0  # between two rounds during a training, which needs the cores
PAUSE_SECONDS = 0.5  # between two checks for the end of the stage, which waits for the last round
SYNCED, NOTES = "bukva.synced", "bukva.notes"  # tags: how many bytes of its journal a run has, and which notes
DESCRIPTION, DESCRIBED = "mlflow.note.content", "bukva.described"  # tags: the description, and the digest of our own
USES = {"train": "training", "val": "validation", "test": "test"}  # of a split, as MLflow calls them
NATS, BITS = "nats_per_char", "bits_per_char"
SCORES = "evaluate", "metrics.json"  # the stage and the artifact with the scores of all models, named as in DVC
# The run of a whole experiment also has SAMPLES, the model MAIN with its metrics COMPARED, and the LOSSES of other
# models as `bigram.val_bits_per_char`. MLflow draws a chart for each metric, and more charts would hide these.
SAMPLES = ("train-gpt", "samples.txt"), ("sample", "samples.md")
MAIN, LOSSES = "gpt", ("train_bits_per_char", "val_bits_per_char")
COMPARED = (
    *LOSSES, "train_nats_per_char", "val_nats_per_char", "best_val_bits_per_char", "chars_per_second", "n_parameters",
)  # fmt: skip


def sync() -> str:
    """Send all journals to MLflow; return a sentence about the result.

    Raises:
        BukvaError: some results are missing there, and why; without passwords.
    """
    if not (journals := read_journals()):
        return "No stage has run in this checkout yet, so there is nothing to send; run `make repro`."
    with errors_in_one_line():
        store = connect()
        troubles = fill(store, journals)
        shown = _by_identity(store.runs())
        lost = lost_models()
    if troubles:
        raise BukvaError("\n".join(troubles))
    runs = [(shown.get(journal.id), shown.get(journal.key)) for journal in journals]
    deleted = sum(any(run and _is_deleted(run) for run in each) for each in runs)
    restore = "To restore a run: mlflow runs restore --run-id ID"
    left_out = f", except for those deleted there: {deleted}. {restore}" if deleted else "."
    if lost:
        left_out += (
            f"\nModels whose files were removed: {lost}. To make them again, remove the database, with what you "
            "changed in MLflow, and run `bukva sync`."
        )
    return f"{store_name()} has all {len(journals)} stage executions{left_out}"


def live(journal: Journal) -> bool:
    """Send the experiment of a training to MLflow again and again, until that training has ended.

    Each error is printed once; the last try is made when the stage has ended. Returns whether MLflow has everything.
    """
    store, printed = None, set[str]()
    while True:
        size, is_running = journal.size(), journal.is_running()  # before reading, so that the last round reads all
        try:
            store = store or connect()
            troubles = fill(store, read_journals(journal.start["experiment"], journal.key))
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
    with contextlib.suppress(OSError):  # the log may be on the disk that is full
        print(
            f"{now} {where} is missing results of {journal.id}: {trouble.rstrip('.')}. It is tried again while the "
            "stage runs; then run `bukva sync`.",
            flush=True,
        )


def fill(store: Store, journals: Sequence[Journal]) -> list[str]:
    """Send journals and notes to a store; return a sentence for each journal that could not be shown."""
    keys, troubles = {journal.key for journal in journals}, list[str]()
    key = keys.pop() if len(keys) == 1 else ""
    shown = _by_identity(store.runs(key))
    for journal in journals:
        if not _has(shown.get(journal.id), journal):
            with lock(), _errors_collected(journal.folder, troubles):
                _send(store, journal)
    shown = _by_identity(store.runs(key))
    for notes, whole in {journal.notes: shown.get(journal.key) for journal in journals}.items():
        if whole and not _is_deleted(whole) and (unsent := _unsent(notes, whole)):
            with _errors_collected(notes, troubles):
                store.client.log_artifacts(whole.info.run_id, str(notes / ARTIFACTS))
                store.tag(whole, read_json(notes / TAGS) | {NOTES: unsent})
    return troubles


def _by_identity(runs: Iterable["Run"]) -> dict[str, "Run"]:
    """Return the runs of stages by the ids of their journals, and those of whole experiments by their keys."""
    return {run.data.tags.get(JOURNAL, run.data.tags[KEY]): run for run in runs}


def _has(run: "Run | None", journal: Journal) -> bool:
    """Whether the store has all of a journal, or a user deleted its run, which is then not created again."""
    if run is None or _is_deleted(run):
        return run is not None
    status = journal.status()[0]
    # A copy of a journal (bukva.sweep.transfer) looks like KILLED here, though its stage may have ended elsewhere.
    has_ended = status == "KILLED" and run.info.status != "RUNNING"
    return (run.info.status == status or has_ended) and not journal.read(_synced(run))[0]


def _is_deleted(run: "Run") -> bool:
    return bool(run.info.lifecycle_stage == "deleted")


def _synced(run: "Run") -> int:
    """Return how many bytes of its journal a run has."""
    return int(run.data.tags.get(SYNCED, 0))


def _unsent(notes: Path, whole: "Run") -> str:
    """Return the digest of the notes on an experiment if its run does not have all of them, else ""."""
    files = [file for file in sorted(notes.rglob("*")) if file.is_file() and not file.name.startswith(".")]
    current = digest([(str(file.relative_to(notes)), sha256(file)) for file in files]) if files else ""
    return "" if whole.data.tags.get(NOTES) == current else current


@contextlib.contextmanager
def _errors_collected(folder: Path, troubles: list[str]) -> Iterator[None]:
    """Add a sentence if a folder has invalid content, which must not stop the others; raise the errors of a store."""
    from mlflow.exceptions import MlflowException

    try:
        yield
    except (KeyError, ValueError, MlflowException) as error:
        if isinstance(error, MlflowException) and error.error_code != "INVALID_PARAMETER_VALUE":
            raise
        troubles.append(f"{folder}: {explain(error)}")


# ---- one journal


def _send(store: Store, journal: Journal) -> None:
    """Send the new events of a journal to the run of its stage, and some of them to the run of its experiment."""
    shown = _by_identity(store.runs(journal.key))
    whole = shown.get(journal.key) or store.create(journal.start)
    if _is_deleted(whole):
        return
    run = shown.get(journal.id) or store.create(journal.start, whole)
    status, ended_at = journal.status()  # before the events, because none follows an end
    events, offset = journal.read(_synced(run))
    if _synced(run) == 0:
        _send_inputs(store, journal.start, whole, run)
    _send_points(store, journal.start, events, whole, run)
    _send_artifacts(store, journal, events, whole, run)
    for event in events:
        if event["record"] == "model":
            runs = [run, whole] if event["name"] == MAIN else [run]
            log_model(store.client, journal, event, runs, _params_of_stage(journal.start))
    _send_scores(store, journal, events, whole, run)
    store.set_status(run, status, ended_at)
    _summarise(store, journal.start)
    if why := [event["note"] for event in events if event["record"] == "end" and event["note"]]:
        store.tag(run, {DESCRIPTION: why[0]})
    # last: a process that is stopped before this sends everything again, with the same result
    store.tag(run, {SYNCED: str(offset)})


def _send_inputs(store: Store, start: Event, whole: "Run", run: "Run") -> None:
    """Send the parameters, and the splits that the stage reads."""
    from mlflow.entities import Param

    datasets = [_dataset(split) for split in start["datasets"]]
    for each, params in ((whole, _as_text(start["params"])), (run, _params_of_stage(start))):
        store.client.log_batch(each.info.run_id, params=[Param(*item) for item in params.items()])
        if datasets:
            store.client.log_inputs(each.info.run_id, datasets)


def _send_points(store: Store, start: Event, events: Iterable[Event], whole: "Run", run: "Run") -> None:
    """Send points of metrics to the run of the stage, and the compared ones also to the run of its experiment."""
    points = _points(events)
    store.log_points(run, points)
    store.log_points(whole, _new_points(store, whole, _compared(points, start)))


def _send_artifacts(store: Store, journal: Journal, events: Iterable[Event], whole: "Run", run: "Run") -> None:
    """Send files and folders; one that was replaced is sent once."""
    for path in dict.fromkeys(event["path"] for event in events if event["record"] == "artifact"):
        for each in (run, whole) if (journal.start["stage"], path) in SAMPLES else (run,):
            store.client.log_artifact(each.info.run_id, str(journal.folder / ARTIFACTS / path))


def _send_scores(store: Store, journal: Journal, events: Iterable[Event], whole: "Run", run: "Run") -> None:
    """Send what stage evaluate measured, if that is among the events, to both runs and to the models."""
    from mlflow.entities import Metric

    scored_at = [event["at"] for event in events if (journal.start["stage"], event.get("path")) == SCORES]
    if not scored_at:
        return
    content = read_json(journal.folder / ARTIFACTS / SCORES[1])
    scores = [Metric(name, value, scored_at[-1], 0) for name, value in flatten(content).items() if value is not None]
    store.log_points(run, scores)
    store.log_points(whole, _new_points(store, whole, scores))
    for name in content.keys() & trained_models().keys():
        values = {measure: value for measure, value in content[name].items() if isinstance(value, float)}
        score_model(store, journal, name, values, scored_at[-1])
    move_aliases(store.client, journal.start["params"]["download.corpus"])


def _new_points(store: Store, whole: "Run", points: Sequence["Metric"]) -> list["Metric"]:
    """Leave out points that the run of an experiment has from another execution of the stage, at other times.

    A stage that is executed again, resumed or restored in a second clone has the same curve.
    """
    names = {point.key for point in points}
    history = [point for name in names for point in store.client.get_metric_history(whole.info.run_id, name)]
    latest = {(point.key, point.step): point.value for point in sorted(history, key=lambda point: point.timestamp)}
    return [point for point in points if latest.get((point.key, point.step)) != point.value]


# ---- the run of a whole experiment


def _summarise(store: Store, start: Event) -> None:
    """Bring status and description of the run of an experiment up to date. An edited description is kept.

    It gets the status of the stage execution that began last, so an earlier one that was killed does not count.
    """
    runs = store.runs(start["key"])
    whole = _by_identity(runs)[start["key"]]
    newest = max((run for run in runs if JOURNAL in run.data.tags), key=lambda run: run.info.start_time)
    store.set_status(whole, newest.info.status, newest.info.end_time)
    text, tags = _description(start, runs, whole.data.metrics), whole.data.tags
    if tags.get(DESCRIBED, digest("")) == digest(tags.get(DESCRIPTION, "")):
        store.tag(whole, {DESCRIPTION: text, DESCRIBED: digest(text)})


def _description(start: Event, runs: Iterable["Run"], metrics: Mapping[str, float]) -> str:
    """Return what an experiment changes, its scores, and which of its stages were trained or restored, in Markdown."""
    lines = list[str]()
    if start["commit"]:
        changed = ", ".join(f"`{each}`" for each in start["changed"])
        commit = f"commit `{start['commit'][:7]}`"
        lines.append(f"Differs from {commit} in {changed}." if changed else f"All parameters are those of {commit}.")
    scores = {model.label: metrics.get(f"{name}.val") for name, model in reversed(trained_models().items())}
    if texts := [f"{label} **{score:.3f}**" for label, score in scores.items() if score is not None]:
        lines.append(f"Bits per character on val: {', '.join(texts)}.")
    for how, restored in (("Trained", "false"), ("Restored by DVC from its run cache", "true")):
        kind = {"bukva.kind": "training", "bukva.restored": restored}.items()
        made = [run for run in runs if run.data.tags.items() >= kind and run.info.status == "FINISHED"]
        stages = sorted({run.data.tags["bukva.stage"] for run in made})
        lines += [f"{how}: {', '.join(stages)}."] if stages else []
    return "  \n".join(lines)  # two spaces break a line in Markdown


# ---- parameters, datasets and metrics as MLflow has them


def _as_text(params: Mapping[str, Any]) -> dict[str, str]:
    return {
        name: value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        for name, value in params.items()
    }


def _params_of_stage(start: Event) -> dict[str, str]:
    """Return the parameters of the sections that a stage reads."""
    sections = start["sections"]
    return {name: text for name, text in _as_text(start["params"]).items() if name.partition(".")[0] in sections}


def _dataset(split: Mapping[str, Any]) -> "DatasetInput":
    """Return a split as a dataset."""
    from mlflow.entities import Dataset, DatasetInput, InputTag

    source, profile = json.dumps(split["source"]), json.dumps(split["profile"])
    dataset = Dataset(split["name"], split["digest"], "dvc", source, profile=profile)
    return DatasetInput(dataset, [InputTag("mlflow.data.context", USES[split["split"]])])


def _points(events: Iterable[Event]) -> list["Metric"]:
    """Return the points of the metrics among events, nats per character also in bits.

    They have the times of their events, by which MLflow recognises a point that it has.
    """
    from mlflow.entities import Metric

    points: list[Metric] = []
    for event in events:
        values = event.get("values", {})
        in_bits = {name.replace(NATS, BITS): bits(value) for name, value in values.items() if name.endswith(NATS)}
        points += [Metric(name, value, event["at"], event["step"]) for name, value in (values | in_bits).items()]
    return points


def _compared(points: Iterable["Metric"], start: Event) -> list["Metric"]:
    """Return the points of a training for the run of its experiment, under their names there."""
    from mlflow.entities import Metric

    model = start["stage"].removeprefix("train-")  # other stages have no such metrics
    names = {name: name for name in COMPARED} if model == MAIN else {name: f"{model}.{name}" for name in LOSSES}
    return [Metric(names[each.key], each.value, each.timestamp, each.step) for each in points if each.key in names]


if __name__ == "__main__":
    warnings.simplefilter("ignore")  # of other packages; they are not for users
    try:
        if len(sys.argv) == 1:
            print(sync())
        elif not (opened := open_journal(Path(sys.argv[2]))) or not live(opened):
            sys.exit(1)
    except BukvaError as error:
        sys.exit(str(error))
