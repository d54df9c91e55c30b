"""A small project of its own, in which DVC runs for real."""

import pytest

from chaos.project import Project


@pytest.fixture(scope="module")
def project(tmp_path_factory) -> Project:
    """The project after one `dvc repro`, committed."""
    made = Project(tmp_path_factory.mktemp("project") / "bukva")
    made.folder.mkdir()
    made.make()
    made.first = made.run("dvc", "repro")
    made.commit("baseline")
    return made


@pytest.fixture
def fresh(project):
    """The same project, put back before and after a test."""
    project.clean()
    yield project
    project.clean()
