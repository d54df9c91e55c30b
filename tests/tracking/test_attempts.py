"""A training that goes on at another machine has one run in MLflow, and each point once."""

import pytest
from tracking.runs import sync

from bukva.tracking.journal import FILE, Log, read_journals
from bukva.tracking.store import connect

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning"),
]

LOSSES = {100: 3.0, 200: 2.5, 300: 2.25, 400: 2.0}


def history(store):
    """Steps and losses of the only training, which its experiment has too."""
    [run] = [run for run in store.runs() if run.data.tags.get("bukva.stage") == "train-gpt"]
    own, whole = (
        sorted((point.step, point.value) for point in store.client.get_metric_history(run_id, "val_nats_per_char"))
        for run_id in (run.info.run_id, run.data.tags["mlflow.parentRunId"])
    )
    assert own == whole
    return own


def train(log, *steps):
    for step in steps:
        log.metrics({"val_nats_per_char": LOSSES[step]}, step)


@pytest.fixture
def lost(database, params, monkeypatch, tmp_path):
    """A training that is cut off at step 300; its journal was sent at step 200, and is now at another machine.

    The current folder is that of the other machine.
    """
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{database}")
    monkeypatch.setenv("BUKVA_ATTEMPT", "1")
    log = Log("train-gpt", params, training_id="train-gpt-1")
    train(log, 100, 200)
    assert log.folder
    sent = (log.folder / FILE).read_bytes()
    assert sync() == []
    train(log, 300)
    assert sync() == []
    other = tmp_path / "other"
    kept = other / ".bukva" / "journal" / log.folder.parent.name / log.folder.name
    kept.mkdir(parents=True)
    (kept / FILE).write_bytes(sent)
    (other / ".dvc").mkdir()
    monkeypatch.setenv("DVC_ROOT", str(other))
    monkeypatch.setenv("BUKVA_ATTEMPT", "2")
    monkeypatch.chdir(other)
    return log


def test_the_next_attempt_continues_the_run_and_no_point_is_there_twice(lost, params):
    [journal] = read_journals()
    log = Log("train-gpt", params, training_id="train-gpt-1", resumes=True)
    assert log.folder == journal.folder
    train(log, 200, 300)  # from a checkpoint after step 100
    assert sync() == []
    train(log, 400)
    log.end("FINISHED")
    assert sync() == []
    store = connect()
    assert history(store) == sorted(LOSSES.items())
    assert {run.info.status for run in store.runs()} == {"FINISHED"}


def test_a_machine_that_comes_back_adds_nothing(lost, params, monkeypatch):
    Log("train-gpt", params, training_id="train-gpt-1", resumes=True)
    assert sync() == []
    assert lost.folder
    monkeypatch.setenv("DVC_ROOT", str(lost.folder.parents[3]))
    monkeypatch.setenv("BUKVA_ATTEMPT", "1")
    train(lost, 400)
    lost.end("FINISHED")
    [trouble] = sync()
    assert trouble.endswith("another machine has taken over this training")
    assert [step for step, _ in history(connect())] == [100, 200, 300]
