"""MLflow in a browser, opened where the trainings are compared."""

import json
import os
import socket
import sys
from typing import Any, NoReturn
from urllib.parse import urlencode, urlsplit

from bukva.base.files import project_root
from bukva.tracking.store import connect, is_server, tracking_uri

HOST = "127.0.0.1"
PORT = 5000
VIEW = "bukva"


def _chart(**x_axis: str) -> dict[str, Any]:
    return {
        "uuid": "-".join(x_axis.values()),
        "type": "LINE",
        "metricSectionId": "losses",
        "metricKey": "val_nats_per_char",
        "yAxisKey": "metric",
        "scaleType": "linear",
        "range": {},
        "lineSmoothness": 0,
        "useGlobalLineSmoothing": False,
        "useGlobalXaxisKey": False,
        **x_axis,
    }


# What MLflow's own button "Share" would keep: all trainings in one wide chart, the best first, by experiment.
# Sorting by anything but time matters: else MLflow folds the trainings away below their experiments.
SHARED_VIEW = {
    "searchFilter": "tags.`bukva.kind` = 'training'",
    "orderByKey": "metrics.`best_val_nats_per_char`",
    "orderByAsc": True,
    "groupBy": {
        "aggregateFunction": "average",
        "groupByKeys": [{"mode": "tag", "groupByData": "bukva.experiment"}],
    },
    "useGroupedValuesInCharts": False,
    "runsHiddenMode": "FIRST_20_RUNS",
    "isAccordionReordered": True,
    "compareRunSections": [
        {"uuid": "losses", "name": "Losses", "display": True, "columns": 1, "cardHeight": 500},
        {"uuid": "metrics", "name": "Model metrics", "display": True},
    ],
    "compareRunCharts": [
        _chart(xAxisKey="step"),
        _chart(xAxisKey="metric", selectedXAxisMetricKey="chars_seen"),
    ],
}


def address(port: int = PORT) -> str:
    """The page with the losses of all trainings over each other, which MLflow by itself would not open.

    It finds its charts in a tag of the MLflow experiment, which this writes.
    """
    store = connect()
    store.client.set_experiment_tag(store.experiment_id, f"mlflow.sharedViewState.{VIEW}", json.dumps(SHARED_VIEW))
    server = _remote_server() if is_server() else f"http://{HOST}:{port}"
    query = {"workflowType": "machine_learning", "compareRunsMode": "CHART", "viewStateShareKey": VIEW}
    return f"{server}/#/experiments/{store.experiment_id}/runs?{urlencode(query)}"


def serve(port: int = PORT) -> None:
    """Print the address, and become the server behind it unless MLFLOW_TRACKING_URI names a running one."""
    port = _free_port(port)
    if is_server():
        print(address(port))
    else:
        print(f"Open in a few seconds (Ctrl-C ends it): {address(port)}", flush=True)
        _become_server(port)


def _remote_server() -> str:
    parts = urlsplit(tracking_uri())
    host = parts.netloc.rpartition("@")[2]  # without user and password
    return f"{parts.scheme}://{host}{parts.path.rstrip('/')}"


def _free_port(port: int) -> int:
    while True:
        with socket.socket() as probe:
            if probe.connect_ex((HOST, port)):  # nobody answers
                return port
        port += 1


def _become_server(port: int) -> NoReturn:
    environment = {
        **os.environ,
        # by default MLflow starts some fifteen processes for jobs that nobody has here
        "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false",
        # not as an argument: everyone on the machine can read command lines, and it may hold a password
        "MLFLOW_BACKEND_STORE_URI": tracking_uri(),
        "MLFLOW_UVICORN_OPTS": "--log-level warning",
        "PYTHONWARNINGS": "ignore",
    }
    os.chdir(project_root())
    command = [sys.executable, "-m", "mlflow", "server", "--workers", "1", "--host", HOST, "--port", str(port)]
    os.execve(sys.executable, command, environment)
