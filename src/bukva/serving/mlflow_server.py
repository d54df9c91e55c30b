"""Show the MLflow store in a local server."""

import contextlib
import os
import signal
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from urllib.parse import urlencode, urlsplit

from bukva.core.errors import BukvaError
from bukva.core.processes import HOST, LOG, free_port, is_listening, start_detached
from bukva.tracking.record import start_sync
from bukva.tracking.store import connect, errors_in_one_line, tracking_uri

PORT = 5000
STOP_SECONDS = 10
EXPERIMENTS = {  # URL query that shows the runs of experiments and hides the runs of their stages
    "searchFilter": "tags.`bukva.experiment` != '' AND tags.`bukva.stage` IS NULL",
    "orderByKey": "metrics.`gpt.val`",
    "orderByAsc": "true",
    "compareRunsMode": "CHART",
}


@dataclass(frozen=True)
class Server:
    """An MLflow server. `process` is None if bukva did not start it."""

    address: str
    process: "subprocess.Popen[bytes] | None" = None

    def is_ready(self) -> bool:
        """Return whether the server accepts connections, if bukva started it. BukvaError: its process has ended."""
        if self.process is None:
            return True
        if self.process.poll() is not None:
            raise BukvaError(f"The MLflow server stopped unexpectedly. See {LOG} for the reason.")
        return is_listening(urlsplit(self.address).port or 0)

    def page(self, experiment: str = "") -> str:
        """Return the URL of the page with the runs of an experiment, or with charts of all experiments."""
        runs = EXPERIMENTS
        if experiment:  # its name may contain quotes
            mark = '"' if "'" in experiment else "'"
            operator, pattern = ("LIKE", experiment.replace(mark, "_")) if mark in experiment else ("=", experiment)
            runs = {"searchFilter": f"tags.`bukva.experiment` {operator} {mark}{pattern}{mark}"}
        query = urlencode({"workflowType": "machine_learning", **runs})  # else MLflow opens its GenAI page
        with errors_in_one_line():
            return f"{self.address}/#/experiments/{connect().experiment_id}/runs?{query}"


@contextlib.contextmanager
def mlflow_server(port: int = PORT) -> Iterator[Server]:
    """Yield the MLflow server of MLFLOW_TRACKING_URI, or run a local one at this port or the next free one.

    All results of this machine are sent to MLflow in the background.
    """
    uri = tracking_uri()
    start_sync()  # send killed trainings, and of stages after which DVC skipped stage publish
    parts = urlsplit(uri)
    if parts.scheme in ("http", "https"):
        host = parts.netloc.rpartition("@")[2]  # without user and password
        yield Server(f"{parts.scheme}://{host}{parts.path.rstrip('/')}")
        return
    port = free_port(port)
    environment = {
        # by default MLflow starts about fifteen processes for jobs, which bukva does not use
        "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false",
        # if this were an argument, all users of this machine could see a password in the URI
        "MLFLOW_BACKEND_STORE_URI": uri,
        "MLFLOW_UVICORN_OPTS": "--log-level warning",
        "PYTHONWARNINGS": "ignore",
    }
    process = start_detached("mlflow", "server", "--workers", "1", "--host", HOST, "--port", str(port), **environment)
    try:
        yield Server(f"http://{HOST}:{port}", process)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGTERM)  # the server and its child processes
        try:
            process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:  # a request may never end
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
