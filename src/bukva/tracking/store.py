"""The MLflow store: its address, its error messages without passwords, and the runs of bukva.

mlflow is imported inside functions for two reasons: the import takes a second or more, and it reads environment
variables that must be set first.
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

EXPERIMENT = "bukva"  # default name of the MLflow experiment
EXPERIMENT_NAME = "MLFLOW_EXPERIMENT_NAME"  # MLflow's environment variable for another name
ARTIFACTS_FOLDER = "mlruns"
DRIVER = "sqlite+pysqlite"
LOCK_SECONDS = 60
MAX_RUNS = 50_000  # the most runs that MLflow returns in one response
MAX_MESSAGE_CHARS = 300  # a proxy may send a whole page in one line
# Defaults for variables that the user has not set.
ENVIRONMENT = {
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR": "false",
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "0",  # if only the response was lost, a retry would create a second object
    "MLFLOW_HTTP_REQUEST_TIMEOUT": "10",  # by default MLflow waits four minutes per call for a dead server
    "MLFLOW_LOGGING_LEVEL": "CRITICAL",  # MLflow would log a traceback; bukva reports each error in one line
    "MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT": "true",  # MLflow would print the server's address with its password
}
JOURNAL, KEY = "bukva.journal", "bukva.key"  # tags: id of the stage's journal, key of its experiment


# ---- the address, and errors without passwords


def tracking_uri() -> str:
    """Return the address of the store: MLFLOW_TRACKING_URI, or the project's own database.

    The path of a database is absolute, because a relative path would name a different database in each folder.
    """
    address = _database()
    return str(address) if address is not None else os.environ["MLFLOW_TRACKING_URI"]


def check_address() -> None:
    """Check that MLFLOW_TRACKING_URI can name a store.

    MLflow's own error is hard to understand: `localhost:5000` raises a KeyError.

    Raises:
        BukvaError: the address names a folder, or has no scheme.
    """
    uri = tracking_uri()
    is_folder = uri.startswith("file:") or "://" not in uri
    if is_folder and not uri.startswith("databricks") and not os.environ.get("MLFLOW_ALLOW_FILE_STORE"):
        raise BukvaError(
            f"MLFLOW_TRACKING_URI: {redact_url(uri)!r} is neither a server nor a database, and MLflow no longer "
            "supports folders. Use http://HOST:PORT or sqlite:////PATH/mlflow.db."
        )


def database_path() -> Path | None:
    """Return the file of the store, or None if the store is not an SQLite database."""
    address = _database()
    return Path(address.database) if address is not None else None


def store_name() -> str:
    """Return the name of the store for messages: the path of the database, or the address without secrets."""
    return str(database_path() or redact_url(tracking_uri()))


def experiment_name() -> str:
    """Return the name of the MLflow experiment: MLFLOW_EXPERIMENT_NAME, or `bukva` by default."""
    return os.environ.get(EXPERIMENT_NAME) or EXPERIMENT


def _database() -> "URL | None":
    """Return the address of the SQLite database with an absolute path, or None for another kind of store.

    The address names the driver, because for plain `sqlite:///` MLflow creates the parent folder without decoding
    the path: a folder a?b would become a%3Fb.
    """
    from sqlalchemy.engine import make_url

    uri = os.environ.get("MLFLOW_TRACKING_URI") or "sqlite:///mlflow.db"
    if not uri.startswith(("sqlite:///", f"{DRIVER}:///")):
        return None
    given = make_url(uri)
    return given.set(drivername=DRIVER, database=str(project_root() / (given.database or "")))


def explain(error: BaseException) -> str:
    """Describe the innermost cause of an error in one line, because MLflow wraps errors several times.

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
    return text[:MAX_MESSAGE_CHARS]


@contextlib.contextmanager
def errors_in_one_line() -> Iterator[None]:
    """Raise any error as a BukvaError of one line, because a traceback would show addresses with passwords."""
    try:
        yield
    except BukvaError:
        raise
    except Exception as error:
        raise BukvaError(f"{store_name()}: {explain(error)}") from None


# ---- the store


