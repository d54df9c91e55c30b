"""The MLflow store: its address, its errors without passwords, and the runs of bukva.

mlflow is imported inside functions, because importing it takes a second or more, and because it reads environment
variables that have to be set first.
"""

import contextlib
import os
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote, unquote, urlsplit

from filelock import FileLock

from bukva.core.errors import HIDDEN, BukvaError, redact_text, redact_url
from bukva.core.files import project_root
from bukva.tracking.journal import Event

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities import Metric, Run
    from sqlalchemy.engine import URL

EXPERIMENT, EXPERIMENT_NAME = "bukva", "MLFLOW_EXPERIMENT_NAME"  # the default, and MLflow's variable for another one
KEPT_IN = "mlruns"  # the folder of artifacts
DRIVER = "sqlite+pysqlite"
LOCK_SECONDS = 60
MOST_RUNS = 50_000  # of one answer of MLflow
LONGEST_MESSAGE = 300  # characters of an error; a proxy may answer with a whole page in one line
# Set unless the user has set them. MLflow's own limit for a dead server is four minutes a call.
ENVIRONMENT = {
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR": "false",
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "0",  # repeating a creation whose answer was lost creates a second one
    "MLFLOW_HTTP_REQUEST_TIMEOUT": "10",
    "MLFLOW_LOGGING_LEVEL": "CRITICAL",  # it logs a traceback of each error; bukva reports it in one line
    "MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT": "true",  # it prints the server's address with its password
}
JOURNAL, KEY = "bukva.journal", "bukva.key"  # tags: the id of a stage's journal, and the key of its experiment


# ---- the address, and errors without passwords


def tracking_uri() -> str:
    """Return the address of the store: MLFLOW_TRACKING_URI, or the project's own database.

    The path of a database is made absolute, because a relative one would mean another database in each folder.
    """
    address = _database()
    return str(address) if address is not None else os.environ["MLFLOW_TRACKING_URI"]


def check_address() -> None:
    """Check that MLFLOW_TRACKING_URI may name a store, because MLflow's own error for `localhost:5000` is a KeyError.

    Raises:
        BukvaError: it names a folder, or has no scheme.
    """
    uri = tracking_uri()
    is_folder = uri.startswith("file:") or "://" not in uri
    if is_folder and not uri.startswith("databricks") and not os.environ.get("MLFLOW_ALLOW_FILE_STORE"):
        raise BukvaError(
            f"MLFLOW_TRACKING_URI: {redact_url(uri)!r} is neither a server nor a database, and MLflow no longer writes "
            "into folders; use http://HOST:PORT or sqlite:////PATH/mlflow.db."
        )


def database_path() -> Path | None:
    """Return the file of the store; None for a store that is no database of SQLite."""
    address = _database()
    return Path(address.database) if address is not None else None


def store_name() -> str:
    """Name the store in a message: the path of its database, or its address without secrets."""
    return str(database_path() or redact_url(tracking_uri()))


def experiment_name() -> str:
    """Return the name of the experiment of MLflow: MLFLOW_EXPERIMENT_NAME, or bukva."""
    return os.environ.get(EXPERIMENT_NAME) or EXPERIMENT


def _database() -> "URL | None":
    """Return the address of a database of SQLite with an absolute path; None for another store.

    It names the driver, because MLflow creates the folder of what follows sqlite:/// without decoding it: for a?b it
    would create a%3Fb.
    """
    from sqlalchemy.engine import make_url

    uri = os.environ.get("MLFLOW_TRACKING_URI") or "sqlite:///mlflow.db"
    if not uri.startswith(("sqlite:///", f"{DRIVER}:///")):
        return None
    given = make_url(uri)
    return given.set(drivername=DRIVER, database=str(project_root() / (given.database or "")))


def explain(error: BaseException) -> str:
    """Return one line about the innermost cause of an error, because each part of MLflow wraps the error of another.

    Users, passwords and tokens are hidden.
    """
    while not isinstance(error, BukvaError) and (
        cause := error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    ):
        error = cause
    text = str(error) if isinstance(error, BukvaError) else f"{type(error).__name__}: {str(error).strip()}"
    text = redact_text(text.partition("\n")[0])
    for name in ("MLFLOW_TRACKING_PASSWORD", "MLFLOW_TRACKING_TOKEN"):
        if secret := os.environ.get(name):
            text = text.replace(secret, HIDDEN).replace(quote(secret), HIDDEN)
    return text[:LONGEST_MESSAGE]


@contextlib.contextmanager
def errors_in_one_line() -> Iterator[None]:
    """Raise any error as a BukvaError of one line, because a traceback shows addresses with their passwords."""
    try:
        yield
    except BukvaError:
        raise
    except Exception as error:
        raise BukvaError(f"{store_name()}: {explain(error)}") from None


# ---- the store


