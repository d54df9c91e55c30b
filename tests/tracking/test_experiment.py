"""The experiment that a stage belongs to."""

import os
import shutil
from pathlib import Path

import pytest

from bukva.core.files import write_json, write_text
from bukva.core.params import flatten
from bukva.project.cache import digests
from bukva.project.revisions import RefusedError
from bukva.tracking.experiment import print_uncommitted, this_experiment
from stages import publish as publish_stage
from tests.support.imports import SHIPPED
from tests.support.repository import commit, run_git


def commit_params(project):
    """Begin a repository with the shipped parameters alone, and return its commit."""
    run_git(project, "init", "-q")
    return commit(project, Path(shutil.copy(SHIPPED, project)).name)


def changed(params, section, **values):
    return params.model_copy(update={section: getattr(params, section).model_copy(update=values)})


def test_dvc_repro_is_named_after_the_commit_of_the_project_and_what_differs_from_it(
    project, params, tmp_path, monkeypatch
):
    experiment = this_experiment(params)
    assert (experiment.experiment, experiment.shown, experiment.commit) == (*["repro-uncommitted"] * 2, "")
    head = commit_params(project)
    (project / "params.yaml").write_text("# nothing as it was")
    monkeypatch.chdir(tmp_path)
    experiment = this_experiment(params)
    assert (experiment.experiment, experiment.shown, experiment.commit) == (f"repro-{head[:7]}", "baseline", head)
    names = {this_experiment(changed(params, "model", n_head=n_head)).experiment for n_head in (1, 2)}
    assert [len(name) for name in names] == [len("repro-1234567-12345678")] * 2


def test_what_an_experiment_leaves_in_params_yaml_is_named_with_the_way_back_and_without_secrets(
    project, params, capsys
):
    head = commit_params(project)
    print_uncommitted(params)
    assert capsys.readouterr().out == ""
    other = changed(changed(params, "model", n_head=8), "download", url="https://me:secret@host/a.txt?key=secret")
    print_uncommitted(other)
    line = capsys.readouterr().out
    assert line.startswith(f"params.yaml differs from commit {head[:7]}: download.url='https://***@host/a.txt'")
    assert ", model.n_head=8. The next experiment will start from these values. To return to the last commit: " in line
    known = this_experiment(other).params
    assert known == flatten(other.model_dump()) | {"download.url": "https://***@host/a.txt"}


def test_a_project_of_another_owner_has_results_and_stage_publish_says_why_they_name_no_commit(
    project, params, monkeypatch, capsys
):
    commit_params(project)
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", os.devnull)  # tests/gitconfig trusts all folders
    monkeypatch.setenv("GIT_TEST_ASSUME_DIFFERENT_OWNER", "1")
    assert this_experiment(params).experiment == "repro-uncommitted"
    with pytest.raises(RefusedError):
        print_uncommitted(params)
    monkeypatch.setattr(publish_stage, "publish", lambda _: None)
    publish_stage.main()
    assert capsys.readouterr().out.startswith(
        f"The commit of this experiment is unknown, so its name in MLflow is repro-uncommitted. Reason: {project}: git "
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
    commit_params(project)
    monkeypatch.setenv("DVC_EXP_NAME", "bumpy-vara")
    for section, values in changes.items():
        params = changed(params, section, **values)
    assert this_experiment(params).label == label


# ---- code and texts that differ from the commit


@pytest.fixture
def subfolder(project, monkeypatch):
    """A bukva project in a folder of a git repository. Stage download is running."""
    root = project / "bukva"
    (root / ".dvc").mkdir(parents=True)
    for name in ("src/bukva/models/gpt.py", ".gitignore", "../other/a.txt"):
        write_text(root / name, "one")
    shutil.copy(SHIPPED, root)
    run_git(project, "init", "-q")
    commit(project)
    monkeypatch.setenv("BUKVA_ROOT", str(root))
    monkeypatch.setenv("DVC_STAGE", "download")
    monkeypatch.chdir(root)
    return root


def test_edits_in_a_subfolder_of_a_repository_have_a_key_each(subfolder, params, monkeypatch):
    monkeypatch.setenv("DVC_EXP_NAME", "wide")
    clean, keys = this_experiment(params), set()
    for text in ("two", "three"):
        write_text(subfolder / "src/bukva/models/gpt.py", text)
        edited = this_experiment(params)
        assert (clean.edited, edited.edited) == ([], ["src/bukva/models"])
        keys.add(edited.key)
    assert len(keys | {clean.key}) == 3


@pytest.mark.parametrize(
    "how", ["absolute", "outside", "in another folder of git", "ignored", "a link", "a repository"]
)
def test_a_text_is_part_of_the_experiment_also_if_git_does_not_track_it(subfolder, params, tmp_path, how):
    path = {"absolute": str(tmp_path / "texts"), "outside": "../../texts", "in another folder of git": "../other"}
    name = path.get(how, "own")
    folder = subfolder / name
    if how == "a link":
        folder.symlink_to(tmp_path / "texts")
        folder = tmp_path / "texts"
    write_text(folder / "a.txt", "one")
    if how == "ignored":
        write_text(subfolder / ".gitignore", "/own")
    if how == "a repository":
        run_git(folder, "init", "-q")
    own = changed(params, "download", path=name)
    found = []
    for text in ("two", "three"):
        write_text(folder / "a.txt", text)
        found.append(this_experiment(own))
        assert found[-1].edited == [name]
        assert found[-1].label.endswith(f"edited {Path(name).name}")
    assert found[0].key != found[1].key
    if how != "in another folder of git":  # the record of DVC in the last commit decides
        stages = {"download": {"deps": [{"path": name, "md5": digests([name])[name]}]}}
        write_json(subfolder / "dvc.lock", {"schema": "2.0", "stages": stages})
        commit(subfolder, "dvc.lock")
        assert this_experiment(own).edited == []


def test_a_text_is_one_edited_folder_however_many_files_differ_and_few_folders_are_named(subfolder, params):
    for number in range(60):
        write_text(subfolder / f"own/author {number}/a.txt", "")
    for name in ("core", "corpus/cleaning", "corpus/sources", "models", "text"):
        write_text(subfolder / f"src/bukva/{name}/two.py", "")
    edited = this_experiment(changed(params, "download", path="own"))
    assert edited.edited == ["own", "src/bukva/corpus", "src/bukva/models", "src/bukva/text"]
    assert edited.edits == "own, src/bukva/corpus, src/bukva/models, 1 more"
