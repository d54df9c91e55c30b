"""What an MLflow store shows, as tests name it."""

from bukva.tracking.journal import read_journals
from bukva.tracking.store import connect
from bukva.tracking.sync import send_journals


def sync():
    """Fill MLflow from all journals; what could not be shown."""
    return send_journals(connect(), read_journals())


def short_name(run):
    """The stage, or the name of a whole experiment."""
    return run.data.tags.get("bukva.stage", run.data.tags["bukva.experiment"])


def by_name(store):
    """The runs by their short names, each of which is there once."""
    runs = store.runs()
    named = {short_name(run): run for run in runs}
    assert len(named) == len(runs)
    return named


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
