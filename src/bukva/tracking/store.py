"""Open the MLflow store, report MLflow's errors without passwords, and create and update the runs of bukva.

The store is an MLflow server or a database. By default, it is the SQLite database mlflow.db of the project.

mlflow is imported inside functions for two reasons. The import takes a second or more, and it reads environment
variables that `connect` must set first.
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
EXPERIMENT_NAME, EXPERIMENT_ID = "MLFLOW_EXPERIMENT_NAME", "MLFLOW_EXPERIMENT_ID"  # MLflow's variables for another
ARTIFACTS_FOLDER = "mlruns"
DRIVER = "sqlite+pysqlite"
LOCK_SECONDS = 60
MAX_RUNS = 50_000  # the most runs that MLflow returns in one response
MAX_MESSAGE_CHARS = 300  # a proxy may answer with a whole HTML page in one line
# Defaults for variables that the user has not set.
ENVIRONMENT = {
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR": "false",
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "0",  # after a lost response, a retry would create a second object
    "MLFLOW_HTTP_REQUEST_TIMEOUT": "10",  # by default MLflow waits four minutes per call for a dead server
    "MLFLOW_LOGGING_LEVEL": "CRITICAL",  # MLflow would log a traceback; bukva reports each error in one line
    "MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT": "true",  # MLflow would print the server's address with its password
}
JOURNAL, KEY = "bukva.journal", "bukva.key"  # tags of a run: `Journal.id` and `Experiment.key`


# ---- the URI, and errors without passwords


def tracking_uri() -> str:
    """Return the URI of the MLflow store: MLFLOW_TRACKING_URI, or by default the SQLite database of the project.

    The path of the database is made absolute, because a relative path would depend on the current folder.
    """
    address = _database()
    return str(address) if address is not None else os.environ["MLFLOW_TRACKING_URI"]


def check_address() -> None:
    """Check that MLFLOW_TRACKING_URI is the URI of a server or a database.

    Without this check, MLflow would raise a KeyError for a value such as `localhost:5000`.

    Raises:
        BukvaError: the value is a folder, or it has no scheme such as `http://`.
    """
    uri = tracking_uri()
    is_folder = uri.startswith("file:") or "://" not in uri
    if is_folder and not uri.startswith("databricks") and not os.environ.get("MLFLOW_ALLOW_FILE_STORE"):
        raise BukvaError(
            f"MLFLOW_TRACKING_URI is {redact_url(uri)!r}, but must be the URI of a server or a database. MLflow no "
            "longer supports folders. Use http://HOST:PORT or sqlite:////PATH/mlflow.db."
        )


def database_path() -> Path | None:
    """Return the path of the SQLite database of the MLflow store, or None if the store is not SQLite."""
    address = _database()
    return Path(address.database) if address is not None else None


def store_name() -> str:
    """Return a name of the MLflow store for messages.

    The name is the path of the SQLite database, or the URI without passwords.
    """
    return str(database_path() or redact_url(tracking_uri()))


def experiment_name() -> str:
    """Return the name of the MLflow experiment: the value of MLFLOW_EXPERIMENT_NAME, or `bukva` by default."""
    return os.environ.get(EXPERIMENT_NAME) or EXPERIMENT


def _database() -> "URL | None":
    """Return the URL of the SQLite database with an absolute path, or None if the MLflow store is not SQLite.

    The URL contains the driver (`sqlite+pysqlite`). With `sqlite:///`, MLflow would not decode
    the path, and would create a parent folder a%3Fb instead of a?b.
    """
    from sqlalchemy.engine import make_url

    uri = os.environ.get("MLFLOW_TRACKING_URI") or "sqlite:///mlflow.db"
    if not uri.startswith(("sqlite:///", f"{DRIVER}:///")):
        return None
    given = make_url(uri)
    return given.set(drivername=DRIVER, database=str(project_root() / (given.database or "")))


def explain(error: BaseException) -> str:
    """Describe an error in one line, without user names, passwords and tokens.

    MLflow wraps errors in other errors, so the innermost error is described.
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
    """Convert any error in the `with` block to a BukvaError with a one-line message.

    A traceback would show URLs with passwords.
    """
    try:
        yield
    except BukvaError:
        raise
    except Exception as error:
        raise BukvaError(f"{store_name()}: {explain(error)}") from None


# ---- the store


