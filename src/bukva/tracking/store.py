"""One MLflow store: where it is, how it is opened, and the few things that are asked of it.

mlflow is imported inside functions that run when a store is opened or later: importing it takes a second or more,
and it reads its environment, which is set first.
"""

import contextlib
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import parse_qs, quote, unquote, urlsplit

from filelock import FileLock

from bukva.base.errors import BukvaError
from bukva.base.files import project_root
from bukva.base.redact import HIDDEN, redact_text, redact_url

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities import Experiment, Run

EXPERIMENT = "bukva"
LOCK_SECONDS = 60
PAGE = 1000
LONGEST_WORDS = 300  # of what MLflow raises; a proxy may well answer with a whole page in one line
DATABASES = ("sqlite", "postgresql", "mysql", "mssql")
RETRIES = "MLFLOW_HTTP_REQUEST_MAX_RETRIES"

# Where the user has not said otherwise. MLflow's own patience with a dead server is four minutes per call.
ENVIRONMENT = {
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR": "false",
    RETRIES: "2",
    "MLFLOW_HTTP_REQUEST_TIMEOUT": "10",
    "MLFLOW_HTTP_RESPECT_RETRY_AFTER_HEADER": "false",  # a server may ask for an hour
    "MLFLOW_LOGGING_LEVEL": "CRITICAL",  # it logs a traceback of what it raises; we tell that in one line
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
        if _scheme().partition("+")[0] in DATABASES:
            _look_into_database()
        client = MlflowClient(tracking_uri=tracking_uri())
        known = client.get_experiment_by_name(EXPERIMENT)
    if not known:
        with lock():
            known = client.get_experiment_by_name(EXPERIMENT) or _create_experiment(client)
    return Store(client, known.experiment_id)


@contextlib.contextmanager
def only_once() -> Iterator[None]:
    """Around a creation: MLflow repeats a call whose answer was lost, and there would be two."""
    before = os.environ[RETRIES]
    os.environ[RETRIES] = "0"
    try:
        yield
    finally:
        os.environ[RETRIES] = before


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
    return _scheme() in ("http", "https")


def redact_secrets(text: object) -> str:
    """A text for people and logs: without users in addresses, and without passwords and tokens anywhere."""
    redacted = redact_text(text)
    for secret in _secrets():
        redacted = redacted.replace(secret, HIDDEN)
    return redacted


def explain(error: BaseException) -> str:
    """One line on what MLflow's many parts raise: the innermost error, which the others wrap in ever more words."""
    if isinstance(error, BukvaError):
        return redact_secrets(error)
    while cause := error.__cause__ or (None if error.__suppress_context__ else error.__context__):
        error = cause
    words = str(error).strip().partition("\n")[0]
    return redact_secrets(f"{type(error).__name__}: {words}")[:LONGEST_WORDS]


def _scheme() -> str:
    return urlsplit(tracking_uri()).scheme


def _secrets() -> set[str]:
    secrets = []
    with contextlib.suppress(ValueError):  # an address that is none
        address = urlsplit(tracking_uri())
        secrets += [address.password or "", *parse_qs(address.query).get("password", [])]
    secrets += [os.environ.get(name, "") for name in ("MLFLOW_TRACKING_PASSWORD", "MLFLOW_TRACKING_TOKEN")]
    return {form(secret) for secret in secrets if secret for form in (str, quote, unquote)}


def _look_into_database() -> None:
    """Make a database that is not there, and raise at once for one that is locked, broken or of another MLflow.

    MLflow would try ten times, for 100 s and more; and to a database of an older MLflow it adds the tables that
    are missing, though other projects may use it, with that older MLflow.
    """
    import mlflow
    from alembic.migration import MigrationContext
    from alembic.script import ScriptDirectory
    from sqlalchemy import create_engine, make_url, pool

    uri = make_url(tracking_uri())
    if uri.drivername.startswith("sqlite") and _is_empty(Path(uri.database or "")):
        _make_database(Path(uri.database or ""))
    with create_engine(uri, poolclass=pool.NullPool).connect() as connection:
        revision = MigrationContext.configure(connection).get_current_revision()
    migrations = ScriptDirectory(str(Path(mlflow.__file__).parent / "store/db_migrations"))
    known = {script.revision for script in migrations.walk_revisions()}
    if revision and revision not in known:
        raise BukvaError(
            f"The tables are of a newer MLflow (their version {revision} is unknown here); that MLflow would do, or "
            "another database in MLFLOW_TRACKING_URI."
        )
    if revision and revision not in migrations.get_heads():
        raise BukvaError(
            f"The tables are of an older MLflow (their version {revision}) that others may use; after a backup, this "
            f"would do: mlflow db upgrade '{redact_url(tracking_uri())}'"
        )


def _is_empty(database: Path) -> bool:
    return not database.exists() or not database.stat().st_size


def _make_database(path: Path) -> None:
    """Under another name first: MLflow opens no file whose making was interrupted, neither then nor later."""
    from mlflow import MlflowClient

    unfinished = path.with_name(f"{path.name}.unfinished")
    for left in (unfinished, path.with_name(f"{unfinished.name}-journal")):
        left.unlink(missing_ok=True)
    MlflowClient(f"sqlite:///{unfinished}").search_experiments()
    unfinished.replace(path)


def _create_experiment(client: "MlflowClient") -> "Experiment":
    # absolute as well: MLflow would take the folder of the process that happens to come first
    artifacts = None if is_server() else (project_root() / "mlruns").as_uri()
    tags = {"mlflow.experimentKind": "custom_model_development"}
    return client.get_experiment(client.create_experiment(EXPERIMENT, artifact_location=artifacts, tags=tags))
