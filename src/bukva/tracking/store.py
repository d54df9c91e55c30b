"""Open the MLflow store, a server or a database. Messages contain no passwords.

mlflow is imported inside functions, because the import takes a second and reads variables that `connect` sets first.
"""

import contextlib
import os
import re
import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from filelock import FileLock

from bukva.core.errors import BukvaError, redact_url
from bukva.core.files import project_root
from bukva.tracking.record import explain

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities import Experiment, Run

EXPERIMENT = "bukva"  # default name of the MLflow experiment
EXPERIMENT_NAME, EXPERIMENT_ID = "MLFLOW_EXPERIMENT_NAME", "MLFLOW_EXPERIMENT_ID"  # MLflow's variables for another
ARTIFACTS_FOLDER = "mlruns"
DRIVER = "sqlite+pysqlite"
LOCK_SECONDS = 60
MAX_RUNS = 50_000  # the most runs that MLflow returns in one response
# Defaults for variables that the user has not set.
ENVIRONMENT = {
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR": "false",
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "0",  # after a lost response, a retry would create a second object
    "MLFLOW_HTTP_REQUEST_TIMEOUT": "10",  # by default MLflow waits four minutes per call for a dead server
    "MLFLOW_LOGGING_LEVEL": "CRITICAL",  # MLflow would log a traceback; bukva reports each error in one line
    "MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT": "true",  # MLflow would print the server's address with its password
}
# tags of runs: `key` of the experiment, and of a stage's run, its `id` and the run of the experiment
KEY, RUN, PARENT = "bukva.key", "bukva.run", "mlflow.parentRunId"


# ---- the URI, and errors without passwords


def tracking_uri() -> str:
    """Return MLFLOW_TRACKING_URI, or by default the URI of the project's SQLite database, with an absolute path.

    BukvaError: the value is a folder, or has no scheme such as `http://`.
    """
    if path := database_path():
        return _uri_of(path)
    uri = os.environ["MLFLOW_TRACKING_URI"]
    is_folder = uri.startswith("file:") or "://" not in uri
    if is_folder and not uri.startswith("databricks") and not os.environ.get("MLFLOW_ALLOW_FILE_STORE"):
        raise BukvaError(
            f"MLFLOW_TRACKING_URI is {redact_url(uri)!r}, but must be the URI of a server or a database. MLflow no "
            "longer supports folders. Use http://HOST:5000 or sqlite:////PATH/mlflow.db."
        )
    return uri


def database_path() -> Path | None:
    """Return the path of the SQLite database of the MLflow store, or None if the store is not SQLite."""
    from sqlalchemy.engine import make_url

    uri = os.environ.get("MLFLOW_TRACKING_URI") or "sqlite:///mlflow.db"
    is_sqlite = uri.startswith(("sqlite:///", f"{DRIVER}:///"))
    return project_root() / (make_url(uri).database or "") if is_sqlite else None


def _uri_of(database: Path) -> str:
    from sqlalchemy.engine import URL

    return str(URL.create(DRIVER, database=str(database)))


def store_name() -> str:
    """Return the path of the SQLite database or the URI without passwords, for messages."""
    return str(database_path() or redact_url(os.environ["MLFLOW_TRACKING_URI"]))


@contextlib.contextmanager
def errors_in_one_line() -> Iterator[None]:
    """Convert any error to a BukvaError, because a traceback would show URLs with passwords."""
    try:
        yield
    except BukvaError:
        raise
    except Exception as error:
        raise BukvaError(f"{store_name()}: {explain(error)}") from None


# ---- the store


