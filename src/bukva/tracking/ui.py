"""MLflow's server for this machine, and its page on which all GPTs are compared.

That page is a shared view of MLflow's experiment page. Of such a view MLflow keeps the filter in the address, and the
charts nowhere: F5 shows its default charts. The address /mlflow of `bukva ui`, and the link in the note of the
experiment, open the view again.
"""

import json
import math
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from statistics import median_high
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode, urlsplit

from bukva.core.errors import BukvaError
from bukva.core.files import project_root
from bukva.core.processes import HOST, LOG, answers, free_port
from bukva.tracking.journal import start_sync
from bukva.tracking.sync import DESCRIPTION, Store, connect, explain, is_server, tracking_uri

if TYPE_CHECKING:
    from mlflow.entities import Run

PORT = 5000
STOP_SECONDS = 10
VIEW = "bukva"
STAGE = "train-gpt"  # bigrams end far above, after as many updates as they like
VAL, BEST = "val_bits_per_char", "best_val_bits_per_char"
COLUMN = "gpt.val"  # of the list of runs: the score of val that comparisons use
BELOW, ABOVE = 0.1, 0.3  # bits of the charts below the best training, and above the median
OURS = "[Open the charts"
NOTE = OURS + " of all GPTs]({page})"  # MLflow shows one line


@dataclass(frozen=True)
class Server:
    """A server of MLflow.

    address: its own.
    process: None if it is another machine's, or was started by somebody else.
    """

    address: str
    process: "subprocess.Popen[bytes] | None" = None

    def is_ready(self) -> bool:
        """Whether it answers.

        Raises:
            BukvaError: it has ended.
        """
        if self.process is None:
            return True
        if self.process.poll() is not None:
            raise BukvaError(f"MLflow has ended by itself; the reason is in {LOG}.")
        return answers(urlsplit(self.address).port or 0)

    def page(self, experiment: str = "") -> str:
        """The address of the page with the losses of all trainings, or with the runs of one experiment.

        Raises:
            BukvaError: MLflow cannot be asked; says why.
        """
        try:
            store = connect()
            if not experiment:
                return f"{self.address}/{_write_view(store)}"
            runs = {"workflowType": "machine_learning", "searchFilter": f"tags.`bukva.experiment` = '{experiment}'"}
            return f"{self.address}/#/experiments/{store.experiment_id}/runs?{urlencode(runs)}"
        except Exception as error:  # of MLflow or its database, of many kinds
            raise BukvaError(f"MLflow cannot be opened. {explain(error)}") from None


@contextmanager
def mlflow_server(port: int = PORT) -> Iterator[Server]:
    """The server that MLFLOW_TRACKING_URI names, or one of this project, on this port or the next free one.

    The latter ends with the block.
    """
    if is_server():
        parts = urlsplit(tracking_uri())
        host = parts.netloc.rpartition("@")[2]  # without user and password
        yield Server(f"{parts.scheme}://{host}{parts.path.rstrip('/')}")
        return
    port = free_port(port)
    log = project_root() / LOG
    log.parent.mkdir(parents=True, exist_ok=True)
    start_sync()  # short trainings, and what a killed process left
    command, environment = server_command(tracking_uri(), port)
    with log.open("ab") as output:
        process = subprocess.Popen(
            command, env=environment, cwd=project_root(), stdout=output, stderr=output, start_new_session=True
        )
    try:
        yield Server(f"http://{HOST}:{port}", process)
    finally:
        _stop(process)


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


def _stop(process: "subprocess.Popen[bytes]") -> None:
    """End a server that was started in a session of its own, with the processes that it started."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGTERM)
    try:
        process.wait(STOP_SECONDS)
    except subprocess.TimeoutExpired:  # a request that never ends
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _write_view(store: Store) -> str:
    """Write the view and the note into the MLflow experiment; returns the page's path on any server of the store."""
    experiment = store.experiment_id
    query = {"workflowType": "machine_learning", "compareRunsMode": "CHART", "viewStateShareKey": VIEW}
    page = f"#/experiments/{experiment}/runs?{urlencode(query)}"
    view = json.dumps(_view(_range(store.search(f"tags.`bukva.stage` = '{STAGE}'"))))
    store.client.set_experiment_tag(experiment, f"mlflow.sharedViewState.{VIEW}", view)
    note = store.client.get_experiment(experiment).tags.get(DESCRIPTION, "")
    if not note or note.startswith(OURS):  # people may write one, too
        store.client.set_experiment_tag(experiment, DESCRIPTION, NOTE.format(page=page))
    return page


def _view(y_range: dict[str, float]) -> dict[str, Any]:
    """What MLflow's button "Share" stores: all GPTs in wide charts, the best first.

    Sorted by time, MLflow hides the trainings below their experiments. Each chart has a section of its own, because the
    title of a chart is always the name of its metric (MLflow ignores displayName on this page), and that of a section
    is free.
    """
    return {
        "searchFilter": f"tags.`bukva.stage` = '{STAGE}'",
        "orderByKey": f"metrics.`{BEST}`",
        "orderByAsc": True,
        "selectedColumns": [f"metrics.`{COLUMN}`"],
        "runsHiddenMode": "FIRST_20_RUNS",
        "isAccordionReordered": True,
        "compareRunSections": [
            _section("Val bits/char by step", "by-step"),
            _section("Val bits/char by chars seen", "by-chars-seen"),
            {"uuid": "metrics", "name": "Model metrics", "display": True},
        ],
        "compareRunCharts": [
            _chart("by-step", y_range, xAxisKey="step"),
            _chart("by-chars-seen", y_range, xAxisKey="metric", selectedXAxisMetricKey="chars_seen"),
        ],
    }


def _section(name: str, section: str) -> dict[str, Any]:
    return {"uuid": section, "name": name, "display": True, "columns": 1, "cardHeight": 500}


def _chart(section: str, y_range: dict[str, float], **x_axis: str) -> dict[str, Any]:
    return {
        "uuid": "-".join(x_axis.values()),
        "type": "LINE",
        "metricSectionId": section,
        "metricKey": VAL,
        "yAxisKey": "metric",
        "scaleType": "linear",
        "range": y_range,
        "lineSmoothness": 0,
        "useGlobalLineSmoothing": False,
        "useGlobalXaxisKey": False,
        **x_axis,
    }


def _range(runs: list["Run"]) -> dict[str, float]:
    """The bits that the charts show: where the better half of the trainings ended. All of them while there is none.

    Every curve begins near 6 bits, and good trainings end within a hundredth of each other.
    """
    found = [run.data.metrics.get(BEST, math.nan) for run in runs if run.info.lifecycle_stage == "active"]
    scores = list(filter(math.isfinite, found))
    return {"yMin": round(min(scores) - BELOW, 2), "yMax": round(median_high(scores) + ABOVE, 2)} if scores else {}
