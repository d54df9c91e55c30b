"""The experiment that a stage belongs to."""

import shutil
import subprocess
from pathlib import Path

import pytest

from bukva.base.dotted import flatten
from bukva.config.messages import RETURN
from bukva.config.schema import Params
from bukva.tracking.experiment import Experiment, git, print_uncommitted, this_experiment

IDENTITY = ["-c", "user.name=a", "-c", "user.email=a@b"]


def commit(project: Path) -> str:
    shutil.copy(Path(__file__).parents[2] / "params.yaml", project / "params.yaml")
    for arguments in (["init", "-q"], ["add", "params.yaml"], [*IDENTITY, "commit", "-qm", "one"]):
        subprocess.run(["git", *arguments], cwd=project, check=True)
    return (git("rev-parse", "HEAD") or "").strip()


def with_heads(params: Params, n_head: int) -> Params:
    return params.model_copy(update={"model": params.model.model_copy(update={"n_head": n_head})})


def test_a_project_without_a_commit_has_a_name_too(project: Path, params: Params) -> None:
    experiment = this_experiment(params)
    assert (experiment.name, experiment.commit) == ("repro-uncommitted", "")


def test_dvc_repro_is_named_after_its_commit(project: Path, params: Params) -> None:
    head = commit(project)
    experiment = this_experiment(params)
    assert (experiment.name, experiment.commit) == (f"repro-{head[:7]}", head)


def test_the_commit_is_that_of_the_project_and_not_of_the_current_folder(
    project: Path, params: Params, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    head = commit(project)
    monkeypatch.chdir(tmp_path)
    assert this_experiment(params).commit == head


def test_parameters_that_are_not_committed_change_the_name(project: Path, params: Params) -> None:
    head = commit(project)
    names = {this_experiment(with_heads(params, n_head)).name for n_head in (1, 2, 4)}
    assert f"repro-{head[:7]}" in names
    assert len(names) == 3
    assert {len(name) for name in names} == {len("repro-1234567"), len("repro-1234567-12345678")}


def test_comments_and_layout_do_not_change_the_name(project: Path, params: Params) -> None:
    head = commit(project)
    (project / "params.yaml").write_text("# nothing as it was")
    assert this_experiment(params).name == f"repro-{head[:7]}"


def test_what_an_experiment_leaves_in_params_yaml_is_named_with_the_way_back(
    project: Path, params: Params, capsys: pytest.CaptureFixture[str]
) -> None:
    head = commit(project)
    print_uncommitted(params)
    assert capsys.readouterr().out == ""
    changed = with_heads(params, 8)
    secret = {"url": "https://user:secret@example.org/a.txt"}
    changed = changed.model_copy(update={"download": changed.download.model_copy(update=secret)})
    print_uncommitted(changed)
    line = capsys.readouterr().out
    assert line.startswith(f"params.yaml differs from {head[:7]}: download.url='https://")
    assert line.endswith(f", model.n_head=8; the next experiment starts from here. Return: {RETURN}\n")
    assert "secret" not in line


def test_a_snapshot_leaves_nothing(
    project: Path, params: Params, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    commit(project)
    monkeypatch.chdir(tmp_path)  # as where DVC runs --temp and its queue
    print_uncommitted(with_heads(params, 8))
    assert capsys.readouterr().out == ""


def test_without_a_commit_of_parameters_nothing_differs(
    project: Path, params: Params, capsys: pytest.CaptureFixture[str]
) -> None:
    print_uncommitted(params)
    commit(project)
    (project / "params.yaml").write_text("model: {")
    subprocess.run(["git", *IDENTITY, "commit", "-qam", "not YAML"], cwd=project, check=True)
    print_uncommitted(params)
    assert capsys.readouterr().out == ""


def test_an_experiment_of_dvc_has_its_name_and_its_baseline(
    project: Path, params: Params, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DVC_EXP_NAME", "puffy-vail")
    monkeypatch.setenv("DVC_EXP_BASELINE_REV", "abc")
    experiment = this_experiment(params)
    assert (experiment.name, experiment.commit) == ("puffy-vail", "abc")


def test_what_mlflow_shows_begins_with_what_differs_from_the_commit(
    project: Path, params: Params, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DVC_EXP_NAME", "puffy-vail")
    assert this_experiment(with_heads(params, 8)).label == "puffy-vail"  # there is no commit
    commit(project)
    assert this_experiment(params).label == "puffy-vail"
    wide = with_heads(params, 8)
    assert this_experiment(wide).label == "n_head=8 (puffy-vail)"
    sample = params.sample.model_copy(update={"seed": 7, "prompts": ["a long prompt", "and another"]})
    assert this_experiment(params.model_copy(update={"sample": sample})).label == (
        'prompts=["a long prompt", "a…, sample.seed=7 (puffy-vail)'
    )
    train_gpt = params.train_gpt.model_copy(update={"seed": 7, "n_steps": 50})
    download = params.download.model_copy(update={"url": "https://host/a.txt?key=secret"})
    many = wide.model_copy(update={"train_gpt": train_gpt, "download": download})
    assert this_experiment(many).label == "url=https://host/a.txt, n_head=8, n_steps=50, 1 more (puffy-vail)"


def test_a_name_that_is_used_again_is_another_experiment() -> None:
    keys = {
        Experiment("wide", "abc", {"model.n_head": 4}).key,
        Experiment("wide", "abc", {"model.n_head": 8}).key,
        Experiment("wide", "abd", {"model.n_head": 8}).key,
    }
    assert len(keys) == 3


def test_keys_are_flattened_as_in_dvc() -> None:
    assert flatten({"a": {"b": {"c": 1}, "d": [2, 3]}, "e": ""}) == {"a.b.c": 1, "a.d": [2, 3], "e": ""}


def test_an_address_is_in_the_parameters_without_its_query(project: Path, params: Params) -> None:
    download = params.download.model_copy(update={"url": "https://host/a.txt?key=secret"})
    experiment = this_experiment(params.model_copy(update={"download": download}))
    assert experiment.params["download.url"] == "https://host/a.txt"
    assert experiment.params | {"download.url": ""} == flatten(params.model_dump())
