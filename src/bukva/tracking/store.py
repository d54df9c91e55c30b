"""Open the MLflow store, report its errors without passwords, and create and update the runs of bukva.

The store is an MLflow server or a database. By default, it is the SQLite database mlflow.db of the project.

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
MAX_MESSAGE_CHARS = 300  # a proxy may answer with a whole HTML page in one line
# Defaults for variables that the user has not set.
ENVIRONMENT = {
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR": "false",
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "0",  # if only the response was lost, a retry would create a second object
    "MLFLOW_HTTP_REQUEST_TIMEOUT": "10",  # by default MLflow waits four minutes per call for a dead server
    "MLFLOW_LOGGING_LEVEL": "CRITICAL",  # MLflow would log a traceback; bukva reports each error in one line
    "MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT": "true",  # MLflow would print the server's address with its password
}
JOURNAL, KEY = "bukva.journal", "bukva.key"  # tags of a run: `Journal.id` and `Experiment.key`


# ---- the URI, and errors without passwords


def tracking_uri() -> str:
    """Return the URI of the MLflow store: MLFLOW_TRACKING_URI, or by default the database of the project.

    The path of an SQLite database is absolute, because a relative path would name a different file in each folder.
    """
    address = _database()
    return str(address) if address is not None else os.environ["MLFLOW_TRACKING_URI"]


def check_address() -> None:
    """Check that MLFLOW_TRACKING_URI is the URI of a server or a database.

    MLflow's own error is hard to understand: it raises a KeyError for `localhost:5000`.

    Raises:
        BukvaError: the variable names a folder, or its value has no scheme such as http.
    """
    uri = tracking_uri()
    is_folder = uri.startswith("file:") or "://" not in uri
    if is_folder and not uri.startswith("databricks") and not os.environ.get("MLFLOW_ALLOW_FILE_STORE"):
        raise BukvaError(
            f"MLFLOW_TRACKING_URI: {redact_url(uri)!r} is neither a server nor a database, and MLflow no longer "
            "supports folders. Use http://HOST:PORT or sqlite:////PATH/mlflow.db."
        )


def database_path() -> Path | None:
    """Return the path of the MLflow store if it is an SQLite database, and None otherwise."""
    address = _database()
    return Path(address.database) if address is not None else None


def store_name() -> str:
    """Return the name of the MLflow store for messages: the path of the SQLite database, or the URI without secrets."""
    return str(database_path() or redact_url(tracking_uri()))


def experiment_name() -> str:
    """Return the name of the MLflow experiment: MLFLOW_EXPERIMENT_NAME, or `bukva` by default."""
    return os.environ.get(EXPERIMENT_NAME) or EXPERIMENT


def _database() -> "URL | None":
    """Return the URL of the SQLite database with an absolute path, or None if the MLflow store is not SQLite.

    The URL names the driver. Without a driver (`sqlite:///`), MLflow would create the parent folder without decoding
    the path, so a folder a?b would become a%3Fb.
    """
    from sqlalchemy.engine import make_url

    uri = os.environ.get("MLFLOW_TRACKING_URI") or "sqlite:///mlflow.db"
    if not uri.startswith(("sqlite:///", f"{DRIVER}:///")):
        return None
    given = make_url(uri)
    return given.set(drivername=DRIVER, database=str(project_root() / (given.database or "")))


def explain(error: BaseException) -> str:
    """Return a one-line description of the innermost cause of an error. (MLflow wraps errors in other errors.)

    User names, passwords and tokens are hidden.
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
    """Replace any error of the block by a one-line BukvaError, because a traceback would show URLs with passwords."""
    try:
        yield
    except BukvaError:
        raise
    except Exception as error:
        raise BukvaError(f"{store_name()}: {explain(error)}") from None


# ---- the store


