"""Brings journals into an MLflow store: `python -m bukva.tracking.sync` once, or `live FOLDER` beside a training.

Filling twice adds nothing: runs are found by their tags, MLflow ignores a point that has the same name, step, time and
value as another, and an artifact replaces the one of its name. A tag of each run says how many bytes of its journal the
store has. So whatever is stopped, or fails because another machine does the same at this moment, is completed by the
next call.
"""

import contextlib
import json
import os
import sys
import time
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bukva.config.load import flatten
from bukva.core.errors import BukvaError, redact_url
from bukva.core.files import read_json, sha256
from bukva.project.lock import digest
from bukva.project.stages import trained_models
from bukva.text.ids import bits
from bukva.tracking.journal import ARTIFACTS, FILE, TAGS, Event, Journal, open_journal, read_journals
from bukva.tracking.models import log_model, move_aliases, score_model
from bukva.tracking.store import JOURNAL, KEY, Store, connect, errors_in_one_line, explain, lock, tracking_uri

if TYPE_CHECKING:
    from mlflow.entities import DatasetInput, Metric, Run

ROUND_SECONDS = 10.0  # between two rounds beside a training, which needs the cores
PAUSE_SECONDS = 0.5  # between two looks for the end of the stage, which waits for the last round
SYNCED, NOTES = "bukva.synced", "bukva.notes"  # tags: how many bytes a run has of its journal, and which notes
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
KINDS = "metrics", "artifact", "model", "end"  # of the events that MLflow gets
ATTEMPT, OWN_ATTEMPT = "bukva.attempt", "BUKVA_ATTEMPT"  # tag, and variable of a trial in a cluster: when it began


def sync() -> str:
    """Bring MLflow up to date with all journals; the sentence says what it has.

    Raises:
        BukvaError: something is missing there, and why; without passwords.
    """
    journals = read_journals()
    with errors_in_one_line():
        troubles = fill(connect(), journals)
    if troubles:
        raise BukvaError("\n".join(troubles))
    return f"{redact_url(tracking_uri())} has all {len(journals)} stage executions."


def live(journal: Journal) -> bool:
    """Keep MLflow up to date with the experiment of a training until that has ended.

    Each error is printed once; the last try is made when the stage has ended. Returns whether MLflow has everything.
    """
    store, printed, file = None, set[str](), journal.folder / FILE
    while True:
        size, runs = file.stat().st_size, journal.status()[0] == "RUNNING"  # before reading: the last round reads all
        try:
            store = store or connect()
            troubles = fill(store, read_journals(journal.start["experiment"], journal.key))
        except Exception as error:
            store, troubles = None, [explain(error)]
        for trouble in set(troubles) - printed:
            with contextlib.suppress(OSError):  # the log may be on the disk that is full
                when, where = time.strftime("%Y-%m-%d %H:%M:%S"), redact_url(tracking_uri())
                remedy = "It is tried again while the stage runs; bukva sync completes it."
                print(f"{when} {where} lacks something of {journal.id}: {trouble.rstrip('.')}. {remedy}", flush=True)
        printed.update(troubles)
        if not runs:
            return not troubles
        again_at = time.monotonic() + ROUND_SECONDS
        while journal.status()[0] == "RUNNING" and (
            time.monotonic() < again_at or (file.stat().st_size == size and not troubles)
        ):
            time.sleep(PAUSE_SECONDS)


def fill(store: Store, journals: Iterable[Journal]) -> list[str]:
    """Bring a store up to date with journals and notes; returns a sentence for each journal that could not be shown."""
    by_key: dict[str, list[Journal]] = {}
    for journal in journals:
        by_key.setdefault(journal.key, []).append(journal)
    shown = _by_identity(store.runs(next(iter(by_key)) if len(by_key) == 1 else ""))
    troubles: list[str] = []
    for key, members in by_key.items():
        whole = shown.get(key)
        is_complete = whole and not _unsent(members[0].notes, whole)
        if not is_complete or not all(_has(shown.get(journal.id), journal) for journal in members):
            with lock(), _in_a_sentence(members[0].folder.parent, troubles):
                _fill_experiment(store, key, members, troubles)
    return troubles


def _fill_experiment(store: Store, key: str, journals: Sequence[Journal], troubles: list[str]) -> None:
    """Bring the runs of one experiment up to date; adds a sentence for each journal that could not be shown."""
    shown = _by_identity(store.runs(key))
    whole = shown.get(key) or store.create(journals[0].start)
    if whole.info.lifecycle_stage == "deleted":
        return
    for journal in journals:
        run = shown.get(journal.id)
        if not _has(run, journal):
            with _in_a_sentence(journal.folder, troubles):
                _send(store, journal, whole, run or store.create(journal.start, whole))
    notes = journals[0].notes
    if unsent := _unsent(notes, whole):
        store.client.log_artifacts(whole.info.run_id, str(notes / ARTIFACTS))
        store.tag(whole, read_json(notes / TAGS) | {NOTES: unsent})


