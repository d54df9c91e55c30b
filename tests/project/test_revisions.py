"""Tests of how names of results are resolved, in git repositories that have only commits and references."""

import os
import shutil
from functools import partial

import pytest
from dvc.scm import Git, resolve_rev

from bukva.core.errors import BukvaError
from bukva.project import revisions
from bukva.project.baseline import undo_command
from bukva.project.revisions import RefusedError, Revision, experiments, file_at, head, load_files, resolve
from tests.support.repository import commit as commit_files
from tests.support.repository import run_git

DVCS_OWN = "stash", "celery/stash", "celery/failed", "exec/EXEC_HEAD", "apply/ORIG_HEAD", "temp/abc"


@pytest.fixture
def git(tmp_path, monkeypatch):
    monkeypatch.setenv("BUKVA_ROOT", str(tmp_path))
    (tmp_path / ".dvc").mkdir()
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))

    run_git(tmp_path, "init", "-q", "-b", "main")
    return partial(run_git, tmp_path)


def commit(git, text):
    git("commit", "-q", "--allow-empty", "-m", text)
    return git("rev-parse", "HEAD")


def experiment(git, name, baseline):
    """Create an experiment as DVC does: a commit on top of `baseline`, and a git reference."""
    made = git("commit-tree", f"{baseline}^{{tree}}", "-p", baseline, "-m", name)
    git("update-ref", f"refs/exps/{baseline[:2]}/{baseline[2:]}/{name}", made)
    return made


def test_experiments_branches_tags_commits_and_the_workspace_have_names(git):
    first, second = commit(git, "one"), commit(git, "two")
    git("tag", "-a", "v1", "-m", "annotated", first)
    wide = experiment(git, "wide", second)
    git("branch", "wide")
    expected = {
        "wide": Revision("wide", wide, second),
        "heads/wide": Revision("heads/wide", second),
        "main": Revision("main", second),
        "v1": Revision("v1", first),
        second[:9]: Revision(second[:9], second),
        wide[:9]: Revision(wide[:9], wide, second),
        "HEAD~1": Revision("HEAD~1", first),
        "workspace": Revision("workspace", ""),
    }
    assert {name: resolve(name) for name in expected} == expected
    assert head() == second
    for name in DVCS_OWN:
        git("update-ref", f"refs/exps/{name}", first)
    assert [one.name for one in experiments()] == ["wide"]


def test_experiments_with_one_name_are_called_by_their_commits_and_the_name_alone_means_that_of_head(git):
    first = commit(git, "one")
    of_first = experiment(git, "wide", first)
    assert resolve("wide") == resolve(f"wide@{first[:7]}") == Revision("wide", of_first, first)
    second = commit(git, "two")
    of_second = experiment(git, "wide", second)
    long, short = Revision(f"wide@{second[:7]}", of_second, second), Revision(f"wide@{first[:7]}", of_first, first)
    assert experiments() == sorted([long, short], key=lambda each: each.name)
    assert resolve(long.name) == resolve(f"wide@{second}") == resolve("wide") == long
    assert resolve(short.name) == short
    commit(git, "three")
    assert resolve("wide") == long  # of the nearest commit before HEAD
    git("checkout", "-q", "--orphan", "other")
    commit(git, "four")
    names = " or ".join(each.name for each in experiments())
    with pytest.raises(BukvaError, match=rf"^wide: 2 experiments have this name\. Use {names}\.$"):
        resolve("wide")
    with pytest.raises(BukvaError, match=r"no experiment, branch"):
        resolve(short.name[:-1])


def test_a_name_has_as_many_digits_of_the_commit_as_are_necessary():
    one, two, far = "1" * 9 + "a" * 31, "1" * 9 + "b" * 31, "2" * 40
    keys = {("wide", one), ("wide", two), ("other", two), ("wide", far)}
    assert {*revisions._unique_names(keys).values()} == {
        "wide@111111111a", "wide@111111111b", "wide@2222222222", "other",
    }  # fmt: skip


