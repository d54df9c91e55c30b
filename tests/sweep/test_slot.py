"""A slot has the commit, the project's cache, and nothing of the trial before."""

import shutil

import pytest
from dvc.config import Config

from bukva.core.errors import BukvaError
from bukva.project.revisions import experiment_ref
from bukva.sweep.origin import base_ref, run_git
from bukva.sweep.slot import TrialLocation, slot_for

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


def place(project) -> TrialLocation:
    commit = run_git(project, "rev-parse", "HEAD").strip()
    run_git(project, "update-ref", base_ref(commit), commit)
    return TrialLocation(str(project), commit, "", project)


def test_nothing_of_the_trial_before_is_left_but_ignored_files(committed):
    here = place(committed)
    with slot_for(here, "a") as folder:
        (folder / "file.txt").write_text("changed")
        (folder / "new.txt").write_text("new")
        assert Config(str(folder / ".dvc"), validate=False)["cache"]["dir"] == str(committed / ".dvc" / "cache")
        (folder / "ignored").write_text("cached")
        (folder / ".dvc" / "tmp").mkdir()
        run_git(folder, "update-ref", experiment_ref(here.commit, "a"), "HEAD")
        run_git(folder, *IDENTITY, "commit", "-qam", "result")
        with slot_for(here, "b") as other:
            assert other != folder
    with slot_for(here, "a") as folder:
        assert (folder / "file.txt").read_text() == "one"
        assert not (folder / "new.txt").exists()
        assert (folder / "ignored").read_text() == "cached"
        assert not (folder / ".dvc" / "tmp").exists()
        assert run_git(folder, "rev-parse", "HEAD").strip() == here.commit
        assert not run_git(folder, "for-each-ref", "refs/exps")


def test_a_clone_that_git_left_half_made_is_made_again(committed):
    here = place(committed)
    with slot_for(here, "a") as folder:
        pass
    (folder / ".git" / "HEAD").write_text("")
    with slot_for(here, "a") as folder:
        assert (folder / "file.txt").read_text() == "one"


def test_a_machine_with_other_packages_is_refused(committed):
    (committed / "numerics.lock").write_text("pytest==0.1\n")
    run_git(committed, *IDENTITY, "commit", "-qam", "three")
    with pytest.raises(BukvaError) as error, slot_for(place(committed), "a"):
        pass
    assert str(error.value).endswith(
        f"pytest is {pytest.__version__}, but this commit needs 0.1. Install the versions in its numerics.lock."
    )


def test_a_slot_uses_the_cache_of_a_project_whose_path_has_any_letters(committed, tmp_path):
    root = tmp_path / "мой ü?#%20 'проект'"
    shutil.copytree(committed, root)
    with slot_for(place(root), "a") as folder:
        assert Config(str(folder / ".dvc"), validate=False)["cache"]["dir"] == str(root / ".dvc" / "cache")