@dataclass(frozen=True)
class Store:
    """An open MLflow store. `experiment_id` is the ID of the MLflow experiment that contains all runs of bukva."""

    client: "MlflowClient"
    experiment_id: str

    def runs(self, key: str = "") -> "dict[str, Run]":
        """Return the runs of the experiment with this key, or all runs of bukva, also deleted ones.

        In the dict, the runs of stages have the `id` of their record, and those of experiments their run ID.
        """
        from mlflow.entities import ViewType

        condition = f"tags.`{KEY}` = '{key}'" if key else f"tags.`{KEY}` != ''"
        runs = self.client.search_runs([self.experiment_id], condition, ViewType.ALL, max_results=MAX_RUNS)
        return {run.data.tags.get(RUN, run.info.run_id): run for run in runs}

    def named(self, name: str) -> "list[Run]":
        """Return the runs of bukva with this name, or with this name and an addition, without deleted ones."""
        pattern = re.sub(r"['\"\\]", "_", name)  # `_` matches any character
        condition = f"tags.`{KEY}` != '' AND attributes.run_name LIKE '{pattern}%'"
        runs = self.client.search_runs([self.experiment_id], condition, max_results=MAX_RUNS)
        return [run for run in runs if re.match(rf"{re.escape(name)}($|[:/@])", run.info.run_name)]

    def log(
        self,
        run_id: str,
        points: Iterable[tuple[Any, ...]] = (),
        params: Mapping[str, str] = {},
        tags: Mapping[str, str] = {},
    ) -> None:
        """Log values, parameters and tags to a run. Points have the arguments of `mlflow.entities.Metric`."""
        from mlflow.entities import Metric, Param, RunTag

        entities = [Metric(*each) for each in points], [Param(*each) for each in params.items()]
        self.client.log_batch(run_id, *entities, [RunTag(*each) for each in tags.items()])


def connect() -> Store:
    """Open the MLflow store, and set the variables in ENVIRONMENT. A missing database or experiment is created.

    BukvaError: the environment variables do not name a store, the database stores artifacts in another project, or a
    user has deleted the MLflow experiment. MLflow raises other errors, for example if the database is locked.
    """
    for name, value in ENVIRONMENT.items():
        os.environ.setdefault(name, value)
    uri, artifacts = tracking_uri(), (project_root() / ARTIFACTS_FOLDER).as_uri()  # a relative one depends on the cwd
    from mlflow import MlflowClient

    with lock():  # processes that create the tables of a database at the same time fail
        if path := database_path():
            _prepare_database(path, artifacts)
        client = MlflowClient(tracking_uri=uri)
        experiment = _experiment(client, None if uri.startswith("http") else artifacts)
    if experiment.lifecycle_stage == "deleted":
        raise BukvaError(
            f"{store_name()}: the MLflow experiment {experiment.name} was deleted and cannot receive results. To "
            f"restore it, run `mlflow experiments restore --experiment-id {experiment.experiment_id}`. To use another "
            f"experiment, run `export {EXPERIMENT_NAME}=NAME`."
        )
    return Store(client, experiment.experiment_id)


def _prepare_database(path: Path, artifacts: str) -> None:
    """Create a missing database, and check an existing one, because MLflow tries to open a broken one for 100 s."""
    from mlflow.store.tracking.sqlalchemy_store import SqlAlchemyStore

    if not (path.exists() and path.stat().st_size):
        unfinished = path.with_name(f"{path.name}.unfinished")
        unfinished.unlink(missing_ok=True)
        # MlflowClient would write the path of the current folder into SQL unescaped, and a quote would break it
        SqlAlchemyStore(_uri_of(unfinished), artifacts)
        unfinished.replace(path)
    wanted = os.environ.get(EXPERIMENT_ID) or os.environ.get(EXPERIMENT_NAME) or EXPERIMENT
    # in SQL, because MLflow keeps its connections to a database even if the file is deleted and created again
    query = "SELECT artifact_location FROM experiments WHERE ? IN (CAST(experiment_id AS TEXT), name)"
    with contextlib.closing(sqlite3.connect(path)) as database:
        [location] = database.execute(query, [wanted]).fetchone() or [artifacts]
    if path.is_relative_to(project_root()) and location != artifacts and location.endswith(f"/{ARTIFACTS_FOLDER}"):
        raise BukvaError(
            f"{path} stores its artifacts in {location}, because this project was copied or moved. Delete the "
            "database, then run `bukva sync` to create a new one."
        )


def _experiment(client: "MlflowClient", artifacts: str | None) -> "Experiment":
    """Return the MLflow experiment that the environment variables name, or by default `bukva`."""
    from mlflow.exceptions import MlflowException

    if wanted := os.environ.get(EXPERIMENT_ID):
        return client.get_experiment(wanted)
    name = os.environ.get(EXPERIMENT_NAME) or EXPERIMENT
    if client.get_experiment_by_name(name) is None:
        # another machine may create the experiment first, because the lock is only for this machine
        with contextlib.suppress(MlflowException):
            client.create_experiment(name, artifacts)
    return client.get_experiment_by_name(name)


def lock() -> FileLock:
    """Return the lock with which only one process of this machine looks up or creates a run or database."""
    return FileLock(project_root() / ".bukva" / "mlflow.lock", timeout=LOCK_SECONDS)