@dataclass(frozen=True)
class Store:
    """The experiment of MLflow, usually `bukva`, in which all results are."""

    client: "MlflowClient"
    experiment_id: str

    def runs(self, key: str = "") -> list["Run"]:
        """Return all runs that bukva created, or the runs of one experiment, including deleted ones."""
        from mlflow.entities import ViewType

        condition = f"tags.`{KEY}` = '{key}'" if key else f"tags.`{KEY}` != ''"
        return list(self.client.search_runs([self.experiment_id], condition, ViewType.ALL, max_results=MOST_RUNS))

    def create(self, start: Event, whole: "Run | None" = None) -> "Run":
        """Create the run of a whole experiment, or the run of one stage execution, which MLflow shows below it."""
        tags = {
            "bukva.experiment": start["experiment"],
            KEY: start["key"],
            "bukva.commit": start["commit"],
            "mlflow.source.git.commit": start["commit"],
            "mlflow.source.type": "LOCAL",
            "mlflow.source.name": "dvc.yaml",
            "mlflow.user": start["user"],
            "bukva.processor": start.get("processor", ""),  # journals of older versions have none
        }
        name = start["label"]
        if whole:
            siblings = [each for each in self.runs(start["key"]) if each.data.tags.get("bukva.stage") == start["stage"]]
            number = f" {len(siblings) + 1}" if siblings else ""  # it was executed again, or on another machine
            name = f"{start['experiment']}/{start['stage']}{number}"
            tags |= {
                "bukva.stage": start["stage"],
                "bukva.kind": start["kind"],
                "bukva.restored": str(start["restored"]).lower(),
                JOURNAL: start["id"],
                "mlflow.parentRunId": whole.info.run_id,
            }
        return self.client.create_run(self.experiment_id, start["at"], tags, name)

    def set_status(self, run: "Run", status: str, ended_at: int | None) -> None:
        """Set RUNNING, or how and when a run ended."""
        if status == "RUNNING":
            self.client.update_run(run.info.run_id, status)
        else:
            self.client.set_terminated(run.info.run_id, status, ended_at)

    def log_points(self, run: "Run", points: "Sequence[Metric]") -> None:
        """Give a run points of metrics, if there are any."""
        if points:
            self.client.log_batch(run.info.run_id, points)

    def tag(self, run: "Run", tags: Mapping[str, str]) -> None:
        """Give a run tags, all in one call."""
        from mlflow.entities import RunTag

        self.client.log_batch(run.info.run_id, tags=[RunTag(name, text) for name, text in tags.items()])


def connect() -> Store:
    """Open the store that MLFLOW_TRACKING_URI names, or the project's own database; create what is missing.

    A database is opened under the lock, because processes that create its tables at the same time disturb each other.

    Raises:
        BukvaError: the address names no store, the database writes artifacts into another project, or a user has
            deleted the experiment.
        Exception: an error of MLflow, or of a database that is locked or broken.
    """
    for name, value in ENVIRONMENT.items():
        os.environ.setdefault(name, value)
    check_address()
    from mlflow import MlflowClient
    from mlflow.exceptions import MlflowException

    artifacts = (project_root() / KEPT_IN).as_uri()  # absolute, else MLflow takes the folder of the current process
    with lock():
        if path := database_path():
            _prepare_database(path, artifacts)
        client, name = MlflowClient(tracking_uri=tracking_uri()), experiment_name()
        if client.get_experiment_by_name(name) is None:
            with contextlib.suppress(MlflowException):  # another machine, which has a lock of its own, was first
                client.create_experiment(name, None if tracking_uri().startswith("http") else artifacts)
        found = client.get_experiment_by_name(name)
        if found.lifecycle_stage == "deleted":
            raise BukvaError(
                f"{store_name()}: experiment {name} was deleted there, so it takes no results. To restore it: "
                f"mlflow experiments restore --experiment-id {found.experiment_id}. To use another one from now on: "
                f"export {EXPERIMENT_NAME}=NAME"
            )
        return Store(client, found.experiment_id)


def _prepare_database(path: Path, artifacts: str) -> None:
    """Create the tables of a missing database, and check that it can be used.

    MLflow itself cannot open a file in which creating the tables was interrupted, and tries a locked or broken database
    for 100 s and more.
    """
    from mlflow.store.tracking.sqlalchemy_store import SqlAlchemyStore
    from sqlalchemy.engine import URL

    if not (path.exists() and path.stat().st_size):
        unfinished = path.with_name(f"{path.name}.unfinished")
        unfinished.unlink(missing_ok=True)
        # not by MlflowClient, which writes the path of the current folder into SQL, where a quote ends it
        SqlAlchemyStore(str(URL.create(DRIVER, database=str(unfinished))), artifacts)
        unfinished.replace(path)
    with contextlib.closing(sqlite3.connect(path)) as database:
        query = "SELECT artifact_location FROM experiments WHERE name = ?"
        [place] = database.execute(query, [experiment_name()]).fetchone() or [artifacts]
    if path.is_relative_to(project_root()) and place != artifacts and place.endswith(f"/{KEPT_IN}"):
        raise BukvaError(
            f"{path}: its artifacts are in {place}, so this project was copied or moved; remove the database, and fill "
            "a new one: bukva sync"
        )


def lost_models() -> int:
    """Return the number of models whose files were removed from this machine; 0 where the store is no SQLite file."""
    if not (path := database_path()):
        return 0
    with contextlib.closing(sqlite3.connect(path)) as database:
        query = "SELECT artifact_location FROM logged_models WHERE lifecycle_stage = 'active' AND status = 2"  # READY
        places = [urlsplit(place) for (place,) in database.execute(query)]
    return sum(place.scheme == "file" and not Path(unquote(place.path)).exists() for place in places)


def lock() -> FileLock:
    """Return the lock under which a run is looked up and then created, so that two processes do not create it twice."""
    return FileLock(project_root() / ".bukva" / "mlflow.lock", timeout=LOCK_SECONDS)
