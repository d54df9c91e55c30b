"""The page that the printed address opens, and what error messages show."""

import json
import math
import shutil
import time
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import psutil
import pytest

from bukva.base.errors import BukvaError
from bukva.config.schema import Params
from bukva.tracking.address import explain, redact_secrets, tracking_uri
from bukva.tracking.entries import DESCRIPTION
from bukva.tracking.reading import read_journals
from bukva.tracking.store import connect
from bukva.tracking.sync import View
from bukva.tracking.ui import Server, mlflow_server
from bukva.tracking.writing import Log

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning")


def experiment_tags() -> dict[str, str]:
    store = connect()
    return dict(store.client.get_experiment(store.experiment_id).tags)


def shared_view() -> dict[str, Any]:
    view: dict[str, Any] = json.loads(experiment_tags()["mlflow.sharedViewState.bukva"])
    return view


def test_the_address_opens_all_gpts_in_charts_of_bits_per_character(database: Path) -> None:
    printed = Server("http://127.0.0.1:5005").page()
    page = urlsplit(printed.replace("#/", ""))
    query = parse_qs(page.query)
    store = connect()
    tags, view = experiment_tags(), shared_view()
    assert query["viewStateShareKey"] == ["bukva"]
    assert f"({printed.removeprefix('http://127.0.0.1:5005/')})" in tags[DESCRIPTION]
    assert (page.netloc, page.path) == ("127.0.0.1:5005", f"/experiments/{store.experiment_id}/runs")
    assert query["compareRunsMode"] == ["CHART"]
    assert query["workflowType"] == ["machine_learning"]
    assert view["searchFilter"] == "tags.`bukva.stage` = 'train-gpt'"
    assert view["orderByKey"] == "metrics.`best_val_bits_per_char`"
    assert view["selectedColumns"] == ["metrics.`gpt.val`"]
    assert {chart["metricKey"] for chart in view["compareRunCharts"]} == {"val_bits_per_char"}
    names = {section["uuid"]: section["name"] for section in view["compareRunSections"]}
    assert [names[chart["metricSectionId"]] for chart in view["compareRunCharts"]] == [
        "Val bits/char by step",
        "Val bits/char by chars seen",
    ]


def test_a_description_that_a_person_wrote_stays_and_ours_is_renewed(database: Path) -> None:
    store = connect()
    store.client.set_experiment_tag(store.experiment_id, DESCRIPTION, "[Open the charts again](elsewhere) after F5")
    Server("http://127.0.0.1:5005").page()
    assert experiment_tags()[DESCRIPTION].startswith("[Open the charts of all GPTs](#/")
    store.client.set_experiment_tag(store.experiment_id, DESCRIPTION, "ours")
    Server("http://127.0.0.1:5005").page()
    assert experiment_tags()[DESCRIPTION] == "ours"


def test_the_charts_show_where_the_better_half_of_the_trainings_ended(database: Path, params: Params) -> None:
    Server("http://127.0.0.1:5005").page()
    assert {str(chart["range"]) for chart in shared_view()["compareRunCharts"]} == {"{}"}
    for stage, *bits in (("train-bigram", 7.0, 2.2), ("train-gpt", 6.0, 2.5), ("train-gpt", 6.0, 2.4)):
        log = Log(stage, params)
        for step, value in enumerate(bits):
            log.metrics({"val_nats_per_char": value * math.log(2), "best_val_nats_per_char": value * math.log(2)}, step)
        log.end("FINISHED")
    assert View(connect()).update(read_journals()) == []  # without another bukva ui
    for chart in shared_view()["compareRunCharts"]:
        assert chart["range"] == {"yMin": 2.3, "yMax": 2.8}


def test_the_runs_of_an_experiment_have_an_address(database: Path) -> None:
    link = urlsplit(Server("http://127.0.0.1:5005").page("two-heads"))
    path, _, query = link.fragment.partition("?")
    experiment = connect().client.get_experiment(path.split("/")[2])
    assert experiment.name == "bukva"
    assert parse_qs(query)["searchFilter"] == ["tags.`bukva.experiment` = 'two-heads'"]


def test_a_store_that_does_not_answer_is_one_sentence_without_the_password(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://me:secret@127.0.0.1:9")
    with mlflow_server() as server, pytest.raises(BukvaError, match=r"MLflow cannot be opened\. .*refused") as raised:
        assert server.is_ready()
        server.page()
    assert "secret" not in server.address + str(raised.value)


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
def test_the_server_accepts_connections_from_this_machine_only_and_ends_with_the_block(
    project: Path, empty_database: Path
) -> None:
    shutil.copy(empty_database, project / "mlflow.db")
    with mlflow_server() as server:
        until = time.monotonic() + 60
        while not server.is_ready():
            assert time.monotonic() < until
            time.sleep(0.2)
        assert server.process
        family = [psutil.Process(server.process.pid), *psutil.Process(server.process.pid).children(recursive=True)]
        sockets = [one for each in family for one in each.net_connections("inet")]
    assert urlsplit(server.address).port in {one.laddr.port for one in sockets if one.status == psutil.CONN_LISTEN}
    assert {one.laddr.ip for one in sockets} == {"127.0.0.1"}
    assert not [each for each in family if each.is_running()]
    with pytest.raises(BukvaError, match="MLflow has ended by itself"):
        server.is_ready()
