"""The trials of a sweep: the same as those of DVC's queue, valid before anything runs."""

import shutil

import pytest
from dvc.utils.hydra import apply_overrides, get_hydra_sweeps
from hypothesis import given, settings
from hypothesis import strategies as st

from bukva.base.errors import BukvaError
from bukva.cluster.trials import _changed, grid
from bukva.config.load import read_yaml

COMMIT = "1" * 40
SETTINGS = ["model.n_layer=2,3", "model.n_head=2,4,8", "train_gpt.seed=5"]


def test_the_trials_are_the_combinations_of_dvcs_queue():
    trials = grid(COMMIT, SETTINGS).trials
    assert [list(trial.settings) for trial in trials] == [
        each["params.yaml"] for each in get_hydra_sweeps({"params.yaml": SETTINGS})
    ]
    assert len(trials) == 6
    assert trials[3].settings == ("model.n_layer=3", "model.n_head=2", "train_gpt.seed=5")


def test_without_settings_there_is_one_trial():
    [trial] = grid(COMMIT, []).trials
    assert trial.settings == ()


@settings(max_examples=20, deadline=None)
@given(st.lists(st.sampled_from(range(1, 30)), min_size=1, max_size=11, unique=True))
def test_names_are_unique_and_a_function_of_commit_and_settings(seeds):
    setting = f"train_gpt.seed={','.join(map(str, seeds))}"
    names = [trial.name for trial in grid(COMMIT, [setting]).trials]
    assert len(set(names)) == len(seeds)
    assert names == [trial.name for trial in grid(COMMIT, [setting]).trials]
    assert not set(names) & {trial.name for trial in grid("2" * 40, [setting]).trials}


def test_a_sweep_may_have_a_name():
    sweep = grid(COMMIT, ["model.n_layer=1,2"], "depth")
    assert sweep.name == "depth"
    assert [trial.name.rpartition("-")[0] for trial in sweep.trials] == ["depth-1", "depth-2"]


@pytest.mark.parametrize(
    "setting",
    [
        "model.n_layer=3", "model.dropout=1e-1", "train_gpt.learning_rate=3e-4", "sample.prompts=['а', 'б в']",
        "sample.prompts=auto", "model.ngram_orders=[3,5]", "model.tie_weights=false", "download.path='a, b'",
    ],
)  # fmt: skip
def test_a_setting_is_checked_as_dvc_writes_it(tmp_path, setting):
    file = tmp_path / "params.yaml"
    shutil.copy("params.yaml", file)
    apply_overrides(file, [setting])
    assert _changed(read_yaml(), [setting]) == read_yaml(file)


@pytest.mark.parametrize(
    ("setting", "sentence"),
    [
        (
            "model.n_layer",
            "-S: Error parsing override 'model.n_layer'; write SECTION.KEY=VALUE, and several values with commas.",
        ),
        (
            "model.n_layers=2",
            "-S model.n_layers=2: params.yaml has no key model.n_layers.",
        ),
        (
            "model.n_layer=2,x",
            "-S model.n_layer=x: params.yaml, model.n_layer: 'x' (str) is invalid; it should be a valid integer.",
        ),
        (
            "train_gpt.learning_rate=-1",
            "-S train_gpt.learning_rate=-1: params.yaml, train_gpt.learning_rate: -1 is out of range; it should be "
            "greater than 0.",
        ),
    ],
)
def test_a_setting_that_a_stage_would_reject_is_one_sentence_before_anything_runs(setting, sentence):
    with pytest.raises(BukvaError) as error:
        grid(COMMIT, [setting])
    assert str(error.value) == sentence


@pytest.mark.parametrize("name", ["a/b", "-a", "имя", "a" * 42, "a b"])
def test_a_name_that_git_may_not_take_is_refused(name):
    with pytest.raises(BukvaError, match="cannot be part of a name in git"):
        grid(COMMIT, [], name)


def test_processes_are_divided_among_machines_without_rest():
    grid(COMMIT, ["train_gpt.processes=2,4"], nodes=2)
    with pytest.raises(BukvaError) as error:
        grid(COMMIT, ["train_gpt.processes=4,2"], nodes=4)
    assert str(error.value) == (
        "--nodes 4: train_gpt.processes is 2, of all machines together; use -S train_gpt.processes=4, or another "
        "multiple of 4."
    )
