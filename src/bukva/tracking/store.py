"""One MLflow store: how it is opened, and the few queries that bukva sends to it.

mlflow is imported inside functions: importing it takes a second or more, and it reads its environment, which is set
first.
"""

import contextlib
import os
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from filelock import FileLock

from bukva.core.files import project_root
from bukva.tracking import database
from bukva.tracking.address import is_database, is_server, tracking_uri

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities import Experiment, Run

LOCK_SECONDS = 60
PAGE = 1000
RETRIES = "MLFLOW_HTTP_REQUEST_MAX_RETRIES"

# Set unless the user has set them. MLflow's own limit for a dead server is four minutes a call.
ENVIRONMENT = {
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR": "false",
    RETRIES: "2",
    "MLFLOW_HTTP_REQUEST_TIMEOUT": "10",
    "MLFLOW_HTTP_RESPECT_RETRY_AFTER_HEADER": "false",  # a server may ask for an hour
    "MLFLOW_LOGGING_LEVEL": "CRITICAL",  # it logs a traceback of each error; bukva reports it in one line
    "MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT": "true",  # it prints the server's address with its password
}


@dataclass(frozen=True)
class Store:
    """The experiment `bukva` in an MLflow store.

    to_fill: whether its database replaces one that was copied from another folder, and must get all journals.
    """

    client: "MlflowClient"
    experiment_id: str
    to_fill: bool

    def runs(self, key: str | None = None) -> list["Run"]:
        """All runs that bukva created, or those of one of its experiments; deleted ones too."""
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

    def mark_filled(self) -> None:
        """Remember in the store that it has all journals."""
        self.client.set_experiment_tag(self.experiment_id, database.TO_FILL, "")


def connect() -> Store:
    """Open the store that MLFLOW_TRACKING_URI names, else the project's own database; create what is missing.

    A database is opened under the lock, because processes that create its tables at the same time break each other.
    """
    for name, value in ENVIRONMENT.items():
        os.environ.setdefault(name, value)
    from mlflow import MlflowClient

    with contextlib.nullcontext() if is_server() else lock():
        if is_database() and (sentence := database.prepare(tracking_uri())):
            print(sentence, file=sys.stderr, flush=True)
        client = MlflowClient(tracking_uri=tracking_uri())
        known = client.get_experiment_by_name(database.EXPERIMENT)
    if not known:
        with lock():
            known = client.get_experiment_by_name(database.EXPERIMENT) or _create_experiment(client)
    return Store(client, known.experiment_id, to_fill=bool(known.tags.get(database.TO_FILL)))


@contextlib.contextmanager
def only_once() -> Iterator[None]:
    """Around a creation: MLflow repeats a call whose answer was lost, which creates a second one."""
    before = os.environ[RETRIES]
    os.environ[RETRIES] = "0"
    try:
        yield
    finally:
        os.environ[RETRIES] = before


@contextlib.contextmanager
def lock() -> Iterator[None]:
    """Held while something is searched and then created, so that two processes never create it twice."""
    path = project_root() / ".bukva" / "mlflow.lock"
    path.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(path, timeout=LOCK_SECONDS):
        yield


def with_second_look(call: Callable[[], None]) -> None:
    """Call it, and once more if that fails.

    MLflow looks for a thing (a dataset, an alias) and then creates it, which fails where another machine has just
    created it. The second look finds that one.
    """
    from mlflow.exceptions import MlflowException

    try:
        call()
    except MlflowException:
        call()


def _create_experiment(client: "MlflowClient") -> "Experiment":
    """Create it; if another machine, which has a lock of its own, was first, take that one."""
    from mlflow.exceptions import MlflowException

    try:
        own = None if is_server() else database.own_artifacts()
        return client.get_experiment(database.create_experiment(client, own))
    except MlflowException as error:
        other = client.get_experiment_by_name(database.EXPERIMENT)
        if error.error_code != "RESOURCE_ALREADY_EXISTS" or other is None:
            raise
        return other