def _send(store: Store, journal: Journal, whole: "Run", run: "Run") -> None:
    """Send the new events of a journal to the run of its stage, and the compared ones to the run of its experiment."""
    start, (status, ended_at) = journal.start, journal.status()  # before the events, because none follows an end
    synced = _take_over(store, run)
    events, offset = journal.read(synced)
    by_kind = {kind: [event for event in events if event["record"] == kind] for kind in KINDS}
    params = {  # as text
        name: value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        for name, value in start["params"].items()
    }
    own_params = {name: text for name, text in params.items() if name.partition(".")[0] in start["sections"]}
    if synced == 0:
        _send_inputs(store, start, {whole.info.run_id: params, run.info.run_id: own_params})
    points = _points(by_kind["metrics"])
    _send_points(store, run, points)
    _send_points(store, whole, _compared(points, start))
    _send_artifacts(store, journal, by_kind["artifact"], whole, run)
    for event in by_kind["model"]:
        log_model(store.client, journal, event, [run, whole] if event["name"] == MAIN else [run], own_params)
    _send_scores(store, journal, by_kind["artifact"], whole, run)
    for each in (whole, run):  # an experiment runs as long as its last stage, and ends as it does
        if status == "RUNNING":
            store.client.update_run(each.info.run_id, status)
        else:
            store.client.set_terminated(each.info.run_id, status, ended_at)
    _describe(store, start)
    why = [event["note"] for event in by_kind["end"] if event["note"]]
    # last: a process that is stopped before this sends everything again, with the same result
    store.tag(run, {SYNCED: str(offset)} | ({DESCRIPTION: why[-1]} if why else {}))


def _take_over(store: Store, run: "Run") -> int:
    """Return how many bytes of its journal a run has; 0 where this machine continues what another one began.

    Raises:
        ValueError: another machine has continued it since.
    """
    attempt, latest = int(os.environ.get(OWN_ATTEMPT, 0)), int(run.data.tags.get(ATTEMPT, 0))
    if attempt and latest > attempt:
        raise ValueError("another machine has taken over this training")
    if attempt > latest:  # the journal came from a machine that was lost, without its last lines
        store.tag(run, {ATTEMPT: str(attempt), SYNCED: "0"})
        return 0
    return int(run.data.tags.get(SYNCED, 0))


def _send_inputs(store: Store, start: Event, params: Mapping[str, Mapping[str, str]]) -> None:
    """Send the parameters, by the ids of their runs, and the splits that the stage reads."""
    from mlflow.entities import Param

    datasets = [_dataset(split) for split in start["datasets"]]
    for run_id, texts in params.items():
        store.client.log_batch(run_id, params=[Param(*item) for item in texts.items()])
        if datasets:
            store.client.log_inputs(run_id, datasets)


def _send_points(store: Store, run: "Run", points: Sequence["Metric"]) -> None:
    """Send points of metrics."""
    is_whole = JOURNAL not in run.data.tags  # a whole experiment, in which a stage may be executed more than once
    new = _new_points(store, run, points) if is_whole or os.environ.get(OWN_ATTEMPT) else points
    if new:
        store.client.log_batch(run.info.run_id, new)


def _send_artifacts(store: Store, journal: Journal, events: Iterable[Event], whole: "Run", run: "Run") -> None:
    """Send the files of artifact events."""
    for path in dict.fromkeys(event["path"] for event in events):  # replaced ones once
        for each in (run, whole) if (journal.start["stage"], path) in SAMPLES else (run,):
            store.client.log_artifact(each.info.run_id, str(journal.folder / ARTIFACTS / path))


def _send_scores(store: Store, journal: Journal, events: Iterable[Event], whole: "Run", run: "Run") -> None:
    """Send what stage evaluate measured, if that is among the events, to both runs and to the models."""
    from mlflow.entities import Metric

    scored_at = [event["at"] for event in events if (journal.start["stage"], event["path"]) == SCORES]
    if not scored_at:
        return
    content = read_json(journal.folder / ARTIFACTS / SCORES[1])
    scores = [Metric(name, value, scored_at[-1], 0) for name, value in flatten(content).items() if value is not None]
    for each in (whole, run):
        _send_points(store, each, scores)
    for name in content.keys() & trained_models().keys():
        values = {measure: value for measure, value in content[name].items() if isinstance(value, float)}
        score_model(store, journal, name, values, scored_at[-1])
    move_aliases(store.client, journal.start["params"]["download.corpus"])


