"""The first half of README as printed, in a clone whose machine computes in another way than that of docs/reference.

Its commands are those of README; its text is small. tests/nightly/test_readme.py walks all of README at its real size.
"""

import os
import re
import shutil
import sys
from pathlib import Path

import pytest
from imports import ROOT
from readme import steps, walk
from ruamel.yaml import YAML

pytestmark = pytest.mark.slow

HALF = "Install", "Run", "Change something, and compare"
NOT_HERE = {
    "git clone": "this is the clone",
    "make test": "this test is part of it",
    "bukva ui": "it serves until Ctrl-C; tests/dvc/test_report.py",
}
TRAININGS = "train-bigram", "train-gpt", "evaluate", "sample", "publish"
AHEAD = 2**31  # seconds: make takes the environment for newer than what it is made from


@pytest.fixture
def clone(template, tmp_path):
    """A project with the results of its data stages only, and with an environment that make need not make."""
    project = template.copy_to(tmp_path / "bukva")
    yaml, lock = YAML(), project.folder / "dvc.lock"
    recorded = yaml.load(lock)
    for stage in TRAININGS:
        del recorded["stages"][stage]
    yaml.dump(recorded, lock)
    for file in ("metrics.json", "scores.json", "curves"):
        path = project.folder / "reports" / file
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    project.set({"model": {"n_embd": 16}})
    shutil.copy(ROOT / "Makefile", project.folder)
    project.commit("the data stages")
    link_environment(project.folder)
    return project


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


def test_the_first_half_of_readme_works_as_printed(clone):
    ran = []

    def run(command):
        ran.append(command)
        active = ". .venv/bin/activate && " if ". .venv/bin/activate" in ran else ""
        return clone.run("bash", "-c", active + command, PYTHONPATH=str(clone.folder / "src"))

    chosen = [step for step in steps() if step.heading in HALF and not step.command.startswith(tuple(NOT_HERE))]
    walk(chosen, run)
    assert "dvc exp apply baseline" in ran
    assert "up to date" in clone.run("dvc", "status")
    assert clone.repro() == []
    assert re.search(r"\[baseline\]", clone.run("dvc", "exp", "show"))
    names = clone.run("git", "for-each-ref", "--format=%(refname:lstrip=4)", "refs/exps").split()
    (experiment,) = (name for name in names if name != "baseline")
    said = clone.bukva("compare", "HEAD", experiment)
    assert "HEAD has no results of its own; experiment baseline stands for it." in said
    assert f"settings {experiment} against baseline" in said
    assert "baseline" in clone.bukva("experiments")
