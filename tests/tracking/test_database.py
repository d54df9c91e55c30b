"""The database as MLflow's store: of another version of MLflow, broken, or copied from another folder."""

import contextlib
import shutil
import sqlite3
import time
from pathlib import Path

import pytest
from sqlalchemy.exc import DatabaseError

from bukva.base.errors import BukvaError
from bukva.base.files import write_text
from bukva.tracking.address import explain
from bukva.tracking.reading import read_journals
from bukva.tracking.store import connect
from bukva.tracking.sync import View, open_store
from bukva.tracking.writing import Log

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning"),
]


def train(params, steps=range(3)):
    log = Log("train-gpt", params)
    for step in steps:
        log.metrics({"val_nats_per_char": 1.0}, step)
    write_text(Path("weights"), "w")
    log.artifact(Path("weights"))
    log.end("FINISHED")


def state(folder):
    """Time and bytes of all files below a folder."""
    return {file: (file.stat().st_mtime_ns, file.read_bytes()) for file in folder.rglob("*") if file.is_file()}


def enter(folder, monkeypatch):
    monkeypatch.setenv("DVC_ROOT", str(folder))
    monkeypatch.chdir(folder)


def check_complete(folder, store):
    """Every journal has its run, all points once, and its artifact below this folder."""
    runs = {run.data.tags.get("bukva.journal"): run for run in store.runs()}
    assert set(runs) == {None, *(entry.id for entry in read_journals())}
    for entry in read_journals():
        run = runs[entry.id]
        assert len(store.client.get_metric_history(run.info.run_id, "val_bits_per_char")) == 3
        assert run.info.artifact_uri.startswith((folder / "mlruns").as_uri() + "/")
        assert [file.path for file in store.client.list_artifacts(run.info.run_id)] == ["weights"]


@pytest.fixture
def original(alone, empty_database, params):
    """A project with two trainings in MLflow."""
    shutil.copy(empty_database, alone / "mlflow.db")
    train(params)
    train(params)
    assert View(open_store()).update(read_journals()) == []
    return alone


def test_a_copy_of_a_project_gets_a_database_of_its_own_even_if_the_first_process_is_killed(
    original, params, tmp_path, monkeypatch, capfd
):
    copy, before = Path(shutil.copytree(original, tmp_path / "a copy")), state(original)
    enter(copy, monkeypatch)
    train(params)
    assert connect().runs() == []  # as a process leaves it that is killed before it fills the new database
    assert capfd.readouterr().err == (
        f"{copy}/mlflow.db: its artifacts are in {original}/mlruns, so this project was copied or moved; a new "
        "database is filled from .bukva/journal, and the former one is mlflow.db.of-other-folder-1.\n"
    )
    check_complete(copy, open_store())
    assert not open_store().to_fill
    assert capfd.readouterr().err == ""
    assert (copy / "mlflow.db.of-other-folder-1").read_bytes() == before[original / "mlflow.db"][1]
    assert state(original) == before


def test_a_database_that_projects_share_and_artifacts_where_the_user_chose_stay(original, tmp_path, monkeypatch):
    other = Path(shutil.copytree(original, tmp_path / "copy"))
    with monkeypatch.context() as patch:
        patch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{original / 'mlflow.db'}")
        enter(other, patch)
        assert len(connect().runs()) == 3
    with contextlib.closing(sqlite3.connect(original / "mlflow.db")) as connection:
        connection.execute("UPDATE experiments SET artifact_location = 'file:///big/disk/artifacts'")
        connection.commit()
    assert len(connect().runs()) == 3


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (
            "UPDATE alembic_version SET version_num = '75868b020152'; DROP TABLE scheduler_leases",
            "an older MLflow (their version 75868b020152)",
        ),
        (
            "UPDATE alembic_version SET version_num = 'ffffffffffff'",
            "a newer MLflow (their version ffffffffffff is unknown here)",
        ),
        ("", "file is not a database"),
    ],
)
def test_a_database_that_cannot_be_used_is_reported_at_once_and_not_changed(database, change, reason):
    if change:
        with contextlib.closing(sqlite3.connect(database)) as connection:
            connection.executescript(change)
    else:
        database.write_text("not a database" * 1000)
    before, started_at = database.read_bytes(), time.monotonic()
    with pytest.raises((BukvaError, DatabaseError)) as raised:
        connect()
    assert reason in explain(raised.value)
    assert time.monotonic() - started_at < 30  # MLflow tries for 100 s
    assert database.read_bytes() == before
