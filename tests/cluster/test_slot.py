"""A slot has the commit, the project's cache, and nothing of the trial before."""

import subprocess

import pytest
from cluster.fakes import place
from dvc.config import Config

from bukva.base.errors import BukvaError
from bukva.cluster.job import Job
from bukva.cluster.origin import GitError, push_base, result_ref, run_git
from bukva.cluster.slot import slot_for

IDENTITY = "-c", "user.name=a", "-c", "user.email=a@b"


@pytest.fixture
def committed(project):
    """A project with a file, DVC's settings and locked packages."""
    (project / "file.txt").write_text("one")
    (project / ".gitignore").write_text("/.bukva/\n/ignored\n")
    (project / ".dvc" / "config").write_text("")
    (project / ".dvc" / ".gitignore").write_text("/config.local\n/tmp\n/cache\n")
    (project / ".dvc" / "config.local").write_text("['remote \"team\"']\n    url = /nowhere\n")
    (project / "numerics.lock").write_text("# comment\n")
    run_git(project, "add", "-A")
    run_git(project, *IDENTITY, "commit", "-qm", "two")
    return project


def job(project, *, shared=True, trial="a") -> Job:
    commit = run_git(project, "rev-parse", "HEAD").strip()
    origin = place(project).origin
    push_base(project, str(project) if shared else origin, commit)
    return Job(trial, (), commit, str(project) if shared else origin, str(project) if shared else "", 1, 1, {})


def test_a_slot_of_the_drivers_machine_shares_its_cache_and_settings(committed):
    with slot_for(job(committed)) as slot:
        assert slot.project == committed
        assert slot.folder == committed / ".bukva" / "slots" / "slot-0"
        assert (slot.folder / "file.txt").read_text() == "one"
        settings = Config(str(slot.folder / ".dvc"), validate=False)
        assert settings["cache"]["dir"] == str(committed / ".dvc" / "cache")
        assert settings["remote"]["team"]["url"] == "/nowhere"


def test_two_trials_at_once_have_two_slots_and_a_later_one_takes_the_first(committed):
    with slot_for(job(committed)) as first, slot_for(job(committed)) as second:
        assert (first.number, second.number) == (0, 1)
        assert first.folder != second.folder
    with slot_for(job(committed)) as third:
        assert third.number == 0


def test_nothing_of_the_trial_before_is_left_but_ignored_files(committed):
    with slot_for(job(committed)) as slot:
        (slot.folder / "file.txt").write_text("changed")
        (slot.folder / "new.txt").write_text("new")
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


@pytest.mark.parametrize("broken", ["HEAD", "objects", "index"])
def test_a_clone_that_a_killed_git_has_left_is_made_again(committed, broken):
    with slot_for(job(committed)) as slot:
        place_ = slot.folder / ".git" / broken
    subprocess.run(["rm", "-rf", str(place_)], check=True)
    if broken != "objects":
        place_.write_text("broken")
    (slot.folder / ".git" / "index.lock").touch()
    with slot_for(job(committed)) as slot:
        assert (slot.folder / "file.txt").read_text() == "one"
        assert not run_git(slot.folder, "status", "--porcelain")


def test_another_machine_gets_the_commit_from_the_origin(committed, tmp_path, monkeypatch):
    monkeypatch.setenv("BUKVA_NODE", str(tmp_path / "node"))
    with slot_for(job(committed, shared=False)) as slot:
        assert slot.folder.is_relative_to(tmp_path / "node")
        assert slot.project.is_relative_to(tmp_path / "node")
        assert (slot.folder / "file.txt").read_text() == "one"
        settings = Config(str(slot.folder / ".dvc"), validate=False)
        assert settings["cache"]["dir"] == str(slot.project / ".dvc" / "cache")


def test_an_origin_that_is_away_is_one_sentence(committed, tmp_path, monkeypatch):
    monkeypatch.setenv("BUKVA_NODE", str(tmp_path / "node"))
    away = Job("a", (), "1" * 40, str(tmp_path / "nowhere.git"), "", 1, 1, {})
    with pytest.raises(GitError, match=r"^git clone: .*nowhere.git"), slot_for(away):
        pass


@pytest.mark.parametrize(("pin", "here"), [("pytest==0.1", pytest.__version__), ("no-such-package==1.2", "missing")])
def test_a_machine_with_other_packages_is_refused(committed, pin, here):
    (committed / "numerics.lock").write_text(f"{pin}\n")
    run_git(committed, *IDENTITY, "commit", "-qam", "three")
    name, _, wanted = pin.partition("==")
    with pytest.raises(BukvaError) as error, slot_for(job(committed)):
        pass
    assert str(error.value).endswith(f"{name} is {here} here, and {wanted} at this commit; install its numerics.lock.")
