"""The experiment that a stage belongs to."""

import shutil
import subprocess

import pytest
from imports import SHIPPED

from bukva.core.params import flatten
from bukva.project.revisions import RefusedError, git
from bukva.tracking.experiment import Experiment, print_uncommitted, this_experiment
from stages import publish as publish_stage

IDENTITY = ["-c", "user.name=a", "-c", "user.email=a@b"]


def commit(project):
    shutil.copy(SHIPPED, project)
    for arguments in (["init", "-q"], ["add", "params.yaml"], [*IDENTITY, "commit", "-qm", "one"]):
        subprocess.run(["git", *arguments], cwd=project, check=True)
    return git("rev-parse", "HEAD").decode().strip()


def with_heads(params, n_head):
    return params.model_copy(update={"model": params.model.model_copy(update={"n_head": n_head})})


def test_dvc_repro_is_named_after_the_commit_of_the_project_and_what_differs_from_it(
    project, params, tmp_path, monkeypatch
):
    experiment = this_experiment(params)
    assert (experiment.name, experiment.commit) == ("repro-uncommitted", "")
    head = commit(project)
    (project / "params.yaml").write_text("# nothing as it was")
    monkeypatch.chdir(tmp_path)
    experiment = this_experiment(params)
    assert (experiment.name, experiment.commit) == (f"repro-{head[:7]}", head)
    names = {this_experiment(with_heads(params, n_head)).name for n_head in (1, 2)}
    assert [len(name) for name in names] == [len("repro-1234567-12345678")] * 2


def test_what_an_experiment_leaves_in_params_yaml_is_named_with_the_way_back(project, params, capsys):
    head = commit(project)
    print_uncommitted(params)
    assert capsys.readouterr().out == ""
    changed = with_heads(params, 8)
    secret = {"url": "https://user:secret@example.org/a.txt"}
    changed = changed.model_copy(update={"download": changed.download.model_copy(update=secret)})
    print_uncommitted(changed)
    line = capsys.readouterr().out
    assert line.startswith(f"params.yaml differs from commit {head[:7]}: download.url='https://")
    assert ", model.n_head=8. The next experiment will start from these values. To return to the last commit: " in line
    assert "secret" not in line


def test_a_project_of_another_owner_has_results_and_stage_publish_says_why_they_name_no_commit(
    project, params, monkeypatch, capsys
):
    commit(project)
    monkeypatch.setenv("GIT_TEST_ASSUME_DIFFERENT_OWNER", "1")
    assert this_experiment(params).name == "repro-uncommitted"
    with pytest.raises(RefusedError):
        print_uncommitted(params)
    monkeypatch.setattr(publish_stage, "publish", lambda _: None)
    publish_stage.main()
    assert capsys.readouterr().out == (
        f"The commit of this experiment is unknown, so its name in MLflow is repro-uncommitted. Reason: {project}: git "
        "does not read this folder, because "
        f"another user owns it. If you trust this user: `git config --global --add safe.directory {str(project)!r}`\n"
    )


def test_a_label_names_what_changed_without_sections_that_no_reader_needs(params):
    flat = flatten(params.model_dump())
    changed = ("model.n_head=8", "train_gpt.n_steps=300", "sample.seed=1", "split.val=0.1")

    def label(*changed):
        return Experiment("bumpy-vara", "abc", flat, changed).label

    assert label() == "bumpy-vara"
    assert label("model.n_head=8") == "bumpy-vara: n_head=8"
    assert label(*changed) == "bumpy-vara: n_head=8, gpt.n_steps=300, sample.seed=1, 1 more"


def test_a_name_that_is_used_again_is_another_experiment():
    used = ("abc", 4), ("abc", 8), ("abd", 8)
    assert len({Experiment("wide", commit, {"model.n_head": heads}).key for commit, heads in used}) == 3


def test_an_address_is_in_the_parameters_without_its_query(project, params):
    download = params.download.model_copy(update={"url": "https://host/a.txt?key=secret"})
    commit(project)
    experiment = this_experiment(params.model_copy(update={"download": download}))
    assert experiment.label.endswith(": url='https://host/a.txt'")
    assert experiment.params["download.url"] == "https://host/a.txt"
    assert experiment.params | {"download.url": ""} == flatten(params.model_dump())
