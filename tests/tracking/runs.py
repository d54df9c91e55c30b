"""What an MLflow store shows, as tests name it."""

from bukva.tracking.journal import read_journals
from bukva.tracking.store import connect
from bukva.tracking.sync import send_journals


def sync():
    """Fill MLflow from all journals, and return the store."""
    store = connect()
    assert send_journals(store, read_journals()) == []
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
    """Step, value and time of each point of a metric."""
    history = store.client.get_metric_history(run.info.run_id, name)
    return [(point.step, point.value, point.timestamp) for point in history]


def files(store, run, folder=None):
    """Path and size of each artifact."""
    found = []
    for entry in store.client.list_artifacts(run.info.run_id, folder):
        found += files(store, run, entry.path) if entry.is_dir else [(entry.path, entry.file_size)]
    return found
