"""Tests of the experiment `baseline`: when it is saved, what it contains, and how to return to it."""

from functools import partial
from pathlib import Path

import pytest
from dvc.scm import Git, resolve_rev

from bukva.core.files import sha256
from bukva.core.params import PARAMS
from bukva.project import baseline
from bukva.project.baseline import lock_of_baseline, save_baseline, undo_command
from bukva.project.lock import LOCK
from bukva.project.revisions import experiment_ref, resolve
from tests.support.repository import run_git

LOCKED = """\
schema: '2.0'
stages:
  evaluate:
    cmd: evaluate
    deps: [{path: code.py, md5: MD5}]
    params: {params.yaml: {model.n_head: 4}}
    outs: [{path: data/scores, md5: MADE}]
"""
SAVED = (
    "The results were saved as experiment baseline. To return to them after another experiment: "
    "`dvc exp apply baseline`"
)
AGAIN = "git checkout HEAD params.yaml && make repro"
COMMITTED = "git checkout HEAD params.yaml dvc.lock reports &&"
NO_IDENTITY = "GIT_AUTHOR_NAME", "GIT_AUTHOR_EMAIL", "GIT_COMMITTER_NAME", "GIT_COMMITTER_EMAIL", "EMAIL"


@pytest.fixture
def git(tmp_path, monkeypatch):
    """Return a function that runs git in a new project with a commit. The user has not configured a name for git."""
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", "/dev/null")
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    for name in NO_IDENTITY:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)
    assert undo_command() == ""  # outside of git

    run = partial(run_git, tmp_path, "-c", "user.name=a", "-c", "user.email=a@b")
    Path(PARAMS).write_text("model: {n_head: 4}\n")
    Path("code.py").write_text("pass\n")
    Path("notes.md").write_text("mine\n")
    Path(".gitignore").write_text("/data/\n/reports/page.html\n")
    run("init", "-q")
    run("config", "user.useConfigOnly", "true")
    commit(run, "start")
    monkeypatch.setattr(baseline, "digests", lambda paths: {path: sha256(Path(path)) for path in paths})
    return run


def commit(git, message):
    git("add", ".")
    git("commit", "-qm", message)


def run_stages(made="one"):
    """Write the outputs of a run with the current files."""
    for name, text in {"data/scores": made, "reports/metrics.json": made, "reports/page.html": "a page"}.items():
        Path(name).parent.mkdir(exist_ok=True)
        Path(name).write_text(text)
    digests = {"MD5": sha256(Path("code.py")), "MADE": sha256(Path("data/scores"))}
    Path(LOCK).write_text(LOCKED.replace("MD5", digests["MD5"]).replace("MADE", digests["MADE"]))


@pytest.mark.parametrize(
    ("edit", "why"),
    [
        (lambda _: Path(LOCK).unlink(), "stage evaluate has not run. Run `make repro`"),
        (lambda _: Path(PARAMS).write_text("model: {n_head: 8}\n"), "stage evaluate ran with model.n_head=4, but "),
        (lambda _: Path(PARAMS).write_text("model: {n_head: 4}  #\n"), "params.yaml differs from the last commit."),
        (lambda _: Path("code.py").write_text("1\n"), "code.py has changed since stage evaluate ran"),
        (lambda _: (Path("code.py").write_text("1\n"), run_stages()), "code.py differs from the last commit."),
        (lambda _: Path("data/scores").write_text("torn"), "data/scores differs from the output that dvc.lock recor"),
        (lambda git: git("branch", "baseline"), "a branch or tag is called baseline"),
        (lambda git: git("tag", "baseline"), "a branch or tag is called baseline"),
    ],
    ids=["nothing ran", "other settings", "a comment", "stale", "other code", "damaged", "branch", "tag"],
)
def test_results_of_anything_but_the_last_commit_are_not_saved_and_the_line_says_why(git, edit, why):
    run_stages()
    edit(git)
    said = save_baseline()
    assert said.startswith("The results were not saved as experiment baseline: ")
    assert why in said
    assert not git("for-each-ref", "refs/exps")


