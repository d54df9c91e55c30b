"""Serves the pages of the project to this machine, together with MLflow."""

import os
import signal
from contextlib import suppress
from pathlib import Path
from types import FrameType

import requests

from bukva.config.load import read_params
from bukva.core.files import project_root, write_text
from bukva.core.processes import HOST, listen
from bukva.tracking.ui import mlflow_server

PORT = 8050
SERVED = Path(".bukva/ui.port")  # has the port of the last server
ANSWER_SECONDS = 5
GRACE_SECONDS = 1  # for texts that are being written when Ctrl-C is pressed


def serve(path: str = "", port: int = PORT) -> None:
    """Print the address of a page, and serve all pages and MLflow until Ctrl-C, from this port or the next free one.

    If the project is served already, this only prints the address.

    Raises:
        BukvaError: params.yaml is invalid.
    """
    os.chdir(project_root())
    if running := _running():
        print(f"Open (another process serves it): {running}{path}")
        return
    params = read_params()
    # a shell starts what is in the background without SIGINT
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, _interrupt)
    with suppress(KeyboardInterrupt), listen(port) as found, mlflow_server() as mlflow:
        port = int(found.getsockname()[1])
        write_text(SERVED, str(port))
        print(f"Open (Ctrl-C ends it): http://{HOST}:{port}{path}", flush=True)
        import uvicorn  # with torch, this takes seconds: the address can be opened before

        from bukva.serving.library import Library
        from bukva.serving.site import site

        app = site(lambda: Library(params.compute), params.sample, mlflow)
        config = uvicorn.Config(app, log_level="warning", timeout_graceful_shutdown=GRACE_SECONDS)
        uvicorn.Server(config).run(sockets=[found])


def _running() -> str:
    """The address at which this project is served already; "" if it is not."""
    with suppress(FileNotFoundError, ValueError, requests.RequestException):
        address = f"http://{HOST}:{int(SERVED.read_text())}"
        if requests.get(f"{address}/project", timeout=ANSWER_SECONDS).text == str(project_root()):
            return address
    return ""


def _interrupt(_: int, __: FrameType | None) -> None:
    raise KeyboardInterrupt
