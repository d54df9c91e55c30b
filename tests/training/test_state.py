"""The state of a training is whole: saved, restored, and checked for NaN (that of another: tests/durability)."""

import copy
import math

import pytest
import torch
from equality import same
from tiny import run, task

from bukva.training.run import start
from bukva.training.state import DivergedError


@pytest.mark.parametrize("optimizer", ["adamw", "muon"])
def test_a_state_comes_back_whole(optimizer):
    state, _ = run(task(optimizer=optimizer))
    saved, again = copy.deepcopy(state.state_dict()), start(task(optimizer=optimizer, seed=2))
    assert again.mismatch(saved) == ""
    again.load_state_dict(saved)
    same(again.state_dict(), state.state_dict())
    assert again.curve == state.curve
    assert not again.stop_requested
    again.check_finite(0.1)


def test_a_new_state_has_no_score_and_a_copy_of_its_weights():
    state = start(task())
    assert (state.step, state.updates, state.best_step, state.best_val, state.curve) == (0, 0, 0, math.inf, [])
    assert state.sums.tolist() == [0.0, 0.0]
    before = copy.deepcopy(state.weights())
    with torch.no_grad():
        for parameter in state.model.parameters():
            parameter.add_(1)
    same(state.best_weights, before)


@pytest.mark.parametrize(
    ("damaged", "value", "what"),
    [
        (lambda state: state.model.lm_head.weight.data[-1, -1:], math.nan, "lm_head.weight"),
        (lambda state: state.model.wte.weight.data[0], -math.inf, "wte.weight"),
        (lambda state: state.sums[:1], math.inf, "the loss"),
        (lambda state: state.sums[1:], math.nan, "the gradient"),
    ],
    ids=["weight", "infinity", "loss", "gradient"],
)
def test_a_state_that_is_not_finite_is_a_divergence(damaged, value, what):
    state, _ = run(task(n_steps=2, eval_every=2))
    damaged(state).fill_(value)
    words = rf"^the training diverged at step 2, learning rate 0.125: {what} is NaN or infinite$"
    with pytest.raises(DivergedError, match=words):
        state.check_finite(0.125)