@dataclass(frozen=True)
class Store:
    """The MLflow experiment, usually `bukva`, that holds all results."""

    client: "MlflowClient"
    experiment_id: str

    def runs(self, key: str = "") -> list["Run"]:
        """Return the runs that bukva created, including deleted ones; optionally only the runs with one key."""
        from mlflow.entities import ViewType

        condition = f"tags.`{KEY}` = '{key}'" if key else f"tags.`{KEY}` != ''"
        return list(self.client.search_runs([self.experiment_id], condition, ViewType.ALL, max_results=MAX_RUNS))

    def create(self, start: Event, parent: "Run | None" = None) -> "Run":
        """Create a run: without `parent` the run of an experiment, else the run of a stage execution below `parent`."""
        tags = {
            "bukva.experiment": start["experiment"],
            KEY: start["key"],
            "bukva.commit": start["commit"],
            "mlflow.source.git.commit": start["commit"],
            "mlflow.source.type": "LOCAL",
            "mlflow.source.name": "dvc.yaml",
            "mlflow.user": start["user"],
            "bukva.processor": start.get("processor", ""),  # missing in journals of older versions
        }
        name = start["label"]
        if parent:
            siblings = [each for each in self.runs(start["key"]) if each.data.tags.get("bukva.stage") == start["stage"]]
            number = f" {len(siblings) + 1}" if siblings else ""  # executed again, or on another machine
            name = f"{start['experiment']}/{start['stage']}{number}"
            tags |= {
                "bukva.stage": start["stage"],
                "bukva.kind": start["kind"],
                "bukva.restored": str(start["restored"]).lower(),
                JOURNAL: start["id"],
                "mlflow.parentRunId": parent.info.run_id,
            }
        return self.client.create_run(self.experiment_id, start["at"], tags, name)

    def set_status(self, run: "Run", status: str, ended_at: int | None) -> None:
        """Set the status of a run, and when it ended in milliseconds since 1970."""
        if status == "RUNNING":
            self.client.update_run(run.info.run_id, status)
        else:
            self.client.set_terminated(run.info.run_id, status, ended_at)

    def log_points(self, run: "Run", points: "Sequence[Metric]") -> None:
        """Log points of metrics for a run; do nothing without points."""
        if points:
            self.client.log_batch(run.info.run_id, points)

    def tag(self, run: "Run", tags: Mapping[str, str]) -> None:
        """Set tags of a run in one request."""
        from mlflow.entities import RunTag

        self.client.log_batch(run.info.run_id, tags=[RunTag(name, text) for name, text in tags.items()])


def connect() -> Store:
    """Open the store that MLFLOW_TRACKING_URI names, or the project's own database.

    A missing database or MLflow experiment is created. This happens under a lock, because processes fail if they create
    the tables of a database at the same time.

    Raises:
        BukvaError: the address names no store, the database stores artifacts in another project, or a user has deleted
            the MLflow experiment.
        Exception: MLflow raises an error, or the database is locked or broken.
    """
    for name, value in ENVIRONMENT.items():
        os.environ.setdefault(name, value)
    check_address()
    from mlflow import MlflowClient
    from mlflow.exceptions import MlflowException

    artifacts = (project_root() / ARTIFACTS_FOLDER).as_uri()  # absolute, else MLflow uses the current folder
    with lock():
        if path := database_path():
            _prepare_database(path, artifacts)
        client, name = MlflowClient(tracking_uri=tracking_uri()), experiment_name()
        if client.get_experiment_by_name(name) is None:
            with contextlib.suppress(MlflowException):  # another machine, which has a separate lock, may be faster
                client.create_experiment(name, None if tracking_uri().startswith("http") else artifacts)
        experiment = client.get_experiment_by_name(name)
        if experiment.lifecycle_stage == "deleted":
            raise BukvaError(
                f"{store_name()}: experiment {name} was deleted there and cannot receive results. To restore it: "
                f"mlflow experiments restore --experiment-id {experiment.experiment_id}. To use another experiment: "
                f"export {EXPERIMENT_NAME}=NAME"
            )
        return Store(client, experiment.experiment_id)


def _prepare_database(path: Path, artifacts: str) -> None:
    """Create the database if it is missing, and check that it can be used.

    MLflow cannot open a database if creating its tables was interrupted, so the tables are created in a temporary
    file. The check fails fast, whereas MLflow retries a locked or broken database for 100 s or more.
    """
    from mlflow.store.tracking.sqlalchemy_store import SqlAlchemyStore
    from sqlalchemy.engine import URL

    if not (path.exists() and path.stat().st_size):
        unfinished = path.with_name(f"{path.name}.unfinished")
        unfinished.unlink(missing_ok=True)
        # MlflowClient would write the path of the current folder into SQL unescaped, and a quote would break it
        SqlAlchemyStore(str(URL.create(DRIVER, database=str(unfinished))), artifacts)
        unfinished.replace(path)
    with contextlib.closing(sqlite3.connect(path)) as database:
        query = "SELECT artifact_location FROM experiments WHERE name = ?"
        [location] = database.execute(query, [experiment_name()]).fetchone() or [artifacts]
    if path.is_relative_to(project_root()) and location != artifacts and location.endswith(f"/{ARTIFACTS_FOLDER}"):
        raise BukvaError(
            f"{path} stores its artifacts in {location}, because this project was copied or moved. Delete the "
            "database, then create a new one: bukva sync"
        )


def lost_models() -> int:
    """Return the number of models whose files were deleted from this machine, or 0 if the store is not SQLite."""
    if not (path := database_path()):
        return 0
    with contextlib.closing(sqlite3.connect(path)) as database:
        query = "SELECT artifact_location FROM logged_models WHERE lifecycle_stage = 'active' AND status = 2"  # READY
        locations = [urlsplit(location) for (location,) in database.execute(query)]
    return sum(each.scheme == "file" and not Path(unquote(each.path)).exists() for each in locations)


def lock() -> FileLock:
    """Return the lock to hold while looking up and creating a run, so that two processes do not create it twice."""
    return FileLock(project_root() / ".bukva" / "mlflow.lock", timeout=LOCK_SECONDS)
