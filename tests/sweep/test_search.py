"""A search proposes valid trials, learns from those that finish, and goes on where it was."""

import pytest
from imports import SHIPPED

from bukva.core.errors import BukvaError
from bukva.core.params import read_params
from bukva.project.commands import overrides
from bukva.sweep.search import pruning_rule, read_space, searcher

pytest.importorskip("ray")

RATES = "train_gpt.learning_rate=tag(log,interval(0.0001,0.01))"


def space_of(*settings):
    return read_space(settings, True)[0]


def test_a_trial_has_valid_settings_and_a_search_that_is_restored_goes_on_with_the_next_one(project, tmp_path):
    # 8 heads give 9 or 13 channels each, which is odd
    space = overrides(["model.n_embd=range(72,105,32)", "model.n_head=4,8", "train_gpt.seed=7", RATES])
    search = searcher("find", space, 20)
    trials = [search.suggest(str(number))["trial"] for number in range(7)]
    assert [trial["name"][:8] for trial in trials] == [f"find-0{number}-" for number in range(1, 8)]
    for trial in trials:
        width, *fixed, rate = trial["settings"]
        assert width in ("model.n_embd=72", "model.n_embd=104")
        assert fixed == ["model.n_head=4", "train_gpt.seed=7"]
        assert 0.0001 <= float(rate.partition("=")[2]) <= 0.01
    search.save(str(tmp_path / "state"))
    again = searcher("find", space, 20)
    again.restore(str(tmp_path / "state"))
    assert again.suggest("7")["trial"]["name"].startswith("find-08-")


def test_a_space_without_a_valid_combination_is_one_sentence(project):
    settings = "model.n_embd=72,104", "model.n_head=8,16"
    with pytest.raises(BukvaError, match=r"-S model.n_embd=72 -S model.n_head=8: .* needs an even number"):
        space_of(*settings)
    with pytest.raises(BukvaError, match="100 combinations in a row were invalid"):
        searcher("find", overrides(settings), 20).suggest("0")


def test_only_a_trial_that_finished_has_a_value_for_optuna(project):
    search = searcher("find", space_of(RATES), 3)
    for number, result in enumerate([{"val": 2.5, "finished": True}, {"val": 2.25}, None]):
        search.suggest(str(number))
        search.on_trial_complete(str(number), result, error=result is None)
    states = [trial.state.name for trial in search._ot_study.get_trials()]
    assert states == ["COMPLETE", "PRUNED", "FAIL"]
    assert search._ot_study.best_value == 2.5


def test_a_trial_is_compared_at_a_ninth_and_a_third_of_its_updates_and_not_at_the_end(project):
    training = read_params(SHIPPED).train_gpt.model_copy(update={"n_steps": 900, "eval_every": 100})
    [bracket] = pruning_rule(training)._brackets
    assert [milestone for milestone, _ in bracket._rungs] == [303, 101]


SHORT = "train_gpt.n_steps=900"


@pytest.mark.parametrize(
    "settings", [(RATES, SHORT, "train_gpt.eval_every=30,400"), ("train_gpt.eval_every=400", SHORT, RATES)]
)
def test_val_that_is_scored_too_rarely_for_pruning_is_one_sentence(project, settings):
    with pytest.raises(
        BukvaError, match=r"eval_every=400 is too large to compare running trials of 900 updates\. Use 101 or less"
    ):
        space_of(*settings)
    assert len(read_space(settings, False)[0]) == 3


def test_options_are_checked_together_in_any_order(project):
    """n_steps of 30 needs another eval_every and warmup; 3 heads do not divide the 128 channels of params.yaml."""
    fixed = ["train_gpt.n_steps=30", "train_gpt.eval_every=5", "train_gpt.warmup_steps=3"]
    chosen = ["model.n_head=3,6", "model.n_embd=range(96,193,96)"]
    for settings in (fixed + chosen, (fixed + chosen)[::-1]):
        space, same, training = read_space(settings, True)
        assert len(space) == 5
        assert sorted(same) == sorted(fixed)
        assert (training.n_steps, training.eval_every) == (30, 5)
    with pytest.raises(BukvaError, match=r"-S model.n_head=3 -S model.n_embd=100: .*n_head"):
        space_of("model.n_head=3,4", "model.n_embd=100,200")


@pytest.mark.parametrize(
    ("setting", "sentence"),
    [
        ("model.n_layer=2", "There is nothing to search, because no setting has several values."),
        ("model.dropout=interval(0.5,1.5)", "-S model.dropout=1.5: params.yaml, model.dropout: 1.5 (float) is invalid"),
        ("model.n_layer=2,x", "-S model.n_layer=x: params.yaml, model.n_layer: 'x' (str) is invalid"),
        ("train_gpt.n_steps=100,200", "`train_gpt.n_steps` must have a single value in a search"),
        ("model.n_layer=(2", "-S: "),
    ],
)
def test_a_space_that_makes_no_sense_is_one_sentence_before_anything_runs(project, setting, sentence):
    with pytest.raises(BukvaError) as error:
        space_of(setting)
    assert str(error.value).startswith(sentence)
