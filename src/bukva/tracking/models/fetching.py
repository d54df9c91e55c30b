"""Fetches a registered model from MLflow."""

import re
from pathlib import Path
from typing import TYPE_CHECKING

from bukva.core.errors import BukvaError
from bukva.tracking.address import errors_in_one_line, tracking_uri
from bukva.tracking.store import connect

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities.model_registry import ModelVersion

SCHEME = "models:"
NAME = re.compile(r"models:/([^/@]+)(?:@([^/@]+)|/(\d+))")  # name, and alias or version


def fetch(uri: str, into: Path) -> Path:
    """The files of the weights of a registered model: where MLflow keeps them, or copied into a folder.

    Args:
        uri: models:/NAME@ALIAS or models:/NAME/VERSION.
        into: for what another machine keeps.

    Raises:
        BukvaError: it is not registered, or MLflow cannot be reached.
    """
    found = NAME.fullmatch(uri)
    if not found:
        raise BukvaError(f"{uri}: not the name of a registered model; use models:/NAME@ALIAS or models:/NAME/VERSION.")
    _check_database()
    with errors_in_one_line():
        client = connect().client
        version = _version(client, *found.groups())
        if version is None:
            names = sorted(each.name for each in client.search_registered_models())
            known = f"it has {', '.join(names)} (see its page Models)" if names else "it has no model yet"
            raise BukvaError(f"no {uri} is registered; {known}.")
        return _download(str(version.source), into)


def _check_database() -> None:
    """Raise, rather than create one, where the database of MLflow would be a file that is missing."""
    path = tracking_uri().removeprefix("sqlite:///")
    if path.startswith("/") and not Path(path).exists():
        raise BukvaError(f"{path}: no MLflow is here; go to the folder of the project, or set MLFLOW_TRACKING_URI.")


def _version(client: "MlflowClient", name: str, alias: str | None, number: str | None) -> "ModelVersion | None":
    from mlflow.exceptions import MlflowException

    try:
        return client.get_model_version_by_alias(name, alias) if alias else client.get_model_version(name, str(number))
    except MlflowException as error:
        if error.error_code in ("RESOURCE_DOES_NOT_EXIST", "INVALID_PARAMETER_VALUE"):  # the latter for an alias
            return None
        raise


def _download(source: str, into: Path) -> Path:
    """The folder of the weights in a model that saving.py saved."""
    from mlflow.artifacts import download_artifacts

    uri = f"{source.rstrip('/')}/artifacts"
    kept = Path(download_artifacts(artifact_uri=uri, dst_path=str(into), tracking_uri=tracking_uri()))
    return next(path for path in sorted(kept.iterdir()) if path.is_dir())
