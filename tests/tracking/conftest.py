"""A toy project, and a database to copy, because creating its tables takes seconds."""

import logging
import os
import shutil
import sys
from pathlib import Path

import pytest

from bukva.core.params import read_params
from bukva.tracking.store import ENVIRONMENT
from tests.support.imports import ROOT, SHIPPED

FOREIGN = (
    "MLFLOW_TRACKING_URI", "MLFLOW_EXPERIMENT_NAME", "MLFLOW_EXPERIMENT_ID", "DVC_EXP_NAME", "DVC_EXP_BASELINE_REV",
)  # fmt: skip


@pytest.fixture
def project(tmp_path, monkeypatch):
    """The root of a new project; stages run in it."""
    root = tmp_path / "мой проект"
    (root / ".dvc").mkdir(parents=True)
    (root / ".dvc/config").write_text("[core]\nno_scm = true\n")
    for variable in FOREIGN:
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("BUKVA_ROOT", str(root))
    monkeypatch.setenv("PYTHONPATH", str(ROOT / "src"))
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path))
    monkeypatch.chdir(root)
    return root


@pytest.fixture
def alone(project, monkeypatch):
    """The same, but no process can start beside a stage, as on a machine that has no more of them."""
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    return project


@pytest.fixture(scope="session")
def params():
    return read_params(SHIPPED)


@pytest.fixture(scope="session")
def empty_database(tmp_path_factory):
    """MLflow's tables, empty. MLflow logs nothing, as in the processes that bukva starts."""
    os.environ.setdefault("MLFLOW_LOGGING_LEVEL", ENVIRONMENT["MLFLOW_LOGGING_LEVEL"])
    logging.getLogger("mlflow").setLevel(ENVIRONMENT["MLFLOW_LOGGING_LEVEL"])
    path = tmp_path_factory.mktemp("mlflow") / "mlflow.db"
    from mlflow import MlflowClient

    MlflowClient(f"sqlite:///{path}").search_experiments()
    return path


@pytest.fixture
def database(alone, empty_database):
    return Path(shutil.copy(empty_database, alone / "mlflow.db"))
