"""Fill an MLflow store from the records of stages, and from DVC's cache.

`python -m bukva.tracking.sync` fills it with all runs once. With the arguments `live FOLDER`, it fills it with the runs
of one experiment at intervals until its training ends.

Filling twice adds nothing: runs are identified by their tags, a curve gets only the steps that it lacks, and an
artifact replaces an earlier one with the same name. A tag of each run says what it was filled with, so the next call
completes a transfer that was interrupted.
"""

import contextlib
import gc
import json
import os
import shutil
import sys
import tempfile
import time
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bukva.core.errors import BukvaError
from bukva.core.files import read_json
from bukva.core.words import count, few
from bukva.project.baseline import SPLIT
from bukva.project.cache import cached_files
from bukva.project.curves import read_curve
from bukva.project.lock import digest
from bukva.project.stages import paths, stages, trained_models
from bukva.text.ids import bits
from bukva.tracking.models import log_model, lost_models, send_scores
from bukva.tracking.record import CURVE, FILE, MAIN, NOTES, SAMPLES, Event, Run, explain, open_run, read_runs
from bukva.tracking.store import KEY, PARENT, RUN, Store, connect, errors_in_one_line, lock, store_name

if TYPE_CHECKING:
    from mlflow.entities import DatasetInput
    from mlflow.entities import Run as MlflowRun

Metric = tuple[str, float, int, int]  # name, value, time and step

LATER = "BUKVA_SYNC_LATER"  # set where several machines would write to one SQLite database
ROUND_SECONDS = 10.0  # interval between transfers, long because the training needs the cores
# Interval between checks whether the stage has ended. It is short, because a stage waits for the last transfer.
PAUSE_SECONDS = 0.2
MAX_NAME_CHARS = 250  # of the name of a run, in PostgreSQL
FILLED = "bukva.filled"  # tag of a stage's run: what it was last filled with (see `_content`)
NUMERICS = "bukva.numerics"  # tag of an experiment's run: what affected the rounding of the training it describes
# Tags of a run: its description, and of an experiment's run, the digest of the last description that bukva wrote
DESCRIPTION, DESCRIBED = "mlflow.note.content", "bukva.described"
USES = {"train": "training", "val": "validation", "test": "test"}  # MLflow's names for the uses of the splits
SIZE = "bukva.n_parameters"  # a tag, because MLflow would draw a chart of a metric
NATS, BITS, VAL = "nats_per_char", "bits_per_char", "val_nats_per_char"
# The run of the stage gets everything. The run of the experiment also gets samples, the model MAIN with its scores and
# these CHARTS of its training, and the scores of the other models. It has no more metrics, because MLflow draws a chart
# for each metric, in the order of their names, and many charts would hide the important ones.
CHARTS = "train_bits_per_char", "val_bits_per_char", "train_nats_per_char", "val_nats_per_char", "chars_per_second"


def sync() -> str:
    """Send all runs to MLflow. Return a summary; BukvaError has the reasons if some could not be sent."""
    if not (runs := read_runs()):
        return "There is nothing to send, because no stage has run in this checkout. Run `make repro`."
    with errors_in_one_line():
        store = connect()
        troubles = fill(store, runs)
        known = store.runs()
        n = sum(run.id not in known or _is_deleted(known[run.id], known) for run in runs)
        gone = sum(bool(_missing(run.state()[0])) for run in runs)
        lost = lost_models()
    if troubles:
        raise BukvaError("\n".join(troubles))
    summary = f"{store_name()} has the results of {count(len(runs), 'stage execution')}"
    if n:
        summary += f", except for {n} that {'was' if n == 1 else 'were'} deleted there. To restore a run, run "
        summary += "`mlflow runs restore --run-id ID`"
    if gone:
        summary += f".\nStage executions with outputs that are not in DVC's cache: {gone}"
    if lost:
        summary += (
            f".\nModels in MLflow without files: {lost}. To recreate the files, delete the database and run `bukva "
            "sync`. This also deletes your own edits in MLflow"
        )
    return f"{summary}."


def follow(run: Run) -> bool:
    """Send the results of a training and of its experiment at intervals until the training has ended.

    Each problem is printed once. Return whether everything was sent in the end.
    """
    store, printed = None, set[str]()
    while True:
        is_running = run.is_running()  # checked first, so that the last attempt reads everything
        try:
            store = store or connect()
            troubles = fill(store, read_runs(run.experiment, run.key))
        except Exception as error:
            store, troubles = None, [explain(error)]
        for trouble in set(troubles) - printed:
            with contextlib.suppress(OSError):  # the disk of the log may be full
                print(
                    f"{time.strftime('%Y-%m-%d %H:%M:%S')} {store_name()} is missing results of {run.id}: "
                    f"{trouble.rstrip('.')}. bukva retries while the stage runs. After that, run `bukva sync`.",
                    flush=True,
                )
        printed.update(troubles)
        if not is_running:
            return not troubles
        again_at = time.monotonic() + ROUND_SECONDS
        while run.is_running() and time.monotonic() < again_at:
            time.sleep(PAUSE_SECONDS)


