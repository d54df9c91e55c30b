"""The page that the printed address opens, and what error messages show."""

import json
import math
from urllib.parse import parse_qs, urlsplit

import pytest
from tracking.runs import sync

from bukva.base.errors import BukvaError
from bukva.tracking.address import explain, redact_secrets, tracking_uri
from bukva.tracking.entries import DESCRIPTION
from bukva.tracking.store import connect
from bukva.tracking.ui import Server, mlflow_server
from bukva.tracking.writing import Log

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning")


def experiment_tags():
    store = connect()
    return dict(store.client.get_experiment(store.experiment_id).tags)


@pytest.mark.slow
def test_the_address_opens_all_gpts_in_charts_where_the_better_half_of_them_ended(database, params):
    for stage, *bits in (("train-bigram", 7.0, 2.2), ("train-gpt", 6.0, 2.5), ("train-gpt", 6.0, 2.4)):
        log = Log(stage, params)
        for step, value in enumerate(bits):
            log.metrics({"val_nats_per_char": value * math.log(2), "best_val_nats_per_char": value * math.log(2)}, step)
        log.end("FINISHED")
    assert sync() == []
    printed = Server("http://127.0.0.1:5005").page()
    query = parse_qs(urlsplit(printed.replace("#/", "")).query)
    view = json.loads(experiment_tags()["mlflow.sharedViewState.bukva"])
    assert query["viewStateShareKey"] == ["bukva"]
    assert (view["searchFilter"], view["orderByAsc"]) == ("tags.`bukva.stage` = 'train-gpt'", True)
    sections = {section["uuid"] for section in view["compareRunSections"]}
    for chart in view["compareRunCharts"]:
        assert chart["metricKey"] == "val_bits_per_char"
        assert chart["metricSectionId"] in sections
        assert chart["range"] == {"yMin": 2.3, "yMax": 2.8}
    assert f"({printed.removeprefix('http://127.0.0.1:5005/')})" in experiment_tags()[DESCRIPTION]
    store = connect()
    store.client.set_experiment_tag(store.experiment_id, DESCRIPTION, "of a person")
    Server("http://127.0.0.1:5005").page()
    assert experiment_tags()[DESCRIPTION] == "of a person"


@pytest.mark.slow
def test_a_store_that_does_not_answer_is_one_sentence_without_the_password(project, monkeypatch):
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://me:secret@127.0.0.1:9")
    with mlflow_server() as server, pytest.raises(BukvaError, match=r"MLflow cannot be opened\. .*refused") as raised:
        server.page()
    assert "secret" not in server.address + str(raised.value)


@pytest.mark.parametrize(
    ("uri", "meant"),
    [
        ("", "sqlite:///{project}/mlflow.db"),
        ("sqlite:///db/mlflow.db", "sqlite:///{project}/db/mlflow.db"),
        ("sqlite:////db/mlflow.db", "sqlite:////db/mlflow.db"),
        ("postgresql://u:p@host/mlflow", "postgresql://u:p@host/mlflow"),
    ],
)
def test_only_the_relative_path_of_a_database_is_changed(project, monkeypatch, uri, meant):
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
def test_passwords_and_tokens_are_removed(monkeypatch, text, shown):
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "postgresql://host/db?user=me&password=c%40rrect")
    monkeypatch.setenv("MLFLOW_TRACKING_PASSWORD", "b@ttery")
    monkeypatch.setenv("MLFLOW_TRACKING_TOKEN", "a-t0ken")
    assert redact_secrets(text) == shown


def test_an_error_is_explained_in_one_line_by_its_innermost_cause():
    wrapped = RuntimeError("call failed: [Errno 111] Connection refused, call ...\nTraceback")
    wrapped.__context__ = ConnectionRefusedError("[Errno 111] Connection refused\nnobody there")
    assert explain(wrapped) == "ConnectionRefusedError: [Errno 111] Connection refused"
    assert explain(BukvaError("The disk is full.")) == "The disk is full."
    assert len(explain(ValueError("page " * 1000))) < 400
