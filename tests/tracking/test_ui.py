"""The first thing that a browser shows."""

import json
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest

from bukva.tracking.store import connect, tracking_uri, without_password
from bukva.tracking.ui import address

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning")


def test_the_address_opens_all_trainings_in_one_chart(database: Path) -> None:
    page = urlsplit(address(5005).replace("#/", ""))
    query = parse_qs(page.query)
    store = connect()
    tags = store.client.get_experiment(store.experiment_id).tags
    view = json.loads(tags[f"mlflow.sharedViewState.{query['viewStateShareKey'][0]}"])
    assert (page.netloc, page.path) == ("127.0.0.1:5005", f"/experiments/{store.experiment_id}/runs")
    assert query["compareRunsMode"] == ["CHART"]
    assert query["workflowType"] == ["machine_learning"]
    assert view["searchFilter"] == "tags.`bukva.kind` = 'training'"
    assert {chart["metricKey"] for chart in view["compareRunCharts"]} == {"val_nats_per_char"}


def test_mlflow_lies_in_the_project_wherever_a_stage_runs(database: Path) -> None:
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
def test_another_store_is_taken_as_it_is_named(
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
    ],
)
def test_nobody_reads_passwords(text: str, shown: str) -> None:
    assert without_password(text) == shown
