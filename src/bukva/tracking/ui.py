"""MLflow in a browser, opened where the trainings are compared."""

import json
import os
import sys
from typing import Any, NoReturn
from urllib.parse import urlencode, urlsplit

from bukva.base.files import project_root
from bukva.base.loopback import HOST, free_port
from bukva.tracking import background
from bukva.tracking.address import explain, is_server, tracking_uri
from bukva.tracking.sync import open_store

PORT = 5000
VIEW = "bukva"
NAME = "NAME"


def _section(name: str, section: str) -> dict[str, Any]:
    return {"uuid": section, "name": name, "display": True, "columns": 1, "cardHeight": 500}


def _chart(section: str, **x_axis: str) -> dict[str, Any]:
    return {
        "uuid": "-".join(x_axis.values()),
        "type": "LINE",
        "metricSectionId": section,
        "metricKey": "val_bits_per_char",
        "yAxisKey": "metric",
        "scaleType": "linear",
        "range": {},
        "lineSmoothness": 0,
        "useGlobalLineSmoothing": False,
        "useGlobalXaxisKey": False,
        **x_axis,
    }


# What MLflow's button "Share" stores: all trainings in wide charts, the best first, grouped by experiment. Sorted by
# time, MLflow hides the trainings below their experiments. Each chart has a section of its own, because the title of a
# chart is always the name of its metric (MLflow ignores displayName on this page), and that of a section is free.
SHARED_VIEW = {
    "searchFilter": "tags.`bukva.kind` = 'training'",
    "orderByKey": "metrics.`best_val_bits_per_char`",
    "orderByAsc": True,
    "groupBy": {
        "aggregateFunction": "average",
        "groupByKeys": [{"mode": "tag", "groupByData": "bukva.experiment"}],
    },
    "useGroupedValuesInCharts": False,
    "runsHiddenMode": "FIRST_20_RUNS",
    "isAccordionReordered": True,
    "compareRunSections": [
        _section("Val bits/char by step", "by-step"),
        _section("Val bits/char by chars seen", "by-chars-seen"),
        {"uuid": "metrics", "name": "Model metrics", "display": True},
    ],
    "compareRunCharts": [
        _chart("by-step", xAxisKey="step"),
        _chart("by-chars-seen", xAxisKey="metric", selectedXAxisMetricKey="chars_seen"),
    ],
}


def address(port: int = PORT) -> str:
    """The address of the page with the losses of all trainings in one chart; MLflow's start page is another one.

    Writes the tag of the MLflow experiment in which the page finds its charts.
    """
    store = open_store()
    store.client.set_experiment_tag(store.experiment_id, f"mlflow.sharedViewState.{VIEW}", json.dumps(SHARED_VIEW))
    query = {"workflowType": "machine_learning", "compareRunsMode": "CHART", "viewStateShareKey": VIEW}
    return f"{_server(port)}/#/experiments/{store.experiment_id}/runs?{urlencode(query)}"


def link_to_experiment(port: int = PORT) -> str:
    """The address of the runs of an experiment of bukva, with {} for its name; "" and a sentence if MLflow fails."""
    try:
        store = open_store()
    except Exception as error:  # a page is complete without links
        print(f"There are no links to MLflow. {explain(error)}", file=sys.stderr)
        return ""
    query = {"workflowType": "machine_learning", "searchFilter": f"tags.`bukva.experiment` = '{NAME}'"}
    return f"{_server(port)}/#/experiments/{store.experiment_id}/runs?{urlencode(query)}".replace(NAME, "{}")


def serve(port: int = PORT) -> None:
    """Print the address, and replace this process by its server unless MLFLOW_TRACKING_URI names a running one."""
    port = free_port(port)
    if is_server():
        print(address(port))
    else:
        print(f"Open in a few seconds (Ctrl-C ends it): {address(port)}", flush=True)
        background.start_sync(["*"])  # short trainings, and what a killed process left
        _exec_server(port)


def _server(port: int) -> str:
    return _remote_server() if is_server() else f"http://{HOST}:{port}"


def _remote_server() -> str:
    parts = urlsplit(tracking_uri())
    host = parts.netloc.rpartition("@")[2]  # without user and password
    return f"{parts.scheme}://{host}{parts.path.rstrip('/')}"


def server_command(store: str, port: int) -> tuple[list[str], dict[str, str]]:
    """The command and the environment of an MLflow server for this machine; store is the address of its database."""
    environment = {
        **os.environ,
        # by default MLflow starts some fifteen processes for jobs, which bukva does not have
        "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false",
        # not as an argument: all users of the machine can read command lines, and it may contain a password
        "MLFLOW_BACKEND_STORE_URI": store,
        "MLFLOW_UVICORN_OPTS": "--log-level warning",
        "PYTHONWARNINGS": "ignore",
    }
    command = [sys.executable, "-m", "mlflow", "server", "--workers", "1", "--host", HOST, "--port", str(port)]
    return command, environment


def _exec_server(port: int) -> NoReturn:
    os.chdir(project_root())
    command, environment = server_command(tracking_uri(), port)
    os.execve(sys.executable, command, environment)