def fill(store: Store, runs: Sequence[Run]) -> list[str]:
    """Fill MLflow with runs. Return a message for each run that MLflow refused. If MLflow is down, raise its error."""
    keys, troubles = {run.key for run in runs}, list[str]()
    known = store.runs(keys.pop() if len(keys) == 1 else "")
    for number, run in enumerate(runs):
        if (sent := known.get(run.id)) and _is_complete(sent, known, run):
            continue
        with lock():
            try:
                _fill(store, run, _numerics(runs[number:]))
            except Exception as error:  # databases and artifact stores raise errors of their own
                store.client.get_experiment(store.experiment_id)  # raises if no run can be sent
                troubles.append(f"{run.folder}: {explain(error)}")
    return troubles


def _is_complete(sent: "MlflowRun", known: "Mapping[str, MlflowRun]", run: Run) -> bool:
    """Return whether MLflow has all that this machine knows about the run of a stage, or a user deleted it."""
    if _is_deleted(sent, known):
        return True
    # a copy of the project may know less than was sent
    return sent.data.tags[PARENT] in known and json.loads(sent.data.tags.get(FILLED, "[]")) >= _content(run)


def _is_deleted(sent: "MlflowRun", known: "Mapping[str, MlflowRun]") -> bool:
    """Return whether a user deleted the run of a stage, or the run of its experiment."""
    return "deleted" in [each.info.lifecycle_stage for each in (sent, known.get(sent.data.tags[PARENT])) if each]


def _content(run: Run) -> list[int]:
    """Return the size of the record, and minus the number of outputs that DVC's cache lacks."""
    return [(run.folder / FILE).stat().st_size, -len(_missing(run.state()[0]))]


def _missing(end: Event) -> list[str]:
    return [path for path, md5 in end["outs"].items() if not cached_files(md5)]


def _numerics(runs: Sequence[Run]) -> str:
    """Return the numerics of the training to which the first run belongs: its own, or of the next training."""
    return next((run.numerics for run in runs if run.key == runs[0].key and run.numerics), "")


# ---- one run


def _fill(store: Store, run: Run, numerics: str) -> None:
    """Send what MLflow lacks to the run of a stage, and some also to the run of the experiment."""
    known = store.runs(run.key)
    own = known.get(run.id)
    parent = known.get(own.data.tags[PARENT]) if own else None  # `mlflow gc` may have removed it
    parent = parent or _parent(known, numerics) or _create(store, run, _unique_label(store, run, known, numerics))
    if parent.info.lifecycle_stage == "deleted":
        return
    own = own or _create_stage_run(store, run, known, parent)
    run_id, parent_id = own.info.run_id, parent.info.run_id
    content, (end, notes) = _content(run), run.state()  # before the files, to which nothing is added after the end
    _send_facts(store, run, notes, own, parent_id)
    _send_curve(store, run, run_id, parent_id)
    for path, md5 in end["outs"].items():
        with _copied(path, cached_files(md5)) as file:
            if file.exists():  # otherwise DVC has not stored it yet, or no longer has it
                _send_output(store, run, path, file, end["at"], run_id, parent)
    _set_status(store, run_id, end["status"], end["at"])
    _update_parent(store, run, parent_id)
    if end["status"] != "RUNNING":
        for leftover in run.folder.glob(".*.part"):  # of a process that was killed while it wrote
            leftover.unlink(missing_ok=True)
        seconds = [] if end["seconds"] is None else [("seconds", end["seconds"], end["at"], 0)]
        why = {DESCRIPTION: end["why"]} if end["why"] else {}
        # last: after an interruption, everything is sent again, which changes nothing
        store.log(run_id, seconds, tags={FILLED: json.dumps(content)} | why)


def _send_facts(store: Store, run: Run, notes: Iterable[Event], own: "MlflowRun", parent_id: str) -> None:
    """Send parameters, tags, datasets, and what was noted about the experiment later."""
    run_id, of_main = own.info.run_id, run.stage == trained_models()[MAIN].stage
    size = {SIZE: str(run.n_parameters)} if run.n_parameters else {}
    # the bigram may be trained on another machine than the GPT
    about = {NUMERICS: run.numerics} if run.numerics and (of_main or run.kind == "report") else {}
    for note in notes:
        about |= note["tags"]
    store.log(run_id, params=_params(run, is_own=True), tags=size | {PARENT: parent_id})
    store.log(parent_id, params=_params(run), tags=about | (size if of_main else {}))
    if run.datasets and not own.inputs.dataset_inputs:
        for each in (run_id, parent_id):
            store.client.log_inputs(each, [_dataset(split) for split in run.datasets])
    if any(note["files"] for note in notes):
        store.client.log_artifacts(parent_id, str(run.folder / NOTES))


