"""A project of git for sweeps."""

import shutil
import subprocess

import pytest
from imports import ROOT, SHIPPED


@pytest.fixture
def project(tmp_path, monkeypatch):
    """A repository with a commit, and an origin."""
    folder, origin = tmp_path / "project", tmp_path / "origin.git"
    (folder / ".dvc").mkdir(parents=True)
    for file in (SHIPPED, ROOT / "dvc.yaml"):
        shutil.copy(file, folder)
    identity = ["-c", "user.name=a", "-c", "user.email=a@b"]
    for command in (["init", "-q"], [*identity, "commit", "-q", "--allow-empty", "-m", "one"]):
        subprocess.run(["git", *command], cwd=folder, check=True)
    subprocess.run(["git", "init", "-q", "--bare", str(origin)], check=True)
    monkeypatch.chdir(folder)
    monkeypatch.delenv("DVC_ROOT", raising=False)
    return folder
