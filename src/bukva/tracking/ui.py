"""MLflow's server for this machine, and the addresses of its pages."""

import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from urllib.parse import urlencode, urlsplit

from bukva.core.errors import BukvaError
from bukva.core.processes import HOST, LOG, answers, free_port, start_detached
from bukva.tracking.journal import start_sync
from bukva.tracking.store import check_address, connect, errors_in_one_line, tracking_uri

PORT = 5000
STOP_SECONDS = 10
EXPERIMENTS = {  # the runs of whole experiments, without those of their stages
    "searchFilter": "tags.`bukva.experiment` != '' AND tags.`bukva.stage` IS NULL",
    "orderByKey": "metrics.`best_val_bits_per_char`",
    "orderByAsc": "true",
    "compareRunsMode": "CHART",
}


@dataclass(frozen=True)
class Server:
    """An MLflow server: its address, and its process if it was started here."""

    address: str
    process: "subprocess.Popen[bytes] | None" = None

    def is_ready(self) -> bool:
        """Whether it answers. Raises a BukvaError if it has ended."""
        if self.process is None:
            return True
        if self.process.poll() is not None:
            raise BukvaError(f"MLflow has ended by itself; the reason is in {LOG}.")
        return answers(urlsplit(self.address).port or 0)

    def page(self, experiment: str = "") -> str:
        """Return the address of the page with the charts of all experiments, or with the runs of one experiment.

        Raises a BukvaError with the reason if MLflow does not answer.
        """
        runs = {"searchFilter": _runs_of(experiment)} if experiment else EXPERIMENTS
        query = urlencode({"workflowType": "machine_learning", **runs})  # else MLflow shows its GenAI page
        with errors_in_one_line():
            return f"{self.address}/#/experiments/{connect().experiment_id}/runs?{query}"


def _runs_of(experiment: str) -> str:
    """Return MLflow's filter for the runs of an experiment. It has no escapes: a name may have one kind of quotes only.

    Where a name has both kinds, the sign for any character stands for one of them.
    """
    if "'" not in experiment:
        return f"tags.`bukva.experiment` = '{experiment}'"
    like = "LIKE" if '"' in experiment else "="
    return f'tags.`bukva.experiment` {like} "{experiment.replace(chr(34), "_")}"'


@contextmanager
def mlflow_server(port: int = PORT) -> Iterator[Server]:
    """Yield the server that MLFLOW_TRACKING_URI names, or a new one on this or the next free port, ended afterwards."""
    check_address()
    start_sync()  # the last stages before DVC skipped publish, and trainings that were killed
    parts = urlsplit(tracking_uri())
    if parts.scheme in ("http", "https"):
        host = parts.netloc.rpartition("@")[2]  # without user and password
        yield Server(f"{parts.scheme}://{host}{parts.path.rstrip('/')}")
        return
    port = free_port(port)
    arguments, environment = server_command(tracking_uri(), port)
    process = start_detached("mlflow", *arguments, **environment)
    try:
        yield Server(f"http://{HOST}:{port}", process)
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGTERM)  # with the processes that it started
        try:
            process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:  # a request that never ends
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def server_command(store: str, port: int) -> tuple[list[str], dict[str, str]]:
    """Return the arguments and environment of module mlflow as a server for this machine.

    store: the address of its database.
    """
    environment = {
        # by default MLflow starts some fifteen processes for jobs, which bukva does not have
        "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false",
        # not as an argument: all users of the machine can read command lines, and it may contain a password
        "MLFLOW_BACKEND_STORE_URI": store,
        "MLFLOW_UVICORN_OPTS": "--log-level warning",
        "PYTHONWARNINGS": "ignore",
    }
    return ["server", "--workers", "1", "--host", HOST, "--port", str(port)], environment
