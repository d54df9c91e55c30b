"""The database as MLflow's store: of another version of MLflow, broken, or copied from another folder."""

import contextlib
import shutil
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import pytest
from sqlalchemy.exc import DatabaseError

from bukva.base.errors import BukvaError
from bukva.base.files import write_text
from bukva.config.schema import Params
from bukva.tracking.address import explain
from bukva.tracking.reading import read_journals
from bukva.tracking.store import Store, connect
from bukva.tracking.sync import View, open_store
from bukva.tracking.writing import Log

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning")


def train(params: Params, steps: range = range(3)) -> None:
    log = Log("train-gpt", params)
    for step in steps:
        log.metrics({"val_nats_per_char": 1.0}, step)
    write_text(Path("weights"), "w")
    log.artifact(Path("weights"))
    log.end("FINISHED")


def state(folder: Path) -> dict[Path, tuple[int, bytes]]:
    """Time and bytes of all files below a folder."""
    return {file: (file.stat().st_mtime_ns, file.read_bytes()) for file in folder.rglob("*") if file.is_file()}


def enter(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DVC_ROOT", str(folder))
    monkeypatch.chdir(folder)


def check_complete(folder: Path, store: Store) -> None:
    """Every journal has its run, all points once, and its artifact below this folder."""
    runs = {run.data.tags.get("bukva.journal"): run for run in store.runs()}
    assert set(runs) == {None, *(entry.id for entry in read_journals())}
    for entry in read_journals():
        run = runs[entry.id]
        assert len(store.client.get_metric_history(run.info.run_id, "val_bits_per_char")) == 3
        assert run.info.artifact_uri.startswith((folder / "mlruns").as_uri() + "/")
        assert [file.path for file in store.client.list_artifacts(run.info.run_id)] == ["weights"]


@pytest.fixture
def original(project: Path, empty_database: Path, params: Params) -> Path:
    """A project with two trainings in MLflow."""
    shutil.copy(empty_database, project / "mlflow.db")
    train(params)
    train(params)
    assert View(open_store()).update(read_journals()) == []
    return project


@pytest.mark.slow
@pytest.mark.parametrize("kept", ["copied", "moved"])
def test_the_database_of_a_project_that_was_copied_or_moved_is_replaced(
    original: Path,
    params: Params,
    kept: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    other, bytes_before = tmp_path / "copy of it", (original / "mlflow.db").read_bytes()
    (shutil.copytree if kept == "copied" else shutil.move)(original, other)
    before = state(original)
    enter(other, monkeypatch)
    train(params)
    if kept == "moved":
        assert connect().runs() == []  # a process that is killed before it fills the new database leaves it so
    store = open_store()
    assert capfd.readouterr().err == (
        f"{other}/mlflow.db: its artifacts are in {original}/mlruns, so this project was copied or moved; a new "
        "database is filled from .bukva/journal, and the former one is mlflow.db.of-other-folder-1.\n"
    )
    check_complete(other, store)
    assert (other / "mlflow.db.of-other-folder-1").read_bytes() == bytes_before
    assert not open_store().to_fill
    assert capfd.readouterr().err == ""
    assert state(original) == before
    assert bool(before) is (kept == "copied")


@pytest.mark.slow
def test_processes_that_open_a_copy_at_the_same_time_replace_its_database_once(
    original: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = Path(shutil.copytree(original, tmp_path / "copy"))
    before = state(original)
    enter(other, monkeypatch)
    command = [sys.executable, "-m", "bukva.tracking", "sync"]
    processes = [subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) for _ in range(3)]
    printed = b"".join(process.communicate()[1] for process in processes)
    assert [process.returncode for process in processes] == [0, 0, 0]
    assert printed.count(b"this project was copied or moved") == printed.count(b"\n") == 1
    assert [file.name for file in other.glob("mlflow.db?*")] == ["mlflow.db.of-other-folder-1"]
    check_complete(other, connect())
    assert state(original) == before


@pytest.mark.parametrize("location", ["file:///big/disk/artifacts", "mlflow-artifacts:/1", "s3://bucket/mlruns"])
def test_artifacts_at_a_place_that_the_user_chose_stay_there(original: Path, location: str) -> None:
    with contextlib.closing(sqlite3.connect(original / "mlflow.db")) as connection:
        connection.execute("UPDATE experiments SET artifact_location = ?", [location])
        connection.commit()
    assert len(connect().runs()) == 3


def test_a_database_that_projects_share_is_not_replaced(
    original: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = Path(shutil.copytree(original, tmp_path / "copy"))
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{original / 'mlflow.db'}")
    enter(other, monkeypatch)
    assert len(connect().runs()) == 3


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (
            "UPDATE alembic_version SET version_num = '75868b020152'; DROP TABLE scheduler_leases",
            "an older MLflow (their version 75868b020152)",
        ),
        ("UPDATE alembic_version SET version_num = '75868b020152'", "run: mlflow db upgrade 'sqlite:///"),
        (
            "UPDATE alembic_version SET version_num = 'ffffffffffff'",
            "a newer MLflow (their version ffffffffffff is unknown here)",
        ),
        ("", "file is not a database"),
    ],
)
def test_a_database_that_cannot_be_used_is_reported_at_once_and_not_changed(
    database: Path, change: str, sentence: str
) -> None:
    if change:
        with contextlib.closing(sqlite3.connect(database)) as connection:
            connection.executescript(change)
    else:
        database.write_text("not a database" * 1000)
    before, started_at = database.read_bytes(), time.monotonic()
    with pytest.raises((BukvaError, DatabaseError)) as raised:
        connect()
    assert sentence in explain(raised.value)
    assert time.monotonic() - started_at < 30  # MLflow tries for 100 s
    assert database.read_bytes() == before
