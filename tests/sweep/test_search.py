"""A search proposes valid trials, learns from those that finish, and goes on where it was."""

import contextlib

import pytest

from bukva.core.errors import BukvaError
from bukva.core.params import read_params
from bukva.project.commands import overrides
from bukva.sweep import commands, engine, search
from bukva.sweep.search import pruning_rule, read_space, searcher
from tests.support.imports import SHIPPED

pytest.importorskip("ray")

RATES = "train_gpt.learning_rate=tag(log,interval(0.0001,0.01))"


def test_a_trial_has_valid_settings_and_a_search_that_is_restored_goes_on_with_the_next_one(project, tmp_path):
    # 8 heads give 9 or 13 channels each, which is odd
    space = overrides(["model.n_embd=range(72,105,32)", "model.n_head=4,8", "train_gpt.seed=7", RATES])
    first = searcher("find", space, 20)
    trials = [first.suggest(str(number))["trial"] for number in range(7)]
    assert [trial["name"][:8] for trial in trials] == [f"find-0{number}-" for number in range(1, 8)]
    for trial in trials:
        width, *fixed, rate = trial["assignments"]
        assert width in ("model.n_embd=72", "model.n_embd=104")
        assert fixed == ["model.n_head=4", "train_gpt.seed=7"]
        assert 0.0001 <= float(rate.partition("=")[2]) <= 0.01
    first.save(str(tmp_path / "state"))
    again = searcher("find", space, 20)
    again.restore(str(tmp_path / "state"))
    assert again.suggest("7")["trial"]["name"].startswith("find-08-")


def test_a_space_without_a_valid_combination_is_one_sentence(project, monkeypatch):
    monkeypatch.setattr(search, "MAX_INVALID", 3)
    assignments = ["model.n_embd=72,104", "model.n_head=8,16"]
    with pytest.raises(BukvaError, match=r"-S model.n_embd=72 -S model.n_head=8: .* needs an even number"):
        read_space(assignments, True)
    with pytest.raises(BukvaError, match="3 combinations in a row were invalid"):
        searcher("find", overrides(assignments), 20).suggest("0")


def test_only_a_trial_that_finished_has_a_value_for_optuna(project):
    found = searcher("find", overrides([RATES]), 3)
    for number, result in enumerate([{"val": 2.5, "finished": True}, {"val": 2.25}, None]):
        found.suggest(str(number))
        found.on_trial_complete(str(number), result, error=result is None)
    states = [trial.state.name for trial in found._ot_study.get_trials()]
    assert states == ["COMPLETE", "PRUNED", "FAIL"]
    assert found._ot_study.best_value == 2.5


def test_a_trial_is_compared_at_a_ninth_and_a_third_of_its_updates_and_not_at_the_end(project):
    training = read_params(SHIPPED).train_gpt.model_copy(update={"n_steps": 900, "eval_every": 100})
    [bracket] = pruning_rule(training)._brackets
    assert [milestone for milestone, _ in bracket._rungs] == [303, 101]


def test_options_are_checked_together_in_any_order(project):
    """n_steps of 30 needs another eval_every and warmup; 3 heads do not divide the 128 channels of params.yaml."""
    fixed = ["train_gpt.n_steps=30", "train_gpt.eval_every=5", "train_gpt.warmup_steps=3"]
    chosen = ["model.n_head=3,6", "model.n_embd=range(96,193,96)"]
    for assignments in (fixed + chosen, (fixed + chosen)[::-1]):
        space, same, training = read_space(assignments, True)
        assert len(space) == 5
        assert sorted(same) == sorted(fixed)
        assert (training.n_steps, training.eval_every) == (30, 5)
    with pytest.raises(BukvaError, match=r"-S model.n_head=3 -S model.n_embd=100: .*n_head"):
        read_space(["model.n_head=3,4", "model.n_embd=100,200"], True)


RARELY = ["train_gpt.eval_every=30,400", "train_gpt.n_steps=900", RATES]


@pytest.mark.parametrize(
    ("assignments", "sentence"),
    [
        (RARELY, "train_gpt.eval_every=400 is too large to compare running trials of 900 updates. Use 101 or less"),
        (["model.n_layer=2"], "There is nothing to search, because no setting has several values."),
        (
            ["model.dropout=interval(0.5,1.5)"],
            "-S model.dropout=1.5: params.yaml, model.dropout: 1.5 (float) is invalid",
        ),
        (["model.n_layer=2,x"], "-S model.n_layer=x: params.yaml, model.n_layer: 'x' (str) is invalid"),
        (["train_gpt.n_steps=100,200"], "`train_gpt.n_steps` must have a single value in a search"),
        (["model.n_layer=(2"], "-S: "),
    ],
)
def test_a_space_that_makes_no_sense_is_one_sentence_before_anything_runs(project, assignments, sentence):
    with pytest.raises(BukvaError) as error:
        read_space(assignments, True)
    assert str(error.value).startswith(sentence)
    if assignments == RARELY:
        assert len(read_space(assignments, False)[0]) == 3  # without pruning, val may be scored rarely


def test_a_search_ends_with_new_seeds_of_its_best_trial_in_a_sweep_that_is_another_for_another_plan(
    project, monkeypatch
):
    ran, compared = [], []

    def search_with(layers, seeds):
        best = {"name": "best", "assignments": [f"model.n_layer={layers}"], "val": 2.5, "finished": True}
        monkeypatch.setattr(engine, "run", lambda *_, **__: [best | {"val": 2.6}, best, {"name": "stopped", "val": 2}])
        commands.search(["model.n_layer=1,2", "train_gpt.n_steps=900"], seeds=seeds, prune=False)

    monkeypatch.setattr(engine, "ray_for", lambda *_: contextlib.nullcontext())
    monkeypatch.setattr(search, "searcher", lambda *_: None)
    monkeypatch.setattr(engine, "run_all", lambda sweep, _, trials: ran.append((sweep.name, trials)))
    monkeypatch.setattr("bukva.compare.comparison.compare", lambda *given: compared.append(given))
    monkeypatch.setattr("bukva.report.comparison.show_and_save", lambda _: None)
    for plan in ((2, 2), (1, 2), (2, 3), (2, 2), (2, 0)):
        search_with(*plan)
    names, (trials, *_) = [name for name, _ in ran], [trials for _, trials in ran]
    assert [names.index(name) for name in names] == [0, 1, 2, 0]
    assert [each["assignments"] for each in trials] == [
        [*more, f"train_gpt.seed={seed}"]
        for more in (["train_gpt.n_steps=900"], ["model.n_layer=2"])
        for seed in (1338, 1339)
    ]
    assert compared[0] == ([trials[0]["name"], trials[2]["name"]], "gpt", "val", [1338, 1339])
    same, other, longer = ({each["name"] for each in trials} for _, trials in ran[:3])
    assert len(same & other) == 2  # those of params.yaml
    assert same < longer  # trials that have a result do not run again
