"""Send journals, the local files with the results of stages, to an MLflow store.

`python -m bukva.tracking.sync` sends all journals once. With the arguments `live FOLDER`, it sends the
journals of one experiment at intervals until its training ends.

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
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bukva.core.errors import BukvaError
from bukva.core.words import count, few
from bukva.project.baseline import SCORED
from bukva.project.lock import digest
from bukva.project.stages import trained_models
from bukva.text.ids import bits
from bukva.tracking.experiment import MAIN
from bukva.tracking.journal import ARTIFACTS, NOTES, Event, Journal, open_journal, read_journals
from bukva.tracking.models import SCORES, log_model, lost_models, send_scores
from bukva.tracking.store import JOURNAL, KEY, PARENT, Store, connect, errors_in_one_line, explain, lock, store_name

if TYPE_CHECKING:
    from mlflow.entities import DatasetInput, Run

Point = tuple[str, float, int, int]  # name, value, time and step of a metric

LATER = "BUKVA_SYNC_LATER"  # set where several machines would write to one SQLite database
ROUND_SECONDS = 10.0  # interval between transfers, long because the training needs the cores
# Interval between checks whether the stage has ended. It is short, because a stage waits for the last transfer.
PAUSE_SECONDS = 0.5
MAX_NAME_CHARS = 250  # of the name of a run, in PostgreSQL
SYNCED = "bukva.synced"  # tag of a stage's run: number of bytes of the journal that were sent
NUMERICS = "bukva.numerics"  # tag of an experiment's run: what affected the rounding of the training it describes
# Tags of a run: its description, and of an experiment's run, the digest of the last description that bukva wrote
DESCRIPTION, DESCRIBED = "mlflow.note.content", "bukva.described"
USES = {"train": "training", "val": "validation", "test": "test"}  # MLflow's names for the uses of the splits
NATS, BITS = "nats_per_char", "bits_per_char"
# The run of the stage gets everything. The run of the experiment also gets the artifacts SAMPLES, the model MAIN with
# its scores and its metrics COMPARED, and the scores of the other models. It has no more metrics, because MLflow
# draws a chart for each metric, in the order of their names, and many charts would hide the important ones.
SAMPLES = ("train-gpt", "samples.txt"), ("sample", "samples.md")
COMPARED = "train_bits_per_char", "val_bits_per_char", "train_nats_per_char", "val_nats_per_char", "chars_per_second"
SIZE = "n_parameters"  # becomes a tag, because MLflow would draw a chart of a metric


def sync() -> str:
    """Send all journals to MLflow. Return a summary; BukvaError has the reasons if some could not be sent."""
    if not (journals := read_journals()):
        return "There is nothing to send, because no stage has run in this checkout. Run `make repro`."
    with errors_in_one_line():
        store = connect()
        troubles = send_journals(store, journals)
        runs = store.runs()
        sent = [runs.get(each.start["id"]) for each in journals]
        n = sum(run is None or _is_deleted(run, runs) for run in sent)
        lost = lost_models()
    if troubles:
        raise BukvaError("\n".join(troubles))
    summary = f"{store_name()} has the results of {count(len(journals), 'stage execution')}"
    if n:
        summary += f", except for {n} that {'was' if n == 1 else 'were'} deleted there. To restore a run, run "
        summary += "`mlflow runs restore --run-id ID`"
    if lost:
        summary += (
            f".\nModels in MLflow without files: {lost}. To recreate the files, delete the database and run `bukva "
            "sync`. This also deletes your own edits in MLflow"
        )
    return f"{summary}."


def follow(journal: Journal) -> bool:
    """Send the results of a training and of its experiment at intervals until the training has ended.

    Each problem is printed once. Return whether everything was sent in the end.
    """
    store, printed = None, set[str]()
    while True:
        is_running = journal.is_running()  # checked first, so that the last attempt reads all events
        try:
            store = store or connect()
            troubles = send_journals(store, read_journals(journal.start["experiment"], journal.start["key"]))
        except Exception as error:
            store, troubles = None, [explain(error)]
        for trouble in set(troubles) - printed:
            with contextlib.suppress(OSError):  # the disk of the log may be full
                print(
                    f"{time.strftime('%Y-%m-%d %H:%M:%S')} {store_name()} is missing results of {journal.start['id']}: "
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
    """Send journals. Return a message for each journal that MLflow refused. If MLflow is down, raise its error."""
    keys, troubles = {journal.start["key"] for journal in journals}, list[str]()
    runs = store.runs(keys.pop() if len(keys) == 1 else "")
    for number, journal in enumerate(journals):
        run = runs.get(journal.start["id"])
        if run is not None and _is_complete(run, runs, journal):
            continue
        with lock():
            try:
                _send(store, journal, _numerics(journals[number:]))
            except Exception as error:  # databases and artifact stores raise errors of their own
                store.client.get_experiment(store.experiment_id)  # raises if no journal can be sent
                troubles.append(f"{journal.folder}: {explain(error)}")
    return troubles


def _numerics(journals: Sequence[Journal]) -> str:
    """Return the numerics of the training to which the first journal belongs: its own, or of the next training."""
    key = journals[0].start["key"]
    known = (each.start["numerics"] for each in journals if each.start["key"] == key)
    return next(filter(None, known), "")


def _is_complete(run: "Run", runs: "Mapping[str, Run]", journal: Journal) -> bool:
    """Return whether the MLflow run of a stage execution has everything from its journal, or a user deleted the run."""
    if _is_deleted(run, runs):
        return True
    # only the end of a killed stage changes the status without a new event
    is_ended = run.info.status != "RUNNING" or journal.is_running()
    return run.data.tags[PARENT] in runs and is_ended and not journal.read(_synced(run))[0]


def _is_deleted(run: "Run", runs: "Mapping[str, Run]") -> bool:
    """Return whether a user deleted the run of a stage, or the run of its experiment."""
    return "deleted" in [each.info.lifecycle_stage for each in (run, runs.get(run.data.tags[PARENT])) if each]


def _synced(run: "Run") -> int:
    return int(run.data.tags.get(SYNCED, 0))


# ---- one journal


def _send(store: Store, journal: Journal, numerics: str) -> None:
    """Send the new events of a journal to the run of its stage, and some also to the run of the experiment."""
    start, client = journal.start, store.client
    runs = store.runs(start["key"])
    run = runs.get(start["id"])
    parent = runs.get(run.data.tags[PARENT]) if run else None
    synced = _synced(run) if run and parent else 0  # without a parent, which `mlflow gc` removed, send everything again
    parent = parent or _parent(runs, numerics) or _create(store, start, _unique_label(store, start, runs, numerics))
    if parent.info.lifecycle_stage == "deleted":
        return
    run = run or _create_stage_run(store, start, runs, parent)
    run_id, parent_id = both = run.info.run_id, parent.info.run_id
    status, ended_at = journal.status()  # read the status before the events: after the end, no event is added
    new, offset = journal.read(synced)
    events = defaultdict[str, list[Event]](list)  # by kind
    for event in new:
        events[event["record"]].append(event)

    params = {
        name: value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        for name, value in start["params"].items()
    }
    own_params = {name: text for name, text in params.items() if name.partition(".")[0] in start["sections"]}
    sizes = [event["values"].pop(SIZE) for event in events["metrics"] if SIZE in event["values"]]
    size = {f"bukva.{SIZE}": f"{sizes[-1]:.0f}"} if sizes else {}
    points, parent_tags, is_new = _points(events["metrics"]), dict[str, str](), not synced
    if start["stage"] == f"train-{MAIN}" or start["kind"] == "report":  # the bigram may be trained on another machine
        parent_tags |= {NUMERICS: start["numerics"]} if start["numerics"] else {}
    if start["stage"] == f"train-{MAIN}":
        parent_tags |= size
    for note in events["note"]:
        parent_tags |= note["tags"]
    store.log(run_id, points, own_params if is_new else {}, size | {PARENT: parent_id})
    store.log(parent_id, _compared(store, start, points, parent_id), params if is_new else {}, parent_tags)
    if is_new and start["datasets"]:
        for each in both:
            client.log_inputs(each, [_dataset(split) for split in start["datasets"]])

    files = {event["path"]: event["at"] for event in events["artifact"]}  # a later one replaces an earlier one
    for path in files:
        for each in both if (start["stage"], path) in SAMPLES else (run_id,):
            client.log_artifact(each, str(journal.folder / ARTIFACTS / path))
    if any(note["files"] for note in events["note"]):
        client.log_artifacts(parent_id, str(journal.folder / NOTES))
    for event in events["model"]:
        log_model(store, journal, event, both if event["name"] == MAIN else (run_id,), own_params)
    if start["stage"] == SCORED and SCORES in files:
        trainings = {each.info.run_id for each in runs.values() if each.data.tags.get(PARENT) == parent_id}
        send_scores(store, journal, files[SCORES], parent, run_id, trainings)

    _set_status(store, run_id, status, ended_at)
    _update_parent(store, start, parent_id)
    why = [event["note"] for event in events["end"] if event["note"]]
    # set SYNCED last: after an interruption, the same events are sent again, which changes nothing
    store.log(run_id, tags={SYNCED: str(offset)} | ({DESCRIPTION: why[-1]} if why else {}))


def _parent(runs: "Mapping[str, Run]", numerics: str) -> "Run | None":
    """Return the run of the experiment that describes a training with these numerics, or none yet."""

    def known(run: "Run") -> str:
        return run.data.tags.get(NUMERICS, "")

    fitting = [run for run in _parents(runs) if not numerics or known(run) in ("", numerics)]
    return min(fitting, key=lambda run: known(run) != numerics, default=None)


def _parents(runs: "Mapping[str, Run]") -> "list[Run]":
    """Return the runs of the experiment, one for each training with other numerics, oldest first."""
    return sorted((run for run in runs.values() if JOURNAL not in run.data.tags), key=lambda run: run.info.start_time)


def _unique_label(store: Store, start: Event, runs: "Mapping[str, Run]", numerics: str) -> str:
    """Return the label with what differs from experiments of its name: the commit, or numerics. Rename those."""
    shown, changes = start["shown"], start["label"].removeprefix(start["shown"])
    for run in store.named(start["shown"]):
        rest, commit = run.info.run_name.removeprefix(start["shown"]), run.data.tags["bukva.commit"]
        if commit != start["commit"] and rest[:1] in ("", ":", "/", "@"):
            shown = f"{start['shown']}@{start['commit'][:7]}"
            if rest[:1] != "@":
                store.client.update_run(run.info.run_id, name=f"{start['shown']}@{commit[:7]}{rest}"[:MAX_NAME_CHARS])
    for first in _parents(runs)[:1]:
        differing = [each for each in numerics.split(", ") if each not in first.data.tags[NUMERICS].split(", ")]
        changes += f"{',' if changes else ':'} {', '.join(few(differing))}"
    return shown + changes


def _create_stage_run(store: Store, start: Event, runs: "Mapping[str, Run]", parent: "Run") -> "Run":
    siblings = [run for run in runs.values() if run.data.tags.get("bukva.stage") == start["stage"]]
    number = f" {len(siblings) + 1}" if siblings else ""  # executed again, or on another machine
    shown = parent.info.run_name.partition(":")[0]
    tags = {
        "bukva.stage": start["stage"],
        "bukva.kind": start["kind"],
        "bukva.restored": str(start["restored"]).lower(),
        JOURNAL: start["id"],
        PARENT: parent.info.run_id,
    }
    return _create(store, start, f"{shown}/{start['stage']}{number}", tags)


def _create(store: Store, start: Event, name: str, more_tags: Mapping[str, str] = {}) -> "Run":
    tags = {
        "bukva.experiment": start["experiment"],
        KEY: start["key"],
        "bukva.commit": start["commit"],
        "mlflow.source.type": "LOCAL",
        "mlflow.source.name": "dvc.yaml",
        "mlflow.user": start["user"],
        "bukva.processor": start["processor"],
        **more_tags,
    }
    if start["edited"]:  # the commit alone cannot produce the results
        tags["bukva.edited"] = ", ".join(start["edited"])
    else:
        tags["mlflow.source.git.commit"] = start["commit"]
    return store.client.create_run(store.experiment_id, start["at"], tags, name[:MAX_NAME_CHARS])


def _points(events: Iterable[Event]) -> list[Point]:
    """Return the values of all metrics in `events`, and losses also in bits."""
    points = list[Point]()
    for event in events:
        for name, value in event["values"].items():
            points.append((name, value, event["at"], event["step"]))
            if name.endswith(NATS):
                points.append((name.replace(NATS, BITS), bits(value), event["at"], event["step"]))
    return points


def _compared(store: Store, start: Event, points: Iterable[Point], parent_id: str) -> list[Point]:
    """Return the losses of a training for the run of the experiment, at steps at which it has none yet."""
    # So a training that is resumed, restored or executed again adds no second curve.
    curve = [point for point in points if point[0] in COMPARED and start["stage"] == f"train-{MAIN}"]
    keys = {key for key, *_ in curve}
    known = {(key, each.step) for key in keys for each in store.client.get_metric_history(parent_id, key)}
    return [point for point in curve if (point[0], point[3]) not in known]


def _set_status(store: Store, run_id: str, status: str, ended_at: int | None) -> None:
    if status == "RUNNING":
        store.client.update_run(run_id, status)
    else:
        store.client.set_terminated(run_id, status, ended_at)


def _update_parent(store: Store, start: Event, parent_id: str) -> None:
    """Update the status of an experiment's run, and its description unless a user has edited it."""
    runs = store.runs(start["key"])
    parent = runs[parent_id]
    below = [run for run in runs.values() if run.data.tags.get(PARENT) == parent_id]
    newest = max(below, key=lambda run: run.info.start_time)
    _set_status(store, parent_id, newest.info.status, newest.info.end_time)
    text, tags = _description(start, below, parent.data.metrics), parent.data.tags
    if tags.get(DESCRIBED, digest("")) == digest(tags.get(DESCRIPTION, "")):
        store.log(parent_id, tags={DESCRIPTION: text, DESCRIBED: digest(text)})


def _description(start: Event, runs: "Iterable[Run]", metrics: Mapping[str, float]) -> str:
    lines = list[str]()  # in Markdown
    if start["commit"]:
        changed = ", ".join(f"`{each}`" for each in [*start["changed"], *start["edited"]])
        commit = f"commit `{start['commit'][:7]}`"
        lines.append(f"Differs from {commit} in {changed}." if changed else f"Same parameters and code as {commit}.")
    scores = {model.label: metrics.get(f"{name}.val") for name, model in reversed(trained_models().items())}
    if texts := [f"{label} **{score:.3f}**" for label, score in scores.items() if score is not None]:
        lines.append(f"Scores on val, bits per character: {', '.join(texts)}.")
    for how, restored in (("Trained", "false"), ("Restored by DVC from its run cache", "true")):
        made = {"bukva.kind": "training", "bukva.restored": restored}.items()
        tags = [run.data.tags for run in runs if run.info.status == "FINISHED" and run.data.tags.items() >= made]
        if tags:
            lines.append(f"{how}: {', '.join(sorted({each['bukva.stage'] for each in tags}))}.")
    return "  \n".join(lines)  # two spaces at the end of a line are a line break


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
