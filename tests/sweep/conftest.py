"""A project of git for sweeps."""

import shutil

import pytest

from tests.support.imports import ROOT, SHIPPED
from tests.support.repository import commit, run_git


@pytest.fixture
def project(tmp_path, monkeypatch):
    """A repository with a commit, in which this process runs."""
    folder = tmp_path / "project"
    (folder / ".dvc").mkdir(parents=True)
    for file in (SHIPPED, ROOT / "dvc.yaml"):
        shutil.copy(file, folder)
    (folder / "file.txt").write_text("one")
    (folder / ".gitignore").write_text("/.bukva/\n")
    (folder / ".dvc" / "config").write_text("")
    (folder / ".dvc" / ".gitignore").write_text("/config.local\n/tmp\n/cache\n")
    run_git(folder, "init", "-q")
    commit(folder)
    monkeypatch.chdir(folder)
    return folder
