"""One MLflow store: where it is, how it is opened, and the few things that are asked of it.

mlflow is imported inside functions that run when a store is opened or later: importing it takes a second or more,
and it reads its environment, which is set first.
"""

import contextlib
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from filelock import FileLock

from bukva.files import project_root

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities import Experiment, Run

EXPERIMENT = "bukva"
LOCK_SECONDS = 60
PAGE = 1000

# Where the user has not said otherwise. MLflow's own patience with a dead server is four minutes per call.
ENVIRONMENT = {
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR": "false",
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "2",
    "MLFLOW_HTTP_REQUEST_TIMEOUT": "10",
    "MLFLOW_LOGGING_LEVEL": "ERROR",
    "MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT": "true",  # it prints the server's address with its password
}


@dataclass(frozen=True)
class Store:
    """The experiment `bukva` in an MLflow store."""

    client: "MlflowClient"
    experiment_id: str

    def runs(self, key: str | None = None) -> list["Run"]:
        """All runs, or those of one experiment of ours, also those that somebody deleted."""
        from mlflow.entities import ViewType

        runs: list[Run] = []
        token: str | None = ""
        while token is not None:
            page = self.client.search_runs(
                [self.experiment_id],
                f"tags.`bukva.key` = '{key}'" if key else "tags.`bukva.key` != ''",
                run_view_type=ViewType.ALL,
                max_results=PAGE,
                page_token=token or None,
            )
            runs += page
            token = page.token or None
        return runs


def connect() -> Store:
    """Open the store that MLFLOW_TRACKING_URI names, else the project's own database; make what is missing.

    A database under the lock, because processes that make its tables at the same time break each other.
    """
    for name, value in ENVIRONMENT.items():
        os.environ.setdefault(name, value)
    from mlflow import MlflowClient

    with contextlib.nullcontext() if is_server() else lock():
        client = MlflowClient(tracking_uri=tracking_uri())
        known = client.get_experiment_by_name(EXPERIMENT)
    if not known:
        with lock():
            known = client.get_experiment_by_name(EXPERIMENT) or _create_experiment(client)
    return Store(client, known.experiment_id)


@contextlib.contextmanager
def lock() -> Iterator[None]:
    """Held while something is looked for and then created, so that two processes never create it twice."""
    path = project_root() / ".bukva" / "mlflow.lock"
    path.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(path, timeout=LOCK_SECONDS):
        yield


def tracking_uri() -> str:
    """Absolute: a relative one would mean another database in every folder a stage runs in."""
    uri = os.environ.get("MLFLOW_TRACKING_URI") or "sqlite:///mlflow.db"
    kind, slashes, path = uri.partition("///")
    if kind == "sqlite:" and not path.startswith("/"):
        return f"{kind}{slashes}{project_root() / path}"
    return uri


def is_server() -> bool:
    """Whether MLflow is reached over http; it then decides itself where artifacts lie."""
    return urlsplit(tracking_uri()).scheme in ("http", "https")


def without_password(text: object) -> str:
    """A text for people and logs: addresses in it lose user and password."""
    return re.sub(r"://\S*@", "://***@", str(text))


def explain(error: Exception) -> str:
    """One line on what MLflow's many parts raise."""
    return without_password(f"{type(error).__name__}: {str(error).strip().partition(chr(10))[0]}")


def _create_experiment(client: "MlflowClient") -> "Experiment":
    # absolute as well: MLflow would take the folder of the process that happens to come first
    artifacts = None if is_server() else (project_root() / "mlruns").as_uri()
    tags = {"mlflow.experimentKind": "custom_model_development"}
    return client.get_experiment(client.create_experiment(EXPERIMENT, artifact_location=artifacts, tags=tags))
