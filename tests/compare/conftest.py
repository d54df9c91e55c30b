"""A fake project, whose stages take no time, with experiments that DVC ran for real."""

import os
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from filelock import FileLock
from typer.testing import CliRunner

from bukva.cli.app import app
from bukva.compare import comparison
from tests.compare.made import scored
from tests.support.imports import SHIPPED
from tests.support.project import Project

HERE = Path(__file__).parent
ROOT = HERE.parents[1]


class Fake(Project):
    """Three stages of the real project: they have its names, paths and parameters, and write files of its shape."""

    def create(self) -> None:
        """Write the files and run the stages once."""
        for file in (SHIPPED, ROOT / ".dvcignore"):
            shutil.copy(file, self.folder)
        shutil.copy(HERE / "fake.py", self.folder)
        shutil.copy(HERE / "pipeline.yaml", self.folder / "dvc.yaml")  # DVC reads every dvc.yaml below a project
        for name, text in {
            "data/sample/a.txt": "text",
            "score.py": "32",
            "code/one.py": "1",
            "code/deep/two.py": "2",
            "code/deep/.two.py.part": "torn",
            "code/__pycache__/one.cpython-311.pyc": "byte code",
            "reports/.gitkeep": "",
            ".gitignore": "/data/*\n!/data/sample/\n/.bukva/\n__pycache__/\n",
        }.items():
            (self.folder / name).parent.mkdir(parents=True, exist_ok=True)
            (self.folder / name).write_text(text, encoding="utf-8")
        self.run("git", "init", "-q", "-b", "main")
        self.run("dvc", "init", "-q")
        (self.folder / ".dvc/config").write_text("[core]\n    analytics = false\n", encoding="utf-8")
        self.run("dvc", "repro", "-q")
        self.commit("baseline")

    def copy_to(self, folder: Path) -> "Fake":
        """A copy with DVC's cache and its queue."""
        shutil.copytree(self.folder, folder, symlinks=True)
        return Fake(folder)


EXPERIMENTS = {"two-heads": "model.n_head=2", "s1338": "train_gpt.seed=1338", "bad": "model.n_layer=13"}  # bad fails


@pytest.fixture(scope="session")
def template(tmp_path_factory) -> Fake:
    """The project with its experiments, from DVC's queue. All workers of xdist share it; tests must not change it."""
    root = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        root = root.parent  # that of the whole session
    made = Fake(root / "fake" / "bukva")
    with FileLock(root / "fake.lock"):
        if not (root / "fake.done").exists():
            made.folder.mkdir(parents=True)
            made.create()
            for name, change in EXPERIMENTS.items():
                made.run("dvc", "exp", "run", "--queue", "-n", name, "-S", change)
            made.run("dvc", "exp", "run", "--run-all")
            made.wait_for_background()
            (root / "fake.done").touch()
    return made


@pytest.fixture
def project(template, tmp_path, monkeypatch) -> Fake:
    """A copy of it, in which bukva.experiments works."""
    copy = template.copy_to(tmp_path / "bukva")
    monkeypatch.chdir(copy.folder)
    for name in ("DVC_SITE_CACHE_DIR", "GIT_CONFIG_GLOBAL"):
        monkeypatch.setenv(name, copy.env[name])
    return copy


@pytest.fixture
def bukva(project, monkeypatch):
    """A function that runs a command of bukva in a copy of the fake project."""
    monkeypatch.setenv("COLUMNS", "200")
    return lambda *command: CliRunner().invoke(app, command)


@pytest.fixture
def known(tmp_path, monkeypatch):
    """A function that makes results; compare and the leaderboard find all, HEAD as the baseline."""
    made = {}
    monkeypatch.setenv("BUKVA_ROOT", str(tmp_path))

    def read_results(revisions):
        names = [getattr(revision, "name", revision) for revision in revisions]
        return [made[name] for name in names if name in made]

    for name, replacement in {
        "experiments": lambda: [name for name in made if name != "HEAD"],
        "results_of": read_results,
        "read_results": read_results,
        "head": str,
        "resolve": lambda name: name,
        "unfinished": list,
    }.items():
        monkeypatch.setattr(comparison, name, replacement)

    def make(name, *changes, problem="", **more):
        made[name] = replace(scored(tmp_path, name, *changes, **more), problem=problem)

    make.made = made
    return make
