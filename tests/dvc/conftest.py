"""Small projects in which DVC runs for real."""

import os
from pathlib import Path

import pytest
from filelock import FileLock

from tests.support.project import Project


def reproduced(folder: Path) -> tuple[Project, str]:
    """A project after one `dvc repro`, committed; and what that printed."""
    folder.mkdir(parents=True)
    project = Project(folder)
    project.create()
    printed = project.run("dvc", "repro")
    project.commit("baseline")
    project.wait_for_background()
    return project, printed


@pytest.fixture(scope="session")
def template(tmp_path_factory) -> Project:
    """A reproduced project that all workers of xdist share, so tests must not change it."""
    root = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        root = root.parent  # that of the whole session
    folder, done = root / "template" / "bukva", root / "template.done"
    with FileLock(root / "template.lock"):
        if not done.exists():
            reproduced(folder)
            done.touch()
    return Project(folder)


@pytest.fixture(scope="module")
def told(tmp_path_factory) -> tuple[Project, str]:
    """The project of the story, and what its first `dvc repro` printed."""
    return reproduced(tmp_path_factory.mktemp("story") / "bukva")


@pytest.fixture(scope="module")
def with_ngrams(template, tmp_path_factory) -> Project:
    """A copy of the template after a commit that gives its GPT n-grams."""
    project = template.copy_to(tmp_path_factory.mktemp("project") / "bukva")
    project.set({"model": {"ngrams": "input"}})
    project.repro()
    project.commit("n-grams")
    return project
