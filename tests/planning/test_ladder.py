"""Which sizes are measured, and which one is proposed."""

import pytest
import torch
from plans import ALL, BUDGET, plan

from bukva.core.errors import BukvaError
from bukva.planning.plan import LADDER, Budget, Speed, climb, propose


def test_the_largest_size_that_sees_twenty_characters_per_parameter_is_chosen():
    small, middle, large = (plan(n_parameters=n) for n in (1000, 6342, 6343))  # 1812 updates of 70 are 20 times 6342
    assert propose([small, middle, large]) is middle
    assert propose([small, middle]) is middle
    low, high = plan(n_parameters=10_000), plan(n_parameters=30_000)
    assert propose([low, high]) is low  # none sees enough


def climbed(seconds_per_parameter, params=ALL, fits=8):
    """The plans of a machine of this pace and memory, and the sizes and batches that were measured."""
    measured = []

    def measure(size, batch_size):
        if size in LADDER[fits:]:
            raise torch.OutOfMemoryError
        measured.append((size, batch_size))
        n = size.n_layer * size.n_embd**2 * 12
        return Speed(size, n, batch_size, batch_size * 64, seconds_per_parameter * n * batch_size, 1.0)

    return list(climb(measure, params, BUDGET)), measured


def test_sizes_are_measured_up_to_the_first_that_sees_too_little_or_does_not_fit():
    plans, measured = climbed(seconds_per_parameter=2e-8)
    assert [one.is_enough for one in plans] == [True] * (len(plans) - 1) + [False]
    assert [one.speed.size for one in plans] == LADDER[: len(plans)] == [size for size, _ in measured]
    assert propose(plans) is plans[-2]
    assert [one.speed.size for one in climbed(2e-8, fits=1)[0]] == LADDER[:1]
    with pytest.raises(BukvaError, match=r"too little memory for the smallest size; use a smaller train_gpt\.batch_"):
        propose(climbed(2e-8, fits=0)[0])
    with pytest.raises(BukvaError, match=r"BUDGET 13 s: .* leave no time for an update; use 2 min 04 s or more\.$"):
        propose([plan(Budget(seconds=13, startup_seconds=11, train_chars=500))])  # (200 * 0.5 + 11 + 2 * 3) / 0.95


def test_batches_are_halved_for_few_updates_but_stay_divisible():
    recipe = ALL.train_gpt.model_copy(update={"batch_size": 48, "micro_batches": 3, "processes": 2})
    _, measured = climbed(seconds_per_parameter=1.0, params=ALL.model_copy(update={"train_gpt": recipe}))
    assert measured == [(LADDER[0], batch) for batch in (48, 24, 12, 6)]