def _params(run: Run, *, is_own: bool = False) -> dict[str, str]:
    """Return all parameters, or those that the stage reads itself, as MLflow shows them."""
    return {
        name: value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        for name, value in run.params.items()
        if not is_own or name.partition(".")[0] in stages()[run.stage].sections
    }


def _send_curve(store: Store, run: Run, run_id: str, parent_id: str) -> None:
    """Send the losses and the sample lines of a training so far."""
    targets = [(run_id, _points(run))]
    if run.stage == trained_models()[MAIN].stage:
        targets.append((parent_id, [point for point in _points(run) if point[0] in CHARTS]))
    for each, points in targets:
        # a resumed, restored or repeated training adds no second curve
        known = {metric.step for metric in store.client.get_metric_history(each, VAL)} if points else ()
        store.log(each, [point for point in points if point[3] not in known])
        if (lines := run.folder / SAMPLES).exists():
            store.client.log_artifact(each, str(lines))


def _points(run: Run) -> list[Metric]:
    """Return the values of the loss curve so far, with losses in nats and in bits."""
    points, curve = list[Metric](), run.folder / CURVE
    for point in read_curve(curve.read_text(encoding="utf-8")) if curve.exists() else ():
        step, at = int(point.pop("step")), int(point.pop("at", run.at))
        point |= {name.replace(NATS, BITS): bits(value) for name, value in point.items() if name.endswith(NATS)}
        # VAL is sent last, so if MLflow has it, it has all values of this step
        points += [(name, point[name], at, step) for name in sorted(point, key=lambda name: name == VAL)]
    return points


