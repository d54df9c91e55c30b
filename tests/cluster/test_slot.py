"""A slot has the commit, the project's cache, and nothing of the trial before."""

import pytest
from dvc.config import Config

from bukva.cluster.job import Job
from bukva.cluster.origin import push_base, result_ref, run_git
from bukva.cluster.slot import slot_for
from bukva.core.errors import BukvaError

IDENTITY = "-c", "user.name=a", "-c", "user.email=a@b"


@pytest.fixture
def committed(project):
    """A project with a file, DVC's settings and locked packages."""
    (project / "file.txt").write_text("one")
    (project / ".gitignore").write_text("/.bukva/\n/ignored\n")
    (project / ".dvc" / "config").write_text("")
    (project / ".dvc" / ".gitignore").write_text("/config.local\n/tmp\n/cache\n")
    (project / "numerics.lock").write_text("# comment\n")
    run_git(project, "add", "-A")
    run_git(project, *IDENTITY, "commit", "-qm", "two")
    return project


def job(project) -> Job:
    commit = run_git(project, "rev-parse", "HEAD").strip()
    push_base(project, str(project), commit)
    return Job("a", (), commit, str(project), str(project), 1, 1, {})


def test_nothing_of_the_trial_before_is_left_but_ignored_files(committed):
    with slot_for(job(committed)) as slot:
        (slot.folder / "file.txt").write_text("changed")
        (slot.folder / "new.txt").write_text("new")
        assert Config(str(slot.folder / ".dvc"), validate=False)["cache"]["dir"] == str(committed / ".dvc" / "cache")
        (slot.folder / "ignored").write_text("cached")
        (slot.folder / ".dvc" / "tmp").mkdir()
        run_git(slot.folder, "update-ref", result_ref(job(committed).commit, "a"), "HEAD")
        run_git(slot.folder, *IDENTITY, "commit", "-qam", "result")
    with slot_for(job(committed)) as slot:
        assert (slot.folder / "file.txt").read_text() == "one"
        assert not (slot.folder / "new.txt").exists()
        assert (slot.folder / "ignored").read_text() == "cached"
        assert not (slot.folder / ".dvc" / "tmp").exists()
        assert run_git(slot.folder, "rev-parse", "HEAD").strip() == job(committed).commit
        assert not run_git(slot.folder, "for-each-ref", "refs/exps")


def test_a_machine_with_other_packages_is_refused(committed):
    (committed / "numerics.lock").write_text("pytest==0.1\n")
    run_git(committed, *IDENTITY, "commit", "-qam", "three")
    with pytest.raises(BukvaError) as error, slot_for(job(committed)):
        pass
    assert str(error.value).endswith(
        f"pytest is {pytest.__version__} here, and 0.1 at this commit; install its numerics.lock."
    )
