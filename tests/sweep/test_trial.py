"""Trials are those of DVC's queue, valid before anything runs; each leaves one experiment in the project."""

import dataclasses
import json
import os
import shutil

import pytest
from dvc.config import Config
from dvc.utils.hydra import get_hydra_sweeps

from bukva.compare.seeds import snapshot
from bukva.core.errors import BukvaError
from bukva.project import baseline
from bukva.project.revisions import experiment_ref, experiments, git, head, resolve
from bukva.sweep import trial
from bukva.sweep.trial import Sweep, checked_name, grid
from bukva.text.ids import bits

SETTINGS = ["model.n_layer=2,3", "model.n_head=2,4,8", "train_gpt.seed=5"]
CURVE = "step,train_nats_per_char,val_nats_per_char\n0,,4.0\n10,2.5,2.0\n20,2.0,3.0\n"


def test_the_trials_are_the_combinations_of_dvcs_queue():
    trials = grid("tries", SETTINGS)
    assert [trial["assignments"] for trial in trials] == [
        each["params.yaml"] for each in get_hydra_sweeps({"params.yaml": SETTINGS})
    ]
    assert trials[3]["assignments"] == ["model.n_layer=3", "model.n_head=2", "train_gpt.seed=5"]
    assert len({trial["name"] for trial in trials}) == 6
    assert trials == grid("tries", SETTINGS)
    assert grid("tries", [])[0]["name"].startswith("tries-1-")


def test_a_name_is_a_function_of_commit_and_settings():
    name = checked_name("depth", "1" * 40, *SETTINGS)
    assert name.startswith("depth-")
    assert checked_name("depth", "1" * 40, *SETTINGS) == name != checked_name("depth", "2" * 40, *SETTINGS)
    with pytest.raises(BukvaError, match="cannot be part of a git reference"):
        checked_name("a/b")


@pytest.mark.parametrize(
    ("setting", "sentence"),
    [
        ("model.n_layer", "-S: Error parsing override 'model.n_layer'. Use SECTION.KEY=VALUE, with commas between"),
        ("model.n_layers=2", "-S model.n_layers=2: Could not override 'model.n_layers'. Use a key of params.yaml."),
        ("download.url='https://host/a?key=1,2'", "-S download.url: a sweep saves its settings, so a URL must not"),
        ("model.n_layer=2,x", "-S model.n_layer=x: params.yaml, model.n_layer: 'x' (str) is invalid. The value"),
    ],
)
def test_a_setting_that_a_stage_would_reject_is_one_sentence_before_anything_runs(setting, sentence):
    with pytest.raises(BukvaError) as error:
        grid("tries", [setting])
    assert str(error.value).startswith(sentence)


def sweep_of(folder) -> Sweep:
    return Sweep("tries-1", git("rev-parse", "HEAD").decode().strip(), folder)


def cache_of(folder) -> str:
    return Config(str(folder / ".dvc"), validate=False)["cache"]["dir"]


def test_a_slot_is_a_fresh_clone_with_the_cache_of_the_project(project):
    sweep = sweep_of(project)
    (project / "file.txt").write_text("edited")
    git("commit", "-qam", "two")
    with trial.slot_for(sweep, "a") as folder:
        assert (folder / "file.txt").read_text() == "one"
        assert cache_of(folder) == str(project / ".dvc" / "cache")
        (folder / "file.txt").write_text("changed")
        (folder / "new.txt").write_text("new")
        (folder / ".git" / "index.lock").touch()  # as a killed git leaves it
        with trial.slot_for(sweep, "b") as other:
            assert other != folder
    with trial.slot_for(sweep, "a") as again:
        assert again == folder
        assert (folder / "file.txt").read_text() == "one"
        assert not (folder / "new.txt").exists()
        assert git("-C", str(folder), "rev-parse", "HEAD").decode().strip() == sweep.commit


def test_a_slot_can_have_the_edits_and_the_added_files_of_the_checkout_as_edits(project):
    os.utime("file.txt", (1, 1))  # only its time differs from the commit
    assert snapshot() == head()
    (project / "file.txt").write_text("edited")
    (project / "added.txt").write_text("added")
    (project / ".gitignore").unlink()
    (project / "params.yaml").chmod(0o755)
    git("add", "added.txt")
    before = git("status", "--porcelain")
    edited = snapshot()
    assert (git("status", "--porcelain"), git("stash", "list")) == (before, b"")
    sweep = dataclasses.replace(sweep_of(project), edited=edited)
    with trial.slot_for(sweep, "a") as folder:
        assert git("-C", str(folder), "rev-parse", "HEAD").decode().strip() == sweep.commit
        for tracked in git("ls-files").decode().split():
            assert (folder / tracked).exists() == (project / tracked).exists()
            if (project / tracked).exists():
                assert (folder / tracked).read_bytes() == (project / tracked).read_bytes()
                assert (folder / tracked).stat().st_mode == (project / tracked).stat().st_mode


def test_a_slot_of_a_shallow_clone_has_a_commit_that_no_branch_has(project, tmp_path, monkeypatch):
    git("clone", "-q", "--depth=1", f"file://{project}", str(tmp_path / "shallow"))
    monkeypatch.chdir(tmp_path / "shallow")
    (tmp_path / "shallow" / "file.txt").write_text("edited")
    sweep = dataclasses.replace(sweep_of(tmp_path / "shallow"), edited=snapshot())
    with trial.slot_for(sweep, "a") as folder:
        assert (folder / "file.txt").read_text() == "edited"


HOSTILE = """
[clone]
    defaultRemoteName = upstream
[core]
    excludesFile = FOLDER/excluded
    hooksPath = FOLDER/hooks
[protocol]
    allow = never
[push]
    gpgSign = true
[status]
    showUntrackedFiles = no
"""