@dataclass(frozen=True)
class Store:
    """An open MLflow store.

    client: MLflow's client for the store.
    experiment_id: ID of the MLflow experiment, a group of runs that contains all runs of bukva.
    """

    client: "MlflowClient"
    experiment_id: str

    def runs(self, key: str = "") -> list["Run"]:
        """Return the runs that bukva created, including deleted runs.

        key: `Experiment.key` of one experiment, or "" for the runs of all experiments.
        """
        from mlflow.entities import ViewType

        condition = f"tags.`{KEY}` = '{key}'" if key else f"tags.`{KEY}` != ''"
        return list(self.client.search_runs([self.experiment_id], condition, ViewType.ALL, max_results=MAX_RUNS))

    def create(self, start: Event, parent: "Run | None" = None) -> "Run":
        """Create the MLflow run of an experiment or of a stage execution.

        Args:
            start: start event of the stage's journal.
            parent: run of the experiment, below which MLflow shows the run of the stage. With `None`, the run of the
                experiment itself is created.
        """
        tags = {
            "bukva.experiment": start["experiment"],
            KEY: start["key"],
            "bukva.commit": start["commit"],
            "mlflow.source.type": "LOCAL",
            "mlflow.source.name": "dvc.yaml",
            "mlflow.user": start["user"],
            "bukva.processor": start.get("processor", ""),  # missing in journals of older versions
        }
        if edited := start.get("edited"):  # the commit alone cannot produce the results
            tags["bukva.edited"] = ", ".join(edited)
        else:
            tags["mlflow.source.git.commit"] = start["commit"]
        name = start["label"]
        if parent:
            siblings = [each for each in self.runs(start["key"]) if each.data.tags.get("bukva.stage") == start["stage"]]
            number = f" {len(siblings) + 1}" if siblings else ""  # executed again, or on another machine
            name = f"{start.get('shown', start['experiment'])}/{start['stage']}{number}"
            tags |= {
                "bukva.stage": start["stage"],
                "bukva.kind": start["kind"],
                "bukva.restored": str(start["restored"]).lower(),
                JOURNAL: start["id"],
                "mlflow.parentRunId": parent.info.run_id,
            }
        return self.client.create_run(self.experiment_id, start["at"], tags, name)

    def set_status(self, run: "Run", status: str, ended_at: int | None) -> None:
        """Set the status of a run. If the run has ended, also set its end time.

        ended_at: end time in milliseconds since 1970. It is ignored if the status is RUNNING.
        """
        if status == "RUNNING":
            self.client.update_run(run.info.run_id, status)
        else:
            self.client.set_terminated(run.info.run_id, status, ended_at)

    def log_points(self, run: "Run", points: "Sequence[Metric]") -> None:
        """Log metric values for a run in one request. If `points` is empty, send no request."""
        if points:
            self.client.log_batch(run.info.run_id, points)

    def tag(self, run: "Run", tags: Mapping[str, str]) -> None:
        """Set tags of a run in one request. `tags` contains the text of each tag, by tag name."""
        from mlflow.entities import RunTag

        self.client.log_batch(run.info.run_id, tags=[RunTag(name, text) for name, text in tags.items()])


def connect() -> Store:
    """Open the MLflow store that MLFLOW_TRACKING_URI names, or by default the SQLite database of the project.

    A missing database or MLflow experiment is created. This happens under a lock, because processes fail if
    they create the tables of a database at the same time.

    The function also sets the environment variables in ENVIRONMENT, unless the user has set them.

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
        if wanted := os.environ.get(EXPERIMENT_ID):
            try:
                named = client.get_experiment(wanted).name
            except MlflowException as error:
                raise BukvaError(f"{EXPERIMENT_ID} is {wanted}: {store_name()}: {explain(error)}") from None
            if os.environ.get(EXPERIMENT_NAME, named) != named:
                raise BukvaError(
                    f"{EXPERIMENT_ID} is {wanted}, which is the MLflow experiment {named}, but {EXPERIMENT_NAME} is "
                    f"{name}. Unset one of them."
                )
            name = named
        if client.get_experiment_by_name(name) is None:
            # another machine may create the experiment first, because the lock is only for this machine
            with contextlib.suppress(MlflowException):
                client.create_experiment(name, None if tracking_uri().startswith("http") else artifacts)
        experiment = client.get_experiment_by_name(name)
        if experiment.lifecycle_stage == "deleted":
            raise BukvaError(
                f"{store_name()}: the MLflow experiment {name} was deleted and cannot receive results. To restore it, "
                f"run `mlflow experiments restore --experiment-id {experiment.experiment_id}`. To use another "
                f"experiment, run `export {EXPERIMENT_NAME}=NAME`."
            )
        return Store(client, experiment.experiment_id)


def _prepare_database(path: Path, artifacts: str) -> None:
    """Create the database if it is missing. Check that it can be read and that it belongs to this project.

    The tables are created in a temporary file, because MLflow cannot open a database whose creation was interrupted.
    The check reports a locked or broken database within seconds. MLflow itself would retry for 100 s or more.

    path: file of the database.
    artifacts: URI of the folder for artifacts of this project.

    Raises:
        BukvaError: the database stores artifacts in another project.
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
        wanted = os.environ.get(EXPERIMENT_ID)
        query = f"SELECT artifact_location FROM experiments WHERE {'experiment_id' if wanted else 'name'} = ?"
        [location] = database.execute(query, [wanted or experiment_name()]).fetchone() or [artifacts]
    if path.is_relative_to(project_root()) and location != artifacts and location.endswith(f"/{ARTIFACTS_FOLDER}"):
        raise BukvaError(
            f"{path} stores its artifacts in {location}, because this project was copied or moved. Delete the "
            "database, then run `bukva sync` to create a new one."
        )


def lost_models() -> int:
    """Return the number of models in MLflow whose files are missing on this machine.

    Return 0 if the MLflow store is not SQLite.
    """
    if not (path := database_path()):
        return 0
    with contextlib.closing(sqlite3.connect(path)) as database:
        query = "SELECT artifact_location FROM logged_models WHERE lifecycle_stage = 'active' AND status = 2"  # READY
        locations = [urlsplit(location) for (location,) in database.execute(query)]
    return sum(each.scheme == "file" and not Path(unquote(each.path)).exists() for each in locations)


def lock() -> FileLock:
    """Return the lock that a process holds while it looks up or creates an MLflow run or database.

    Without the lock, two processes could create the same run or database.
    """
    return FileLock(project_root() / ".bukva" / "mlflow.lock", timeout=LOCK_SECONDS)
