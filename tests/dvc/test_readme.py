"""The first half of README as printed, in a small project that computes in another way than docs/reference: one thread.

tests/nightly/test_readme.py walks all of README at its real size.
"""

import os
import shutil
import sys
from pathlib import Path

import pytest
from readme import steps, walk

from tests.support.imports import ROOT
from tests.support.project import Project

pytestmark = pytest.mark.slow

HALF = "Install", "Run", "Change something, and compare"
NOT_HERE = {
    "git clone": "this is the clone",
    "make test": "this test is part of it",
    "bukva ui": "it serves until Ctrl-C; tests/dvc/test_report.py",
}
AHEAD = 2**31  # seconds: make takes the environment for newer than what it is made from


@pytest.fixture
def project(tmp_path):
    """A project whose dvc.lock is ours, and its environment, which make need not make."""
    made = Project(tmp_path / "bukva")
    made.folder.mkdir()
    made.create()
    made.set({"model": {"n_embd": 16}})
    shutil.copy(ROOT / "dvc.lock", made.folder)
    made.commit("as a clone of ours")
    link_environment(made.folder)
    return made


def link_environment(folder):
    """Make .venv from the one in which this test runs, newer than what make would make it from."""
    home, made = Path(sys.executable).parents[1], folder / ".venv"
    (made / "bin").mkdir(parents=True)
    for file in (home / "lib", home / "pyvenv.cfg", *(home / "bin").iterdir()):
        if file.name != "bukva":  # make looks at its age
            (made / file.relative_to(home)).symlink_to(file)
    shutil.copy(home / "bin" / "bukva", made / "bin")
    for file in (made / "bin" / "bukva", made / "made", made / "cluster"):
        file.touch()
        os.utime(file, (AHEAD, AHEAD))


def test_the_first_half_of_readme_works_as_printed(project):
    ran = []

    def run(command):
        ran.append(command)
        active = ". .venv/bin/activate && " if ". .venv/bin/activate" in ran else ""
        return project.run("bash", "-c", active + command, PYTHONPATH=str(project.folder / "src"))

    chosen = [step for step in steps() if step.heading in HALF and not step.command.startswith(tuple(NOT_HERE))]
    walk(chosen, run)
    assert "dvc exp apply baseline" in ran
    assert project.repro() == []
    names = project.run("git", "for-each-ref", "--format=%(refname:lstrip=4)", "refs/exps").split()
    (experiment,) = (name for name in names if name != "baseline")
    said = project.bukva("compare", "HEAD", experiment)
    assert "HEAD has no results. Using the experiment `baseline` instead." in said
    assert f"settings {experiment} against baseline" in said
    assert "baseline" in project.bukva("experiments")