def test_neither_settings_of_the_user_nor_variables_of_a_hook_change_what_git_does(project, tmp_path, monkeypatch):
    (tmp_path / "hostile").write_text(HOSTILE.replace("FOLDER", str(tmp_path)))
    (tmp_path / "excluded").write_text("*.csv\n")
    (tmp_path / "hooks").mkdir()
    for name in ("post-checkout", "pre-push", "reference-transaction"):
        (tmp_path / "hooks" / name).write_text("#!/bin/sh\nexit 1\n")
        (tmp_path / "hooks" / name).chmod(0o755)
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(tmp_path / "hostile"))
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "other.git"))
    monkeypatch.setenv("GIT_INDEX_FILE", str(tmp_path / "other.git" / "index"))
    sweep = sweep_of(project)
    with trial.slot_for(sweep, "one") as folder:
        made = git("commit-tree", "HEAD^{tree}", "-p", "HEAD", "-m", "one", **baseline.AUTHOR).decode().strip()
        git("-C", str(folder), "update-ref", sweep.ref("one"), made)
        trial._save(sweep, "one", folder)
    assert [(each.name, each.commit) for each in experiments()] == [("one", made)]
    (project / "reports").mkdir()
    (project / "reports" / "шаг.csv").touch()
    baseline._save(sweep.commit)
    saved = resolve("baseline").commit
    assert git("diff", "--name-only", "HEAD", saved).decode() == "reports/шаг.csv\n"
    (project / "новый.py").touch()
    assert git("status", "--porcelain").decode() == "?? новый.py\n"


def test_a_project_may_be_a_folder_of_its_repository_and_have_any_letters_in_its_path(project, tmp_path, monkeypatch):
    root = tmp_path / "мой ü?#%20 'проект'"
    (root / "inner").mkdir(parents=True)
    for name in (".dvc", "dvc.yaml", "params.yaml", "file.txt"):
        shutil.move(project / name, root / "inner")
    monkeypatch.chdir(root / "inner")
    for words in (["init", "-q", ".."], ["add", "-A"], ["commit", "-qm", "one"]):
        git(*words)
    with trial.slot_for(sweep_of(root / "inner"), "a") as folder:
        assert (folder / "file.txt").read_text() == "one"
        assert cache_of(folder) == str(root / "inner" / ".dvc" / "cache")


@pytest.fixture
def dvc(project, monkeypatch):
    """Replace DVC by a program that trains in an instant; returns the trials that it ran, and what Tune was told."""
    tune = pytest.importorskip("ray.tune")
    trained, reports = [], []

    def run(name, assignments, *, log, folder, while_running):
        trained.append((name, list(assignments)))
        curve, metrics = folder / "reports/curves/train_gpt.csv", folder / "reports/metrics.json"
        curve.parent.mkdir(parents=True, exist_ok=True)
        while_running()
        for n_rows in (2, 2, 4):
            curve.write_text("".join(CURVE.splitlines(keepends=True)[:n_rows]))
            while_running()
        metrics.write_text(json.dumps({"gpt": {"val": 2.75}}))
        clone = "-C", str(folder)
        git(*clone, "add", "-A")
        git(*clone, "commit", "-qm", "result")
        git(*clone, "update-ref", experiment_ref(head(), name), "HEAD")

    monkeypatch.setattr(trial, "run_experiment", run)
    monkeypatch.setattr(tune, "report", lambda values: reports.append(dict(values)))
    monkeypatch.setattr(os, "environ", os.environ.copy())
    return trained, reports


@pytest.mark.parametrize("committed", ["", CURVE + "30,1.0,1.0\n"])
def test_a_trial_reports_the_best_score_so_far_and_becomes_an_experiment_of_the_project(project, dvc, committed):
    trained, reports = dvc
    os.environ["OMP_NUM_THREADS"] = "1"  # by Ray, which gives the trial one core
    if committed:  # by a team that commits its results
        (project / "reports/curves").mkdir(parents=True)
        (project / "reports/curves/train_gpt.csv").write_text(committed)
        git("add", "reports")
        git("commit", "-qm", "results")
    sweep = sweep_of(project)
    trial.run_trial(sweep, "one", ["model.n_head=2"])
    assert reports == [
        {"step": 0, "val": bits(4.0)},
        {"step": 10, "val": bits(2.0)},
        {"step": 20, "val": bits(2.0)},
        {"step": 20, "val": 2.75, "finished": True},
    ]
    assert os.environ["OMP_NUM_THREADS"] == "1"
    assert resolve("one").baseline == sweep.commit
    assert not (project / "reports/metrics.json").exists()
    trial.run_trial(sweep, "one", ["model.n_head=2"])
    assert trained == [("one", ["model.n_head=2"])]
    assert reports[4:] == [{"val": 2.75, "finished": True}]


def test_of_two_attempts_the_first_result_stays(project, dvc, monkeypatch):
    sweep, save, firsts = sweep_of(project), trial._save, []

    def save_second(*arguments):
        monkeypatch.setattr(trial, "_save", save)
        monkeypatch.setenv("GIT_AUTHOR_DATE", "2020-01-01T00:00:00")
        trial.run_trial(sweep, "one", [])  # by another machine, in the meantime
        firsts.append(resolve("one").commit)
        save(*arguments)

    monkeypatch.setattr(trial, "_save", save_second)
    trial.run_trial(sweep, "one", [])
    assert len(dvc[0]) == 2
    assert [each["val"] for each in dvc[1] if "finished" in each] == [2.75, 2.75]
    assert firsts == [resolve("one").commit]
