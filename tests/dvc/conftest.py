"""A small project in which DVC runs for real: one is made by `dvc repro`, and each module works in a copy."""

import os

import pytest
from filelock import FileLock

from chaos.project import Project


@pytest.fixture(scope="session")
def template(tmp_path_factory) -> Project:
    """The project after one `dvc repro`, committed. All workers of xdist share it, so tests must not change it."""
    root = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        root = root.parent  # that of the whole session
    made, log = Project(root / "template" / "bukva"), root / "template.log"
    with FileLock(root / "template.lock"):
        if not log.exists():
            made.folder.mkdir(parents=True)
            made.create()
            printed = made.run("dvc", "repro")
            made.commit("baseline")
            made.wait_for_background()
            log.write_text(printed, encoding="utf-8")
    made.first_repro = log.read_text(encoding="utf-8")
    return made


@pytest.fixture(scope="module")
def copied(template, tmp_path_factory) -> Project:
    """A copy of the template for one module."""
    return template.copy_to(tmp_path_factory.mktemp("project") / "bukva")


@pytest.fixture(scope="module")
def with_ngrams(copied) -> Project:
    """The copy after a commit that gives its GPT n-grams."""
    copied.set({"model": {"ngrams": "input"}})
    copied.repro()
    copied.commit("n-grams")
    return copied


@pytest.fixture
def project(copied) -> Project:
    """The copy, as it was committed."""
    copied.reset()
    return copied
