"""The page that the printed address opens, and what error messages show."""

import json
import shutil
import socket
import subprocess
import sys
import time
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import psutil
import pytest

from bukva.base.errors import BukvaError
from bukva.tracking.address import explain, redact_secrets, tracking_uri
from bukva.tracking.store import connect
from bukva.tracking.ui import address, link_to_experiment

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning")


def test_the_address_opens_all_trainings_in_charts_of_bits_per_character(database: Path) -> None:
    page = urlsplit(address(5005).replace("#/", ""))
    query = parse_qs(page.query)
    store = connect()
    tags = store.client.get_experiment(store.experiment_id).tags
    view = json.loads(tags[f"mlflow.sharedViewState.{query['viewStateShareKey'][0]}"])
    assert (page.netloc, page.path) == ("127.0.0.1:5005", f"/experiments/{store.experiment_id}/runs")
    assert query["compareRunsMode"] == ["CHART"]
    assert query["workflowType"] == ["machine_learning"]
    assert view["searchFilter"] == "tags.`bukva.kind` = 'training'"
    assert view["orderByKey"] == "metrics.`best_val_bits_per_char`"
    assert {chart["metricKey"] for chart in view["compareRunCharts"]} == {"val_bits_per_char"}
    names = {section["uuid"]: section["name"] for section in view["compareRunSections"]}
    assert [names[chart["metricSectionId"]] for chart in view["compareRunCharts"]] == [
        "Val bits/char by step",
        "Val bits/char by chars seen",
    ]


def test_the_runs_of_an_experiment_have_an_address(database: Path) -> None:
    link = urlsplit(link_to_experiment(5003).replace("{}", "two-heads"))
    assert link.netloc == "127.0.0.1:5003"
    path, _, query = link.fragment.partition("?")
    experiment = connect().client.get_experiment(path.split("/")[2])
    assert experiment.name == "bukva"
    assert parse_qs(query)["searchFilter"] == ["tags.`bukva.experiment` = 'two-heads'"]


def test_without_mlflow_there_is_no_address_and_one_sentence(
    project: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://127.0.0.1:9")
    assert link_to_experiment() == ""
    [sentence] = capsys.readouterr().err.splitlines()
    assert sentence.startswith("There are no links to MLflow. ")


def test_the_database_and_the_artifacts_are_in_the_project(database: Path) -> None:
    assert tracking_uri() == f"sqlite:///{database}"
    store = connect()
    artifacts = store.client.get_experiment(store.experiment_id).artifact_location
    assert artifacts == (database.parent / "mlruns").as_uri()


@pytest.mark.parametrize(
    ("uri", "meant"),
    [
        ("sqlite:///db/mlflow.db", "sqlite:///{project}/db/mlflow.db"),
        ("sqlite:////db/mlflow.db", "sqlite:////db/mlflow.db"),
        ("https://mlflow.example", "https://mlflow.example"),
        ("postgresql://u:p@host/mlflow", "postgresql://u:p@host/mlflow"),
    ],
)
def test_only_the_relative_path_of_a_database_is_changed(
    project: Path, monkeypatch: pytest.MonkeyPatch, uri: str, meant: str
) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", uri)
    assert tracking_uri() == meant.format(project=project)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("no route to https://me:se/cr@et@host:5000/api", "no route to https://***@host:5000/api"),
        ("postgresql+psycopg2://me:secret@host/db is down", "postgresql+psycopg2://***@host/db is down"),
        ("https://host:5000/api: write to me@host", "https://host:5000/api: write to me@host"),
        ("refused: Basic b@ttery, Bearer a-t0ken, c%40rrect or c@rrect", "refused: Basic ***, Bearer ***, *** or ***"),
    ],
)
def test_passwords_and_tokens_are_removed(monkeypatch: pytest.MonkeyPatch, text: str, shown: str) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "postgresql://host/db?user=me&password=c%40rrect")
    monkeypatch.setenv("MLFLOW_TRACKING_PASSWORD", "b@ttery")
    monkeypatch.setenv("MLFLOW_TRACKING_TOKEN", "a-t0ken")
    assert redact_secrets(text) == shown


def test_an_error_is_explained_in_one_line_by_its_innermost_cause() -> None:
    wrapped = RuntimeError("call failed: [Errno 111] Connection refused, call ...\nTraceback")
    wrapped.__context__ = ConnectionRefusedError("[Errno 111] Connection refused\nnobody there")
    assert explain(wrapped) == "ConnectionRefusedError: [Errno 111] Connection refused"
    assert explain(BukvaError("The disk is full.")) == "The disk is full."
    assert len(explain(ValueError("page " * 1000))) < 400


@pytest.mark.slow
def test_the_server_accepts_connections_from_this_machine_only(project: Path, empty_database: Path) -> None:
    shutil.copy(empty_database, project / "mlflow.db")
    command = [sys.executable, "-m", "bukva.tracking", "serve"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        page = urlsplit(process.stdout.readline().split()[-1])
        until = time.monotonic() + 60
        while socket.socket().connect_ex(("127.0.0.1", page.port)):
            assert time.monotonic() < until
            time.sleep(0.2)
        served_by = [psutil.Process(process.pid), *psutil.Process(process.pid).children(recursive=True)]
        sockets = [one for each in served_by for one in each.net_connections("inet")]
        for each in served_by:
            each.kill()
    assert page.port in {one.laddr.port for one in sockets if one.status == psutil.CONN_LISTEN}
    assert {one.laddr.ip for one in sockets} == {"127.0.0.1"}
