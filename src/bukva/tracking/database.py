"""A database as MLflow store: created, checked, and replaced when it was copied from another folder.

MLflow stores the absolute path of the artifacts in the database. In a copy of a project, the copied database writes
artifacts into the original's folder; in a project that was moved, to a folder that is gone. Such a database is renamed,
and a new one gets everything from the journals, which were copied along. The other folder is never touched.
"""

from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from bukva.core.errors import BukvaError
from bukva.core.files import project_root
from bukva.core.redact import redact_url

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from sqlalchemy import Connection

EXPERIMENT = "bukva"
ARTIFACTS = "mlruns"
TO_FILL = "bukva.to_fill"  # tag of the experiment in a database that still has to get all journals
SIDE_FILES = ("-journal", "-wal", "-shm")  # SQLite keeps what is not yet in the database in files of these names


def prepare(uri: str) -> str:
    """Create a missing database, replace one of another folder, and check that MLflow can use it.

    Must be called under the lock, and before MLflow opens the database: it keeps the file open.

    Returns:
        A sentence about a database that was replaced, else "".

    Raises:
        BukvaError: the tables belong to another version of MLflow.
        sqlalchemy.exc.DBAPIError: the database is locked or broken; MLflow tries for 100 s and more.
    """
    from sqlalchemy import create_engine, make_url, pool

    url = make_url(uri)
    path = Path(url.database or "") if url.drivername.startswith("sqlite") else None
    if path and _is_empty(path):
        _create(path)
    with create_engine(url, poolclass=pool.NullPool).connect() as connection:
        _check_version(connection, uri)
        foreign = _foreign_artifacts(connection) if path and path.is_relative_to(project_root()) else ""
    if not (path and foreign):
        return ""
    aside = _replace(path)
    return (
        f"{path}: its artifacts are in {foreign}, so this project was copied or moved; a new database is filled from "
        f".bukva/journal, and the former one is {aside.name}."
    )


def create_experiment(client: "MlflowClient", artifacts: str | None, **tags: str) -> str:
    """Create the experiment `bukva`, with its artifacts at this address; returns its id."""
    tags = {"mlflow.experimentKind": "custom_model_development", **tags}
    return str(client.create_experiment(EXPERIMENT, artifact_location=artifacts, tags=tags))


def own_artifacts() -> str:
    """The address of this project's artifacts: absolute, else MLflow takes the folder of the current process."""
    return (project_root() / ARTIFACTS).as_uri()


def _is_empty(path: Path) -> bool:
    return not path.exists() or not path.stat().st_size


def _create(path: Path, **tags: str) -> None:
    """Write the tables under another name first: MLflow cannot open a file in which that was interrupted."""
    unfinished = _new(path, **tags)
    unfinished.replace(path)


def _new(path: Path, **tags: str) -> Path:
    from mlflow import MlflowClient

    unfinished = path.with_name(f"{path.name}.unfinished")
    for left in (unfinished, path.with_name(f"{unfinished.name}-journal")):
        left.unlink(missing_ok=True)
    client = MlflowClient(f"sqlite:///{unfinished}")
    create_experiment(client, own_artifacts(), **tags)
    return unfinished


def _replace(path: Path) -> Path:
    """Put a new database in the place of a foreign one, and return the new name of that."""
    unfinished = _new(path, **{TO_FILL: "from all journals"})
    number = 1
    while (aside := path.with_name(f"{path.name}.of-other-folder-{number}")).exists():
        number += 1
    for ending in SIDE_FILES:  # first: beside a new database they would be applied to it
        side = path.with_name(path.name + ending)
        if side.exists():
            side.rename(aside.with_name(aside.name + ending))
    path.rename(aside)
    unfinished.replace(path)
    return aside


def _foreign_artifacts(connection: "Connection") -> str:
    """The folder of the artifacts, if it is that of another project; a place that a user chose is left as it is."""
    from sqlalchemy import inspect, text

    if not inspect(connection).has_table("experiments"):
        return ""
    query = text("SELECT artifact_location FROM experiments WHERE name = :name")
    location = connection.execute(query, {"name": EXPERIMENT}).scalar() or ""
    parts = urlsplit(location)
    path = Path(unquote(parts.path))
    is_foreign = parts.scheme in ("", "file") and path.name == ARTIFACTS and path != project_root() / ARTIFACTS
    return str(path) if is_foreign else ""


def _check_version(connection: "Connection", uri: str) -> None:
    """To a database of an older MLflow, MLflow adds missing tables; another project may use it with that version."""
    import mlflow
    from alembic.migration import MigrationContext
    from alembic.script import ScriptDirectory

    revision = MigrationContext.configure(connection).get_current_revision()
    migrations = ScriptDirectory(str(Path(mlflow.__file__).parent / "store/db_migrations"))
    known = {script.revision for script in migrations.walk_revisions()}
    if revision and revision not in known:
        raise BukvaError(
            f"The tables are of a newer MLflow (their version {revision} is unknown here); use that MLflow, or set "
            "MLFLOW_TRACKING_URI to another database."
        )
    if revision and revision not in migrations.get_heads():
        raise BukvaError(
            f"The tables are of an older MLflow (their version {revision}) that others may use; make a backup, then "
            f"run: mlflow db upgrade '{redact_url(uri)}'"
        )
