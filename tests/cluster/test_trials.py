"""The trials of a sweep: the same as those of DVC's queue, valid before anything runs."""

import shutil

import pytest
from dvc.utils.hydra import apply_overrides, get_hydra_sweeps

from bukva.cluster.trials import _changed, grid
from bukva.config.load import read_yaml
from bukva.core.errors import BukvaError

COMMIT = "1" * 40
SETTINGS = ["model.n_layer=2,3", "model.n_head=2,4,8", "train_gpt.seed=5"]


def test_the_trials_are_the_combinations_of_dvcs_queue():
    trials = grid(COMMIT, SETTINGS).trials
    assert [list(trial.settings) for trial in trials] == [
        each["params.yaml"] for each in get_hydra_sweeps({"params.yaml": SETTINGS})
    ]
    assert len(trials) == 6
    assert trials[3].settings == ("model.n_layer=3", "model.n_head=2", "train_gpt.seed=5")


def test_a_name_is_a_function_of_commit_and_settings():
    names = [trial.name for trial in grid(COMMIT, SETTINGS).trials]
    assert len(set(names)) == 6
    assert names == [trial.name for trial in grid(COMMIT, SETTINGS).trials]
    assert not set(names) & {trial.name for trial in grid("2" * 40, SETTINGS).trials}
    assert grid(COMMIT, [], "depth").trials[0].name.startswith("depth-1-")
    with pytest.raises(BukvaError, match="cannot be part of a name in git"):
        grid(COMMIT, [], "a/b")


def test_a_setting_is_checked_as_dvc_writes_it(tmp_path):
    file = tmp_path / "params.yaml"
    for setting in (
        "model.dropout=1e-1",
        "sample.prompts=['а', 'б в']",
        "model.tie_weights=false",
        "download.path='a, b'",
    ):
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
    ],
)
def test_a_setting_that_a_stage_would_reject_is_one_sentence_before_anything_runs(setting, sentence):
    with pytest.raises(BukvaError) as error:
        grid(COMMIT, [setting])
    assert str(error.value) == sentence
