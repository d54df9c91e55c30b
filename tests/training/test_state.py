"""The state of a training is whole: saved, restored, compared with another, and checked for NaN."""

import copy
import math

import pytest
import torch
from equality import same
from tiny import SHAPE, run, task

from bukva.models.gpt import GPTConfig
from bukva.training.run import start
from bukva.training.state import DivergedError, Progress


@pytest.fixture(scope="module", params=["adamw", "muon"])
def trained(request):
    return run(task(optimizer=request.param))[0], request.param


def test_a_state_comes_back_whole(trained):
    state, optimizer = trained
    again = start(task(optimizer=optimizer, seed=2))
    again.load_state_dict(copy.deepcopy(state.state_dict()))
    same(again.state_dict(), state.state_dict())
    assert again.curve == state.curve
    assert isinstance(again.curve[0], Progress)
    assert not again.stop_requested


def test_a_new_state_has_no_score():
    state = start(task())
    assert (state.step, state.updates, state.best_step, state.best_val, state.curve) == (0, 0, 0, math.inf, [])
    assert state.sums.tolist() == [0.0, 0.0]
    same(state.best_weights, state.weights())


def test_copied_weights_do_not_change_with_the_model():
    state = start(task())
    before = state.weights()
    expected = copy.deepcopy(before)
    with torch.no_grad():
        for parameter in state.model.parameters():
            parameter.add_(1)
    same(before, expected)
    same(state.best_weights, expected)


def test_a_saved_state_of_this_training_has_no_mismatch(trained):
    state, optimizer = trained
    assert start(task(optimizer=optimizer)).mismatch(copy.deepcopy(state.state_dict())) == ""


@pytest.mark.parametrize(
    ("other", "words"),
    [
        (task(GPTConfig(7, 2, 1, 8, 5, 0.2)), "model, blocks.1.attention.proj.weight is float32 (8, 8), not absent"),
        (task(GPTConfig(7, 1, 1, 16, 5, 0.2)), "model, blocks.0.attention.proj.weight is float32 (16, 16), not"),
        (task(optimizer="muon"), "optimizer: 2 of them, not 1"),
    ],
    ids=["layers", "channels", "optimizer"],
)
def test_a_state_of_another_training_is_a_mismatch(other, words):
    assert words in start(task()).mismatch(run(other)[0].state_dict())


def nan(tensor):
    with torch.no_grad():
        tensor.view(-1)[-1] = math.nan


def test_a_finite_state_passes(trained):
    trained[0].check_finite(0.1)


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (lambda state: nan(state.model.lm_head.weight), "lm_head.weight is NaN or infinite"),
        (lambda state: state.model.wte.weight.data[0].fill_(-math.inf), "wte.weight is NaN or infinite"),
        (lambda state: state.sums[0].fill_(math.inf), "the loss is NaN or infinite"),
        (lambda state: nan(state.sums), "the gradient is NaN or infinite"),
    ],
    ids=["weight", "infinity", "loss", "gradient"],
)
def test_a_state_that_is_not_finite_is_a_divergence(damage, words):
    state, _ = run(task(SHAPE, n_steps=2, eval_every=2))
    damage(state)
    with pytest.raises(DivergedError, match=rf"^the training diverged at step 2, learning rate 0.125: {words}$"):
        state.check_finite(0.125)