def test_a_text_outside_of_git_is_that_of_the_commit_if_dvc_lock_of_the_commit_has_its_digest(git):
    text = Path("data/mine.txt")  # which git ignores

    def save(content):
        text.parent.mkdir(exist_ok=True)
        text.write_text(content)
        run_stages()
        dep = f"deps: [{{path: {text}, md5: {sha256(text)}}}, "
        Path(LOCK).write_text(Path(LOCK).read_text().replace("deps: [", dep))
        return save_baseline()

    Path(PARAMS).write_text(f"model: {{n_head: 4}}\ndownload: {{path: {text}}}\n")
    commit(git, "own text")
    refused = f"The results were not saved as experiment baseline: {text} is not tracked by git, and {LOCK} of the last"
    assert save("one").startswith(refused)
    git("add", LOCK)
    git("commit", "-qm", "its digest")
    assert save_baseline() == SAVED
    assert save("two").startswith(refused)
    assert save("one") == SAVED


def test_the_baseline_is_the_last_commit_and_its_results_whatever_else_is_edited_or_staged(git):
    head = git("rev-parse", "HEAD")
    assert (lock_of_baseline(head), undo_command()) == ({}, AGAIN)
    run_stages()
    Path("notes.md").write_text("edited\n")
    git("add", "notes.md", LOCK)
    staged = git("diff", "--cached", "--name-only")
    assert save_baseline() == SAVED
    saved = resolve("baseline")
    assert saved.baseline == head == git("rev-parse", f"{saved.commit}^")
    assert git("diff", "--name-only", "HEAD", saved.commit).split() == [LOCK, "reports/metrics.json"]
    assert git("show", f"{saved.commit}:reports/metrics.json") == "one"
    assert git("diff", "--cached", "--name-only") == staged
    assert lock_of_baseline(head)["evaluate"].outs == {"data/scores": sha256(Path("data/scores"))}
    assert undo_command() == "dvc exp apply baseline"


def test_results_that_are_saved_already_are_not_saved_again_and_others_replace_them(git):
    run_stages()
    save_baseline()
    first = resolve("baseline")
    assert save_baseline() == SAVED
    assert resolve("baseline") == first
    run_stages("two")
    assert save_baseline() == SAVED
    assert git("show", f"{resolve('baseline').commit}:reports/metrics.json") == "two"


def test_each_commit_has_a_baseline_of_its_own_and_dvc_returns_to_that_of_the_last_commit(git, tmp_path):
    saved = []
    for made in ("one", "two"):
        Path("notes.md").write_text(made)
        git("commit", "-qam", made)
        run_stages(made)
        assert save_baseline() == SAVED
        saved.append(resolve("baseline"))
        assert undo_command() == "dvc exp apply baseline"
        assert resolve_rev(Git(str(tmp_path)), "baseline") == saved[-1].commit
    git("commit", "-q", "--allow-empty", "-m", "three")  # which has no baseline
    assert undo_command() == AGAIN


def test_an_experiment_of_this_name_with_other_parameters_is_no_baseline_and_stays(git):
    start = git("rev-parse", "HEAD")
    Path(PARAMS).write_text("model: {n_head: 8}\n")
    commit(git, "experiment")
    git("update-ref", experiment_ref(start, "baseline"), "HEAD")
    git("reset", "-q", "--hard", start)
    run_stages()
    assert save_baseline().endswith("To rename it: `dvc exp rename baseline NEW`")
    assert undo_command() == AGAIN


@pytest.mark.parametrize(
    ("in_cache", "remote", "command"),
    [
        (True, False, f"{COMMITTED} dvc checkout"),
        (False, True, f"{COMMITTED} dvc pull"),
        (False, False, AGAIN),
    ],
)
def test_the_way_back_to_committed_results_works_where_the_cache_lacks_them(
    git, monkeypatch, in_cache, remote, command
):
    """A second clone is in this state after it has pulled an experiment."""
    run_stages()
    save_baseline()
    commit(git, "results")  # of which `baseline` is no experiment
    asked = []
    monkeypatch.setattr(
        baseline, "cached_files", lambda digest: asked.append(digest) or ({".": Path()} if in_cache else {})
    )
    monkeypatch.setattr(baseline, "has_remote", lambda: remote)
    assert undo_command() == command
    assert asked == [sha256(Path("data/scores"))]


def test_an_experiment_in_a_temporary_copy_has_changed_nothing_to_return_from(git, monkeypatch, tmp_path):
    assert undo_command()
    monkeypatch.setenv("BUKVA_ROOT", str(tmp_path))
    (tmp_path / "copy").mkdir()
    monkeypatch.chdir(tmp_path / "copy")
    assert undo_command() == ""
