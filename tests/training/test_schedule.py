"""The learning rate at the ends of warm-up and decay; and random numbers as a function of seed, step and rank."""

import pytest
import torch
from imports import SHIPPED

from bukva.core.params import read_params
from bukva.training.run import learning_rate, seed_step


def recipe(**changes):
    base = {"n_steps": 110, "learning_rate": 2.0, "warmup_steps": 10, "decay_to": 0.1}
    return read_params(SHIPPED).train_gpt.model_copy(update=base | changes)


def test_it_rises_linearly_and_falls_linearly():
    rates = {step: learning_rate(step, recipe()) for step in (1, 5, 9, 10, 35, 60, 85, 110)}
    assert rates == pytest.approx({1: 0.2, 5: 1.0, 9: 1.8, 10: 2.0, 35: 1.55, 60: 1.1, 85: 0.65, 110: 0.2})


def test_warm_up_and_decay_may_be_absent_or_last_to_the_end():
    assert {learning_rate(step, recipe(decay_to=1.0, warmup_steps=0)) for step in (1, 55, 110)} == {2.0}
    assert learning_rate(110, recipe(decay_to=0.0)) == pytest.approx(0, abs=1e-12)
    assert learning_rate(110, recipe(warmup_steps=110)) == 2.0
    for warmup_steps in (0, 1):
        assert learning_rate(1, recipe(n_steps=1, warmup_steps=warmup_steps)) == 2.0


def drawn(*key):
    seed_step(*key)
    return torch.rand(3).tolist()


def test_random_numbers_depend_on_seed_step_and_rank_alone():
    keys = [(1, 1), (1, 2), (2, 1), (1, 1, 1), (1, 2, 1), (2**63 - 1, 10**12, 1023)]
    first = [drawn(*key) for key in keys]
    torch.rand(7)
    assert [drawn(*key) for key in reversed(keys)] == first[::-1]
    assert len({tuple(numbers) for numbers in first}) == len(keys)
    assert drawn(1, 2, 0) == drawn(1, 2)  # a single process has rank 0
