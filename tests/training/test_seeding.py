"""Randomness is a function of seed, step and rank."""

import torch

from bukva.training.seeding import seed_step


def drawn(*key):
    seed_step(*key)
    return torch.rand(3).tolist()


def test_random_numbers_depend_on_seed_step_and_rank_alone():
    keys = [(1, 1), (1, 2), (2, 1), (1, 1, 1), (1, 2, 1), (2**63 - 1, 10**12, 1023)]
    first = [drawn(*key) for key in keys]
    torch.rand(7)
    assert [drawn(*key) for key in reversed(keys)] == first[::-1]
    assert len({tuple(numbers) for numbers in first}) == len(keys)


def test_a_single_process_has_rank_zero():
    assert drawn(1, 5) == drawn(1, 5, 0)
