"""Functions that record stages, and read what an MLflow store shows."""

import contextlib
import hashlib
import json
from pathlib import Path

from bukva.core.files import project_root
from bukva.tracking.record import Recorder, read_runs
from bukva.tracking.store import connect
from bukva.tracking.sync import fill


def cache(path):
    """Store an output in DVC's cache of the project, as DVC does when its stage has ended, and return its digest."""

    def store(content, suffix=""):
        md5 = hashlib.md5(content).hexdigest() + suffix
        file = project_root() / ".dvc/cache/files/md5" / md5[:2] / md5[2:]
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content)
        return md5

    if path.is_file():
        return store(path.read_bytes())
    files = sorted(file for file in path.rglob("*") if file.is_file())
    listed = [{"md5": store(file.read_bytes()), "relpath": file.relative_to(path).as_posix()} for file in files]
    return store(json.dumps(listed).encode(), ".dir")


@contextlib.contextmanager
def stage(name, params, status="FINISHED", **more):
    """Record a stage, whose outputs the block writes, and store them in DVC's cache."""
    recorder = Recorder(name, params, **more)
    yield recorder
    recorder.end(status)
    for out in read_runs(key=recorder.run.key)[-1].state()[0]["outs"]:
        cache(Path(out))


def finish(name, params, status="FINISHED", **more):
    with stage(name, params, status, **more):
        pass


def sync():
    """Fill MLflow from all records, and return the store."""
    store = connect()
    assert fill(store, read_runs()) == []
    return store


def every(store, condition="tags.`bukva.key` != ''"):
    """The runs of bukva that are not deleted, the newest first."""
    return list(store.client.search_runs([store.experiment_id], condition))


def by_name(store):
    """The runs by the name of their stage, or of the experiment, each of which is there once."""
    runs = every(store)
    named = {run.data.tags.get("bukva.stage", run.data.tags["bukva.experiment"]): run for run in runs}
    assert len(named) == len(runs)
    return named


def whole(store):
    """The run of the only experiment."""
    [run] = every(store, "tags.`bukva.stage` IS NULL")
    return run


def points(store, run, name):
    history = store.client.get_metric_history(run.info.run_id, name)
    return [(point.step, point.value, point.timestamp) for point in history]


def files(store, run, folder=None):
    found = []
    for entry in store.client.list_artifacts(run.info.run_id, folder):
        found += files(store, run, entry.path) if entry.is_dir else [(entry.path, entry.file_size)]
    return found
