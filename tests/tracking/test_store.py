"""The store: its address without secrets, the page that it opens, and a database that was copied or is broken."""

import shutil
import sqlite3
import time
from urllib.parse import unquote_plus

import pytest
from sqlalchemy.engine import make_url
from tracking.runs import every, finish, stage, sync

from bukva.core.errors import BukvaError
from bukva.core.files import write_text
from bukva.serving.mlflow_server import Server, mlflow_server
from bukva.tracking.store import connect, database_path, store_name, tracking_uri

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning")


@pytest.mark.slow
def test_the_address_opens_all_experiments_or_one_of_them_whatever_quotes_its_name_has(database, params, monkeypatch):
    names = ["wide", "o'brien", 'say "a"', """it's "a" one"""]
    for name in names:
        monkeypatch.setenv("DVC_EXP_NAME", name)
        finish("clean", params)
    store, server = sync(), Server("http://127.0.0.1:5005")

    def shown(*name):
        page = unquote_plus(server.page(*name))
        assert page.startswith("http://127.0.0.1:5005/#/experiments/1/runs?workflowType=machine_learning&")
        condition, _, rest = page.partition("searchFilter=")[2].partition("&")
        return sorted(run.data.tags["bukva.experiment"] for run in every(store, condition)), rest

    assert shown() == (sorted(names), "orderByKey=metrics.`gpt.val`&orderByAsc=true&compareRunsMode=CHART")
    for name in names:
        assert shown(name) == ([name, name], "")


@pytest.mark.slow
def test_the_database_of_a_project_is_in_the_project_whatever_its_path(alone, params, monkeypatch):
    folder = "мой a%20b%3F?c#d'e\"f&g=h :про@ект"
    root = alone / folder / "bukva"
    shutil.copytree(alone / ".dvc", root / ".dvc")
    monkeypatch.setenv("BUKVA_ROOT", str(root))
    monkeypatch.chdir(root)
    with stage("sample", params):
        write_text(root / "reports/samples.md", "written")
    sync()
    assert {path.relative_to(alone).parts[0] for path in alone.rglob("*")} == {".dvc", folder}
    assert (root / "mlflow.db").is_file()
    assert [path.read_text() for path in root.glob("mlruns/*/artifacts/samples.md")] == ["written"] * 2
    assert store_name() == str(root / "mlflow.db")


@pytest.mark.slow
def test_a_store_that_does_not_answer_is_one_sentence_without_the_password(project, monkeypatch):
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://me:secret@127.0.0.1:9")
    with mlflow_server() as server, pytest.raises(BukvaError, match=r"^http://.*: .*refused") as raised:
        server.page()
    assert "secret" not in server.address + str(raised.value)


@pytest.mark.parametrize(
    ("uri", "name"),
    [
        ("", "{project}/mlflow.db"),
        ("sqlite:///db/mlflow.db", "{project}/db/mlflow.db"),
        ("sqlite+pysqlite:///db/mlflow.db", "{project}/db/mlflow.db"),
        ("sqlite:////db/mlflow.db", "/db/mlflow.db"),
        ("sqlite:////a%3Fb/mlflow.db", "/a?b/mlflow.db"),
        ("postgresql://u:p@host/mlflow", "postgresql://***@host/mlflow"),
    ],
)
def test_the_path_of_a_database_is_made_absolute_and_another_address_stays(project, monkeypatch, uri, name):
    monkeypatch.setenv("MLFLOW_TRACKING_URI", uri)
    name = name.format(project=project)
    if "@" in uri:
        assert (tracking_uri(), database_path()) == (uri, None)
    else:
        assert make_url(tracking_uri()).database == str(database_path()) == name
    assert store_name() == name


@pytest.mark.parametrize("uri", ["localhost:5000", "me:secret@host:5000", "/tmp/mlruns", "file:///tmp/mlruns"])
def test_an_address_that_is_no_store_is_one_sentence_before_anything_starts(project, monkeypatch, uri):
    monkeypatch.setenv("MLFLOW_TRACKING_URI", uri)
    for start in (connect, mlflow_server().__enter__):
        with pytest.raises(BukvaError) as error:
            start()
        assert str(error.value) == (
            f"MLFLOW_TRACKING_URI is '{uri.replace('me:secret', '***')}', but must be the URI of a server or a "
            "database. MLflow no longer supports folders. Use http://HOST:5000 or sqlite:////PATH/mlflow.db."
        )
    assert not (project / ".bukva").exists()


@pytest.mark.slow
def test_a_broken_database_is_reported_at_once_and_not_changed(database):
    database.write_text("not a database" * 1000)
    before, started_at = database.read_bytes(), time.monotonic()
    with pytest.raises(sqlite3.DatabaseError, match="file is not a database"):
        connect()
    assert time.monotonic() - started_at < 30  # MLflow tries for 100 s
    assert database.read_bytes() == before


@pytest.mark.slow
def test_a_copied_project_does_not_write_into_the_first_one_and_is_filled_when_the_database_is_removed(
    database, params, tmp_path, monkeypatch
):
    finish("clean", params)
    sync()
    copy = tmp_path / "copy"
    shutil.copytree(database.parent, copy)
    monkeypatch.setenv("BUKVA_ROOT", str(copy))
    with pytest.raises(BukvaError, match=r"this project was copied or moved\. Delete the database"):
        connect()
    (copy / database.name).unlink()
    store = sync()
    assert len(every(store)) == 2
    assert store.client.get_experiment(store.experiment_id).artifact_location == (copy / "mlruns").as_uri()
