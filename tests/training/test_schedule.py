"""The learning rate at its corners, against written numbers."""

import pytest

from bukva.config.load import read_params
from bukva.training.schedule import learning_rate


def recipe(**changes):
    base = {"n_steps": 110, "learning_rate": 2.0, "warmup_steps": 10, "decay_to": 0.1}
    return read_params().train_gpt.model_copy(update=base | changes)


@pytest.mark.parametrize(
    ("step", "expected"),
    [(1, 0.2), (5, 1.0), (9, 1.8), (10, 2.0), (35, 1.55), (60, 1.1), (85, 0.65), (110, 0.2)],
)
def test_it_rises_linearly_and_falls_linearly(step, expected):
    assert learning_rate(step, recipe()) == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize("step", [1, 55, 110])
def test_decay_to_one_without_warm_up_is_constant(step):
    assert learning_rate(step, recipe(decay_to=1.0, warmup_steps=0)) == 2.0


def test_decay_to_zero_ends_at_zero():
    assert learning_rate(110, recipe(decay_to=0.0)) == pytest.approx(0, abs=1e-12)


@pytest.mark.parametrize("warmup_steps", [0, 1])
def test_a_single_update_has_the_full_rate(warmup_steps):
    assert learning_rate(1, recipe(n_steps=1, warmup_steps=warmup_steps)) == 2.0


def test_warm_up_may_last_to_the_end():
    assert learning_rate(110, recipe(warmup_steps=110)) == 2.0
