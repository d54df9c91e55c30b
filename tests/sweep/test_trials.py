"""The trials of a sweep: the same as those of DVC's queue, valid before anything runs."""

import pytest
from dvc.utils.hydra import get_hydra_sweeps

from bukva.core.errors import BukvaError
from bukva.sweep.trials import checked_name, grid

COMMIT = "1" * 40
SETTINGS = ["model.n_layer=2,3", "model.n_head=2,4,8", "train_gpt.seed=5"]


def test_the_trials_are_the_combinations_of_dvcs_queue():
    trials = grid("tries", SETTINGS)
    assert [list(trial.settings) for trial in trials] == [
        each["params.yaml"] for each in get_hydra_sweeps({"params.yaml": SETTINGS})
    ]
    assert len(trials) == 6
    assert trials[3].settings == ("model.n_layer=3", "model.n_head=2", "train_gpt.seed=5")
    assert len({trial.name for trial in trials}) == 6
    assert trials == grid("tries", SETTINGS)
    assert grid("tries", [])[0].name.startswith("tries-1-")


def test_a_name_is_a_function_of_commit_and_settings():
    name = checked_name("depth", COMMIT, *SETTINGS)
    assert name.startswith("depth-")
    assert name == checked_name("depth", COMMIT, *SETTINGS)
    assert name != checked_name("depth", "2" * 40, *SETTINGS)
    with pytest.raises(BukvaError, match="cannot be part of a git reference"):
        checked_name("a/b")


@pytest.mark.parametrize(
    ("setting", "sentence"),
    [
        (
            "model.n_layer",
            "-S: Error parsing override 'model.n_layer'. Use SECTION.KEY=VALUE, with commas between several values.",
        ),
        (
            "model.n_layers=2",
            "-S model.n_layers=2: Could not override 'model.n_layers'. Use a key of params.yaml.",
        ),
        (
            "model.n_layer=2,x",
            "-S model.n_layer=x: params.yaml, model.n_layer: 'x' (str) is invalid. The value should be a valid "
            "integer.",
        ),
    ],
)
def test_a_setting_that_a_stage_would_reject_is_one_sentence_before_anything_runs(setting, sentence):
    with pytest.raises(BukvaError) as error:
        grid("tries", [setting])
    assert str(error.value) == sentence
