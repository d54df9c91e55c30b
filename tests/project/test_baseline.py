"""The experiment `baseline`: which results become it, and the command that returns to it."""

import subprocess
from pathlib import Path

import pytest

from bukva.config.load import PARAMS
from bukva.core.files import sha256
from bukva.project import baseline
from bukva.project.baseline import lock_of_baseline, save_baseline, way_back
from bukva.project.lock import LOCK

LOCKED = """\
schema: '2.0'
stages:
  evaluate:
    cmd: evaluate
    deps: [{path: code.py, md5: MD5}]
    params: {params.yaml: {model.n_head: 4}}
    outs: [{path: data/scores, md5: MADE}]
"""


@pytest.fixture
def git(tmp_path, monkeypatch):
    """A function that runs git in a new project with a commit: parameters, one file of code, no results."""
    monkeypatch.setenv("DVC_ROOT", str(tmp_path))
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", "/dev/null")
    monkeypatch.chdir(tmp_path)

    def run(*arguments):
        command = ["git", "-c", "user.name=a", "-c", "user.email=a@b", *arguments]
        return subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True).stdout.strip()

    PARAMS.write_text("model: {n_head: 4}\n")
    Path("code.py").write_text("pass\n")
    run("init", "-q")
    run("add", ".")
    run("commit", "-qm", "start")
    monkeypatch.setattr(baseline, "digests", lambda paths: {path: sha256(Path(path)) for path in paths})
    return run


def run_stages(made="one"):
    """Write the dvc.lock of a run with the files that are here."""
    Path(LOCK).write_text(LOCKED.replace("MD5", sha256(Path("code.py"))).replace("MADE", made))


def saved(git):
    """Make the present files the experiment that DVC would save."""
    first = git("rev-parse", "HEAD")
    git("add", ".")
    git("commit", "-qm", "experiment")
    git("update-ref", f"refs/exps/{first[:2]}/{first[2:]}/baseline", "HEAD")
    git("reset", "-q", first)


@pytest.mark.parametrize(
    ("edit", "why"),
    [
        (lambda: Path(LOCK).unlink(), "stage evaluate has not run; run `make repro`"),
        (lambda: PARAMS.write_text("model: {n_head: 8}\n"), "stage evaluate ran with model.n_head 4, and params"),
        (lambda: PARAMS.write_text("model: {n_head: 4}  # here\n"), "because params.yaml differs from the last commit"),
        (lambda: Path("code.py").write_text("1\n"), "code.py has changed since stage evaluate ran"),
        (lambda: (Path("code.py").write_text("1\n"), run_stages()), "because code.py differs from the last commit"),
    ],
    ids=["nothing ran", "other settings", "another file", "stale", "other code"],
)  # fmt: skip
def test_results_of_anything_but_the_last_commit_are_not_saved_and_the_line_says_why(git, edit, why):
    run_stages()
    edit()
    said = save_baseline()
    assert said.startswith("Not saved as baseline")
    assert why in said


def test_results_that_are_saved_already_are_not_saved_again(git):
    run_stages()
    saved(git)
    assert save_baseline() == "Saved as experiment baseline. After an experiment, return to it: dvc exp apply baseline"


def test_the_way_back_is_the_baseline_of_this_commit_else_its_own_results_else_to_run_it_again(git):
    assert way_back() == "git checkout HEAD params.yaml && make repro"
    run_stages()
    saved(git)
    assert way_back() == "dvc exp apply baseline"
    run_stages("two")
    git("add", ".")
    git("commit", "-qm", "results")
    assert way_back() == "git checkout HEAD params.yaml dvc.lock reports && dvc checkout"


def test_there_is_no_way_back_outside_of_git(tmp_path, monkeypatch):
    monkeypatch.setenv("DVC_ROOT", str(tmp_path))
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    assert way_back() == ""


def test_the_stages_of_a_baseline_are_those_of_its_experiment_or_else_of_its_commit(git):
    head = git("rev-parse", "HEAD")
    assert lock_of_baseline(head) == {}
    run_stages("one")
    saved(git)
    assert lock_of_baseline(head)["evaluate"].outs == {"data/scores": "one"}
