"""MLflow as a team runs it, on one machine: a server with PostgreSQL behind it, which also stores the artifacts."""

import signal
import subprocess
import time
from contextlib import suppress
from types import FrameType

import requests

from bukva.base.errors import BukvaError
from bukva.base.files import project_root
from bukva.base.loopback import HOST, free_port
from bukva.tracking.postgres import postgres
from bukva.tracking.ui import PORT, server_command

FOLDER = ".bukva/server"
START_SECONDS = 120  # the first time it creates its tables
STOP_SECONDS = 10


def serve_team(port: int = PORT) -> None:
    """Run both until Ctrl-C or SIGTERM, on this port or the next free one, and print the address.

    Raises:
        BukvaError: PostgreSQL or MLflow does not start.
    """
    folder, port = project_root() / FOLDER, free_port(port)
    artifacts = folder / "artifacts"
    artifacts.mkdir(parents=True, exist_ok=True)
    for number in (signal.SIGTERM, signal.SIGINT):  # a shell starts what runs in the background without SIGINT
        signal.signal(number, _interrupt)
    with suppress(KeyboardInterrupt), postgres(folder / "postgres") as database:
        command, environment = server_command(database, port)
        mlflow = subprocess.Popen(
            [*command, "--artifacts-destination", artifacts.as_uri()], env=environment, cwd=folder
        )
        try:
            _wait_until_ready(mlflow, port)
            print(f"MLflow on PostgreSQL (Ctrl-C ends both): http://{HOST}:{port}")
            print(f"Where you train: export MLFLOW_TRACKING_URI=http://{HOST}:{port}", flush=True)
            mlflow.wait()
            raise BukvaError("MLflow's server has ended by itself; what it printed is above.")
        finally:
            _stop(mlflow)


def _interrupt(_: int, __: FrameType | None) -> None:
    raise KeyboardInterrupt


def _stop(process: "subprocess.Popen[bytes]") -> None:
    process.terminate()
    try:
        process.wait(STOP_SECONDS)
    except subprocess.TimeoutExpired:  # a request that never ends
        process.kill()
        process.wait()


def _wait_until_ready(mlflow: "subprocess.Popen[bytes]", port: int) -> None:
    end = time.monotonic() + START_SECONDS
    while time.monotonic() < end and mlflow.poll() is None:
        with suppress(requests.ConnectionError, requests.Timeout):
            requests.get(f"http://{HOST}:{port}/health", timeout=1)
            return
        time.sleep(0.2)
    raise BukvaError("MLflow's server does not start; what it printed is above.")
