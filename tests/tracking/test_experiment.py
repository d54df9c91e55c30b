"""The experiment that a stage belongs to."""

import os
import shutil
import subprocess

import pytest
from imports import SHIPPED

from bukva.core.params import flatten
from bukva.project.revisions import RefusedError, git
from bukva.tracking.experiment import print_uncommitted, this_experiment
from stages import publish as publish_stage


def commit(project, file=SHIPPED):
    """Begin a repository with one file, and return its commit."""
    if file.parent != project:
        shutil.copy(file, project)
    identity = ["-c", "user.name=a", "-c", "user.email=a@b"]
    for arguments in (["init", "-q"], ["add", file.name], [*identity, "commit", "-qm", "one"]):
        subprocess.run(["git", *arguments], cwd=project, check=True)
    return git("rev-parse", "HEAD").decode().strip()


def changed(params, section, **values):
    return params.model_copy(update={section: getattr(params, section).model_copy(update=values)})


def test_dvc_repro_is_named_after_the_commit_of_the_project_and_what_differs_from_it(
    project, params, tmp_path, monkeypatch
):
    experiment = this_experiment(params)
    assert (experiment["experiment"], experiment["commit"]) == ("repro-uncommitted", "")
    head = commit(project)
    (project / "params.yaml").write_text("# nothing as it was")
    monkeypatch.chdir(tmp_path)
    experiment = this_experiment(params)
    assert (experiment["experiment"], experiment["commit"]) == (f"repro-{head[:7]}", head)
    names = {this_experiment(changed(params, "model", n_head=n_head))["experiment"] for n_head in (1, 2)}
    assert [len(name) for name in names] == [len("repro-1234567-12345678")] * 2


def test_what_an_experiment_leaves_in_params_yaml_is_named_with_the_way_back_and_without_secrets(
    project, params, capsys
):
    head = commit(project)
    print_uncommitted(params)
    assert capsys.readouterr().out == ""
    other = changed(changed(params, "model", n_head=8), "download", url="https://me:secret@host/a.txt?key=secret")
    print_uncommitted(other)
    line = capsys.readouterr().out
    assert line.startswith(f"params.yaml differs from commit {head[:7]}: download.url='https://***@host/a.txt'")
    assert ", model.n_head=8. The next experiment will start from these values. To return to the last commit: " in line
    known = this_experiment(other)["params"]
    assert known == flatten(other.model_dump()) | {"download.url": "https://***@host/a.txt"}


def test_a_project_of_another_owner_has_results_and_stage_publish_says_why_they_name_no_commit(
    project, params, monkeypatch, capsys
):
    commit(project)
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", os.devnull)  # that of the tests trusts all folders
    monkeypatch.setenv("GIT_TEST_ASSUME_DIFFERENT_OWNER", "1")
    assert this_experiment(params)["experiment"] == "repro-uncommitted"
    with pytest.raises(RefusedError):
        print_uncommitted(params)
    monkeypatch.setattr(publish_stage, "publish", lambda _: None)
    publish_stage.main()
    assert capsys.readouterr().out == (
        f"The commit of this experiment is unknown, so its name in MLflow is repro-uncommitted. Reason: {project}: git "
        "does not read this folder, because "
        f"another user owns it. If you trust this user: `git config --global --add safe.directory {str(project)!r}`\n"
    )


@pytest.mark.parametrize(
    ("changes", "label"),
    [
        ({}, "bumpy-vara"),
        ({"model": {"n_head": 8}}, "bumpy-vara: n_head=8"),
        (
            {"model": {"n_head": 8}, "train_gpt": {"n_steps": 300}, "sample": {"seed": 1}, "split": {"val": 0.1}},
            "bumpy-vara: val=0.1, n_head=8, gpt.n_steps=300, 1 more",
        ),
    ],
)
def test_a_label_names_what_changed_without_sections_that_no_reader_needs(project, params, monkeypatch, changes, label):
    commit(project)
    monkeypatch.setenv("DVC_EXP_NAME", "bumpy-vara")
    for section, values in changes.items():
        params = changed(params, section, **values)
    assert this_experiment(params)["label"] == label


def test_a_name_that_is_used_again_is_another_experiment(project, params, monkeypatch):
    monkeypatch.setenv("DVC_EXP_NAME", "wide")
    found = set()
    for baseline, n_head in (("abc", 4), ("abc", 8), ("abd", 8)):
        monkeypatch.setenv("DVC_EXP_BASELINE_REV", baseline)
        found.add(this_experiment(changed(params, "model", n_head=n_head))["key"])
    assert len(found) == 3