def _describe(store: Store, start: Event) -> None:
    """Describe an experiment on its run: changes, scores, how it was made. An edited description is kept."""
    runs, lines = store.runs(start["key"]), list[str]()
    whole = _by_identity(runs)[start["key"]]
    if start["commit"] and "changed" in start:  # journals of older versions have no changes
        changed = ", ".join(f"`{each}`" for each in start["changed"])
        commit = f"commit `{start['commit'][:7]}`"
        lines.append(f"Differs from {commit} in {changed}." if changed else f"All parameters are those of {commit}.")
    scores = {model.label: whole.data.metrics.get(f"{name}.val") for name, model in reversed(trained_models().items())}
    if texts := [f"{label} **{score:.3f}**" for label, score in scores.items() if score is not None]:
        lines.append(f"Bits per character on val: {', '.join(texts)}.")
    for how, restored in (("Trained", "false"), ("Restored by DVC from its run cache", "true")):
        kind = {"bukva.kind": "training", "bukva.restored": restored}.items()
        found = [run for run in runs if run.data.tags.items() >= kind and run.info.status == "FINISHED"]
        stages = sorted({run.data.tags["bukva.stage"] for run in found})
        lines += [f"{how}: {', '.join(stages)}."] if stages else []
    text, tags = "  \n".join(lines), whole.data.tags  # two spaces break a line in Markdown
    if tags.get(DESCRIBED, digest("")) == digest(tags.get(DESCRIPTION, "")):
        store.tag(whole, {DESCRIPTION: text, DESCRIBED: digest(text)})


def _new_points(store: Store, run: "Run", points: Sequence["Metric"]) -> list["Metric"]:
    """Leave out points that a run has from another execution of the stage, at other times.

    In a trial of a cluster these are all steps that a lost machine has sent. Otherwise they are points of the same
    value, because a stage that is executed again, or restored in a second clone, has the same curve.
    """
    names = {point.key for point in points}
    history = [point for name in names for point in store.client.get_metric_history(run.info.run_id, name)]
    latest = {(point.key, point.step): point.value for point in sorted(history, key=lambda point: point.timestamp)}
    if os.environ.get(OWN_ATTEMPT):
        return [point for point in points if (point.key, point.step) not in latest]
    return [point for point in points if latest.get((point.key, point.step)) != point.value]


def _has(run: "Run | None", journal: Journal) -> bool:
    """Whether the store has all of a journal, or somebody deleted it there; then it is not created again."""
    if run is None or run.info.lifecycle_stage == "deleted":
        return run is not None
    synced = int(run.data.tags.get(SYNCED, 0))
    return (synced, run.info.status) == ((journal.folder / FILE).stat().st_size, journal.status()[0])


def _by_identity(runs: Iterable["Run"]) -> dict[str, "Run"]:
    """Runs of stages by the ids of their journals, those of whole experiments by their keys."""
    return {run.data.tags.get(JOURNAL, run.data.tags[KEY]): run for run in runs}


def _unsent(notes: Path, whole: "Run") -> str:
    """The digest of what is said about an experiment, if its run lacks something of it; else ""."""
    files = [file for file in sorted(notes.rglob("*")) if file.is_file() and not file.name.startswith(".")]
    found = digest([(str(file.relative_to(notes)), sha256(file)) for file in files]) if files else ""
    return "" if whole.data.tags.get(NOTES) == found else found


@contextlib.contextmanager
def _in_a_sentence(folder: Path, troubles: list[str]) -> Iterator[None]:
    """Add a sentence if what a folder has is invalid, which must not stop the others; a store's error must."""
    from mlflow.exceptions import MlflowException

    try:
        yield
    except (KeyError, ValueError, MlflowException) as error:
        if isinstance(error, MlflowException) and error.error_code != "INVALID_PARAMETER_VALUE":
            raise
        troubles.append(f"{folder}: {explain(error)}")


# ---- datasets and metrics as MLflow has them


def _dataset(split: Mapping[str, Any]) -> "DatasetInput":
    """A split that a stage read."""
    from mlflow.entities import Dataset, DatasetInput, InputTag

    source, profile = json.dumps(split["source"]), json.dumps(split["profile"])
    dataset = Dataset(split["name"], split["digest"], "dvc", source, profile=profile)
    return DatasetInput(dataset, [InputTag("mlflow.data.context", USES[split["split"]])])


def _points(events: Iterable[Event]) -> list["Metric"]:
    """Metrics, each nats per character also in bits, at the times of their events, by which MLflow recognises them."""
    from mlflow.entities import Metric

    points: list[Metric] = []
    for event in events:
        values = event["values"]
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
        elif not (found := open_journal(Path(sys.argv[2]))) or not live(found):
            sys.exit(1)
    except BukvaError as error:
        sys.exit(str(error))
