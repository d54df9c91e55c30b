"""MLflow in a browser, opened where the trainings are compared."""

import os
import sys
from pathlib import Path
from typing import NoReturn
from urllib.parse import urlencode, urlsplit

from bukva.base.errors import BukvaError
from bukva.base.files import project_root, write_text
from bukva.base.loopback import HOST, answers, free_port
from bukva.tracking import background
from bukva.tracking.address import explain, is_server, tracking_uri
from bukva.tracking.charts import KEEP, write_view
from bukva.tracking.sync import open_store

PORT = 5000
SERVED = Path(".bukva/ui.port")  # has the port of the last server
NAME = "NAME"


def address(port: int = PORT) -> str:
    """The address of the page with the losses of all trainings in one chart; MLflow's start page is another one.

    Writes what the page shows into the MLflow experiment (charts.py).
    """
    return f"{_server(port)}/{write_view(open_store())}"


def link_to_experiment() -> str:
    """The address of the runs of an experiment of bukva, with {} for its name; "" and a sentence if MLflow fails."""
    try:
        server, experiment = _running_server(), open_store().experiment_id
    except Exception as error:  # a page is complete without links
        print(f"There are no links to MLflow. {explain(error)}", file=sys.stderr)
        return ""
    query = {"workflowType": "machine_learning", "searchFilter": f"tags.`bukva.experiment` = '{NAME}'"}
    return f"{server}/#/experiments/{experiment}/runs?{urlencode(query)}".replace(NAME, "{}")


def serve(port: int = PORT) -> None:
    """Print the address, and replace this process by its server unless MLFLOW_TRACKING_URI names a running one."""
    port = free_port(port)
    if is_server():
        print(f"{address(port)}\n{KEEP}")
    else:
        print(f"Open in a few seconds (Ctrl-C ends it): {address(port)}\n{KEEP}", flush=True)
        write_text(project_root() / SERVED, str(port))
        background.start_sync(["*"])  # short trainings, and what a killed process left
        _exec_server(port)


def _server(port: int) -> str:
    return _remote_server() if is_server() else f"http://{HOST}:{port}"


def _running_server() -> str:
    if is_server():
        return _remote_server()
    served = project_root() / SERVED
    port = int(served.read_text()) if served.exists() else 0
    if not answers(port):
        raise BukvaError("It is not running; start it (bukva ui), then run bukva report again.")
    return _server(port)


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