@dataclass(frozen=True)
class Store:
    """The MLflow experiment that contains all runs of bukva. (In MLflow, an experiment is a group of runs.)"""

    client: "MlflowClient"
    experiment_id: str

    def runs(self, key: str = "") -> list["Run"]:
        """Return the runs that bukva created, including deleted runs.

        With `key`, return only the runs of the experiment with this `Experiment.key`.
        """
        from mlflow.entities import ViewType

        condition = f"tags.`{KEY}` = '{key}'" if key else f"tags.`{KEY}` != ''"
        return list(self.client.search_runs([self.experiment_id], condition, ViewType.ALL, max_results=MAX_RUNS))

    def create(self, start: Event, parent: "Run | None" = None) -> "Run":
        """Create the run of an experiment, or the run of a stage execution.

        Args:
            start: start event of the journal of the stage.
            parent: run of the experiment, below which MLflow shows the run of the stage. Without `parent`, the run of
                the experiment itself is created.
        """
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
        """Set the status of a run. Also set its end, in milliseconds since 1970, unless the status is RUNNING."""
        if status == "RUNNING":
            self.client.update_run(run.info.run_id, status)
        else:
            self.client.set_terminated(run.info.run_id, status, ended_at)

    def log_points(self, run: "Run", points: "Sequence[Metric]") -> None:
        """Log points of metrics for a run in one request. Send no request if there are no points."""
        if points:
            self.client.log_batch(run.info.run_id, points)

    def tag(self, run: "Run", tags: Mapping[str, str]) -> None:
        """Set tags (name -> text) of a run in one request."""
        from mlflow.entities import RunTag

        self.client.log_batch(run.info.run_id, tags=[RunTag(name, text) for name, text in tags.items()])


def connect() -> Store:
    """Open the MLflow store that MLFLOW_TRACKING_URI names, or by default the database of the project.

    If the database or the MLflow experiment does not exist, it is created. The process holds a lock while it does this,
    because processes fail if they create the tables of a database at the same time.

    The environment variables in ENVIRONMENT are set as well, except for variables that the user has set.

    Raises:
        BukvaError: MLFLOW_TRACKING_URI does not name a store, the database stores artifacts in another project, or a
            user has deleted the MLflow experiment.
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
            # another machine, which has a separate lock, may create the experiment first
            with contextlib.suppress(MlflowException):
                client.create_experiment(name, None if tracking_uri().startswith("http") else artifacts)
        experiment = client.get_experiment_by_name(name)
        if experiment.lifecycle_stage == "deleted":
            raise BukvaError(
                f"{store_name()}: the MLflow experiment {name} was deleted and cannot receive results. To restore it: "
                f"mlflow experiments restore --experiment-id {experiment.experiment_id}. To use another experiment: "
                f"export {EXPERIMENT_NAME}=NAME"
            )
        return Store(client, experiment.experiment_id)


def _prepare_database(path: Path, artifacts: str) -> None:
    """Create the database if it is missing, and check that it can be read and belongs to this project.

    MLflow cannot open a database if creating its tables was interrupted, so the tables are created in a temporary
    file. The check fails fast, whereas MLflow retries a locked or broken database for 100 s or more.

    path: file of the database.
    artifacts: URI of the folder for artifacts of a new database.
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
    """Return how many logged models lack their files on this machine, or 0 if the MLflow store is not SQLite."""
    if not (path := database_path()):
        return 0
    with contextlib.closing(sqlite3.connect(path)) as database:
        query = "SELECT artifact_location FROM logged_models WHERE lifecycle_stage = 'active' AND status = 2"  # READY
        locations = [urlsplit(location) for (location,) in database.execute(query)]
    return sum(each.scheme == "file" and not Path(unquote(each.path)).exists() for each in locations)


def lock() -> FileLock:
    """Return the lock that a process holds while it looks up a run and creates the run if it is missing.

    Without the lock, two processes could create the same run.
    """
    return FileLock(project_root() / ".bukva" / "mlflow.lock", timeout=LOCK_SECONDS)
