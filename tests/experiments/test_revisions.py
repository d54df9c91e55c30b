"""What names stand for. The repositories have commits and references only, as git makes them."""

import shutil
import subprocess

import pytest

from bukva.base.errors import BukvaError
from bukva.experiments.git import read_blobs
from bukva.experiments.revisions import Revision, experiments, head, resolve


class Repository:
    """A repository of git in which references are made by hand."""

    def __init__(self, folder):
        self.folder = folder

    def git(self, *arguments):
        identity = ["-c", "user.name=a", "-c", "user.email=a@b"]
        done = subprocess.run(
            ["git", *identity, *arguments], cwd=self.folder, capture_output=True, text=True, check=True
        )
        return done.stdout.strip()

    def commit(self, text):
        (self.folder / "file.txt").write_text(text, encoding="utf-8")
        self.git("add", "-A")
        self.git("commit", "-q", "-m", text)
        return self.git("rev-parse", "HEAD")

    def experiment(self, name, baseline):
        """An experiment of DVC: a commit on its baseline, and the reference that DVC writes."""
        commit = self.git("commit-tree", f"{baseline}^{{tree}}", "-p", baseline, "-m", name)
        self.git("update-ref", f"refs/exps/{baseline[:2]}/{baseline[2:]}/{name}", commit)
        return commit


@pytest.fixture
def repository(tmp_path, monkeypatch):
    monkeypatch.setenv("DVC_ROOT", str(tmp_path))
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    subprocess.run(["git", "init", "-q", "-b", "main", str(tmp_path)], check=True)
    return Repository(tmp_path)


def only(name):
    (revision,) = resolve([name])
    return revision


def test_experiments_branches_tags_commits_and_the_workspace_have_names(repository):
    first, second = repository.commit("one"), repository.commit("two")
    repository.git("tag", "-a", "v1", "-m", "annotated", first)
    wide = repository.experiment("wide", second)
    assert resolve(["wide", "main", "v1", first, second[:9], "HEAD~1", "workspace"]) == [
        Revision("wide", wide, second),
        Revision("main", second),
        Revision("v1", first),
        Revision(first, first),
        Revision(second[:9], second),
        Revision("HEAD~1", first),
        Revision("workspace", ""),
    ]
    assert only(wide[:12]) == Revision(wide[:12], wide, second)
    assert head() == second


def test_an_experiment_comes_before_a_branch_of_its_name(repository):
    baseline = repository.commit("one")
    commit = repository.experiment("wide", baseline)
    repository.git("branch", "wide")
    assert only("wide").commit == commit
    assert only("heads/wide").commit == baseline


def test_of_experiments_with_one_name_that_of_head_is_meant(repository):
    first = repository.commit("one")
    of_first = repository.experiment("wide", first)
    second = repository.commit("two")
    of_second = repository.experiment("wide", second)
    assert only("wide").commit == of_second
    assert [one.baseline for one in experiments()] == sorted([first, second])
    repository.commit("three")
    with pytest.raises(BukvaError) as error:
        resolve(["wide"])
    assert str(error.value).startswith("wide: 2 experiments have this name; write the commit of one instead: ")
    for commit, baseline in ((of_first, first), (of_second, second)):
        assert f"{commit[:10]} (started from commit {baseline[:7]})" in str(error.value)
        assert only(commit[:10]).baseline == baseline


def test_references_that_dvc_keeps_for_itself_are_no_experiments(repository):
    commit = repository.commit("one")
    for name in ("stash", "celery/stash", "celery/failed", "exec/EXEC_HEAD", "apply/ORIG_HEAD", "temp/abc"):
        repository.git("update-ref", f"refs/exps/{name}", commit)
    assert experiments() == []
    with pytest.raises(BukvaError, match="EXEC_HEAD: no experiment"):
        resolve(["EXEC_HEAD"])


@pytest.mark.parametrize("name", ["wyde", "HEAD:file.txt", "--all", "", "wide\nHEAD"])
def test_an_unknown_name_is_one_sentence_with_similar_names(repository, name):
    repository.experiment("wide", repository.commit("one"))
    with pytest.raises(BukvaError) as error:
        resolve([name])
    similar = "similar: wide; " if name.startswith("w") else ""
    assert str(error.value) == (
        f"{name}: no experiment, branch, tag or commit has this name; {similar}`bukva experiments` lists them."
    )


def test_a_project_without_a_commit_or_without_git_is_one_sentence(repository):
    with pytest.raises(BukvaError, match="HEAD: no experiment"):
        resolve(["HEAD"])
    shutil.rmtree(repository.folder / ".git")
    with pytest.raises(BukvaError, match=r"git cannot read it .* run `git init` and commit the project\.$"):
        resolve(["workspace"])


def test_files_of_commits_are_read_relative_to_the_project(repository, monkeypatch):
    (repository.folder / "project").mkdir()
    (repository.folder / "project" / "text.txt").write_text("буква\n\nmissing\n", encoding="utf-8")
    (repository.folder / "project" / "empty").touch()
    commit = repository.commit("one")
    monkeypatch.setenv("DVC_ROOT", str(repository.folder / "project"))
    blobs = [(commit, name) for name in ("none", "text.txt", "empty", "text.txt", "file.txt")]
    assert read_blobs(blobs) == {(commit, "text.txt"): "буква\n\nmissing\n".encode(), (commit, "empty"): b""}