@contextlib.contextmanager
def _copied(path: str, files: Mapping[str, Path]) -> Iterator[Path]:
    """Copy an output from DVC's cache into a temporary folder under its own name. MLflow rejects links."""
    with tempfile.TemporaryDirectory(prefix="bukva-") as folder:
        output = Path(folder, Path(path).name)
        for name, file in files.items():
            (output / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(file, output / name)
        yield output


def _send_output(store: Store, run: Run, path: str, file: Path, at: int, run_id: str, parent: "MlflowRun") -> None:
    """Log an output of a stage as an artifact or a model, and the numbers in it as metrics."""
    both = run_id, parent.info.run_id
    if model := next((model for model in trained_models().values() if model.folder.as_posix() == path), None):
        log_model(store, run, model.name, file, both if model.name == MAIN else both[:1], _params(run, is_own=True))
        return
    for each in both if path == paths()["samples"] else both[:1]:
        store.client.log_artifact(each, str(file))
    if path == paths()["metrics"]:
        send_scores(store, run, read_json(file), at, run_id, parent)
    elif path == paths()["cleaning"]:
        store.log(run_id, [(name, n, at, 0) for name, n in read_json(file).items() if isinstance(n, int)])
    elif path == paths()["split_report"]:
        store.log(run_id, [(f"{name}_chars", part["chars"], at, 0) for name, part in read_json(file).items()])


def _dataset(split: Mapping[str, Any]) -> "DatasetInput":
    from mlflow.entities import Dataset, DatasetInput, InputTag

    source, profile = json.dumps(split["source"]), json.dumps(split["profile"])
    dataset = Dataset(split["name"], split["digest"], "dvc", source, profile=profile)
    return DatasetInput(dataset, [InputTag("mlflow.data.context", USES[split["split"]])])


# ---- runs of stages and experiments


def _parent(known: "Mapping[str, MlflowRun]", numerics: str) -> "MlflowRun | None":
    """Return the run of the experiment that describes a training with these numerics, or None."""
    parents = _parents(known)
    by_numerics = {each.data.tags.get(NUMERICS, ""): each for each in reversed(parents)}
    return by_numerics.get(numerics) or by_numerics.get("") or (None if numerics else next(iter(parents), None))


def _parents(known: "Mapping[str, MlflowRun]") -> "list[MlflowRun]":
    """Return the runs of the experiment, one for each training with other numerics, oldest first."""
    return sorted((each for each in known.values() if RUN not in each.data.tags), key=lambda each: each.info.start_time)


def _unique_label(store: Store, run: Run, known: "Mapping[str, MlflowRun]", numerics: str) -> str:
    """Return a name for a new run of an experiment that no other experiment or training has."""
    shown, changes = run.shown, run.label.removeprefix(run.shown)
    others = [each for each in store.named(shown) if each.data.tags["bukva.commit"] != run.commit]
    for each in others:  # earlier experiments of this name also get the commit from which they started
        rest = each.info.run_name.removeprefix(shown)
        if not rest.startswith("@"):
            name = f"{shown}@{each.data.tags['bukva.commit'][:7]}{rest}"
            store.client.update_run(each.info.run_id, name=name[:MAX_NAME_CHARS])
    if others:
        shown += f"@{run.commit[:7]}"
    for first in _parents(known)[:1]:  # for example, this training ran on another machine
        its_own = first.data.tags[NUMERICS].split(", ")
        differing = [each for each in numerics.split(", ") if each not in its_own]
        changes += f"{',' if changes else ':'} {', '.join(few(differing))}"
    return shown + changes


def _create_stage_run(store: Store, run: Run, known: "Mapping[str, MlflowRun]", parent: "MlflowRun") -> "MlflowRun":
    n_earlier = sum(each.data.tags.get("bukva.stage") == run.stage for each in known.values())
    number = f" {n_earlier + 1}" if n_earlier else ""  # executed again, or on another machine
    tags = {
        "bukva.stage": run.stage,
        "bukva.kind": run.kind,
        "bukva.restored": str(run.restored).lower(),
        RUN: run.id,
        PARENT: parent.info.run_id,
    }
    return _create(store, run, f"{parent.info.run_name.partition(':')[0]}/{run.stage}{number}", tags)


def _create(store: Store, run: Run, name: str, more_tags: Mapping[str, str] = {}) -> "MlflowRun":
    tags = {
        "bukva.experiment": run.experiment,
        KEY: run.key,
        "bukva.commit": run.commit,
        "mlflow.source.type": "LOCAL",
        "mlflow.source.name": "dvc.yaml",
        "mlflow.user": run.user,
        "bukva.processor": run.processor,
        **more_tags,
    }
    # the commit does not contain edited code
    tags |= {"bukva.edited": run.edits} if run.edited else {"mlflow.source.git.commit": run.commit}
    return store.client.create_run(store.experiment_id, run.at, tags, name[:MAX_NAME_CHARS])


def _set_status(store: Store, run_id: str, status: str, ended_at: int | None) -> None:
    if status == "RUNNING":
        store.client.update_run(run_id, status)
    else:
        store.client.set_terminated(run_id, status, ended_at)


def _update_parent(store: Store, run: Run, parent_id: str) -> None:
    """Update the status of an experiment's run, and its description unless a user has edited it."""
    known = store.runs(run.key)
    parent, below = known[parent_id], [each for each in known.values() if each.data.tags.get(PARENT) == parent_id]
    newest = max(below, key=lambda each: each.info.start_time).info
    _set_status(store, parent_id, newest.status, newest.end_time)
    text, tags = _description(run, below, parent.data.metrics), parent.data.tags
    if tags.get(DESCRIBED, digest("")) == digest(tags.get(DESCRIPTION, "")):
        store.log(parent_id, tags={DESCRIPTION: text, DESCRIBED: digest(text)})


def _description(run: Run, below: "Iterable[MlflowRun]", metrics: Mapping[str, float]) -> str:
    """Describe an experiment in Markdown: what it changed, its scores, and which models it trained."""
    lines, commit = list[str](), f"commit `{run.commit[:7]}`"
    if changed := ", ".join(f"`{each}`" for each in [*run.changed, *few(run.edited)]):
        lines.append(f"Differs from {commit} in {changed}.")
    elif run.commit:
        lines.append(f"Same parameters and code as {commit}.")
    scores = [(model.label, f"{name}.{SPLIT}") for name, model in reversed(trained_models().items())]
    if texts := [f"{label} **{metrics[score]:.3f}**" for label, score in scores if score in metrics]:
        lines.append(f"Scores on {SPLIT}, bits per character: {', '.join(texts)}.")
    finished = [each.data.tags for each in below if each.info.status == "FINISHED"]
    trainings = [tags for tags in finished if tags["bukva.kind"] == "training"]
    for how, restored in (("Trained", "false"), ("Restored by DVC from its run cache", "true")):
        if names := {tags["bukva.stage"] for tags in trainings if tags["bukva.restored"] == restored}:
            lines.append(f"{how}: {', '.join(sorted(names))}.")
    return "  \n".join(lines)  # two spaces at the end of a line are a line break


if __name__ == "__main__":
    if os.environ.get(LATER):
        sys.exit()
    warnings.simplefilter("ignore")  # warnings of other packages do not help users
    gc.set_threshold(50_000)  # by default, a seventh of the time of importing mlflow is spent looking for garbage
    try:
        if len(sys.argv) == 1:
            print(sync())
        elif not (opened := open_run(Path(sys.argv[2]))) or not follow(opened):
            sys.exit(1)
    except BukvaError as error:
        sys.exit(str(error))
    finally:
        gc.freeze()  # otherwise Python looks for garbage in all imported modules before it ends