def test_dvc_finds_exactly_the_experiment_that_a_command_names(git, tmp_path):
    first = commit(git, "one")
    for name in ("baseline", "tall", "one"):
        experiment(git, name, first)
    experiment(git, "baseline", commit(git, "two"))
    git("branch", "tall")  # DVC would take it instead of the experiment
    for branch in ("main", first):  # DVC prefers the experiments of HEAD
        git("checkout", "-q", branch)
        found = {each.for_dvc: each.commit for each in [*experiments(), resolve("HEAD"), resolve("main")]}
        assert {name: resolve_rev(Git(str(tmp_path)), name) for name in found} == found
        assert [name for name in found if len(name) < 40] == ["one", "HEAD", "main"]


def test_a_clone_of_another_owner_gets_gits_own_advice_and_its_commit_is_not_taken_for_none(git, tmp_path, monkeypatch):
    commit(git, "one")
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", os.devnull)  # tests/gitconfig trusts all folders
    monkeypatch.setenv("GIT_TEST_ASSUME_DIFFERENT_OWNER", "1")  # git reads this variable in its own tests
    for ask in (head, experiments, lambda: resolve("main")):
        with pytest.raises(RefusedError) as error:
            ask()
        assert str(error.value) == (
            f"{tmp_path}: git does not read this folder, because another user owns it. If you trust this user: "
            f"`git config --global --add safe.directory {tmp_path}`"
        )
    assert (revisions.head_or_empty(), undo_command()) == ("", "")


def test_a_folder_without_a_repository_gets_the_advice_to_make_one(git, tmp_path):
    shutil.rmtree(tmp_path / ".git")
    with pytest.raises(
        BukvaError, match=r"git failed in this folder \(fatal: not a git .*\)\. Run `git init` and commit"
    ):
        experiments()
    assert head() == ""


def test_an_unknown_name_is_one_sentence(git):
    experiment(git, "wide", commit(git, "one"))
    for name, similar in {"wyde": "Similar names: wide. ", "HEAD:file.txt": "", "--all": ""}.items():
        with pytest.raises(BukvaError) as error:
            resolve(name)
        assert str(error.value) == (
            f"{name}: no experiment, branch, tag or commit has this name. {similar}`bukva experiments` lists all "
            "experiments."
        )


def test_files_of_many_commits_are_those_that_git_shows(tmp_path, monkeypatch):
    files = {"a": b"x\n\ny", "empty": b"", "blob 3": b"\r\n", "deep/ж f": "ж\n".encode()}
    project = tmp_path / "project in a larger repository"
    for name, content in files.items():
        (project / name).parent.mkdir(parents=True, exist_ok=True)
        (project / name).write_bytes(content)
    monkeypatch.setenv("BUKVA_ROOT", str(project))
    run_git(tmp_path, "init", "-q")
    made = commit_files(tmp_path)
    load_files([made, "", "f" * 40], ["missing", *files, "deep"])
    assert {name: revisions.git("show", f"{made}:./{name}") for name in files} == files
    assert {name: file_at(made, name) for name in files} == files
    assert {file_at(*key) for key in [(made, "missing"), (made, "deep"), ("", "a"), ("f" * 40, "a")]} == {b""}


@pytest.mark.parametrize(
    ("printed", "why"),
    [
        ("", ""),
        ("Running stage 'clean':\n", ""),
        ("> python\na mistake.\n\nERROR: failed to reproduce 'clean': exited with 1\n", "stage clean: a mistake"),
        ("no memory\nTo return to the last commit: `git checkout`\nERROR: failed to reproduce 'split': failed",
         "stage split: no memory"),
        ("ERROR: failed to reproduce 'split': failed", "stage split"),
        ("Reproducing\nERROR: the experiment 'a' already exists.\nERROR: another", "the experiment 'a' already exists"),
    ],
)  # fmt: skip
def test_the_cause_of_a_failure_is_the_last_line_of_its_stage_or_the_error_of_dvc(printed, why):
    assert revisions.why_failed(printed) == why


def test_an_experiment_can_be_named_after_any_revision():
    assert [revisions.valid_name(name) for name in ("HEAD~1-s2", "team/wide", "широкий", "v1.2")] == [
        "HEAD-1-s2", "team-wide", "широкий", "v1.2",
    ]  # fmt: skip
