"""The choice of the sizes to measure and of the size to propose."""

import pytest
import torch
from plans import plan

from bukva.core.errors import BukvaError
from bukva.planning.plan import LADDER, plans_by_size, propose


def test_the_largest_size_that_sees_twenty_characters_per_parameter_is_chosen():
    small, middle, large = (
        plan(n_parameters=n) for n in (1000, 6342, 6343)
    )  # 1812 updates of 70 characters give 6342 parameters 20 characters each
    assert propose([small, middle, large]) is middle
    assert propose([small, middle]) is middle
    low, high = plan(n_parameters=10_000), plan(n_parameters=30_000)
    assert propose([low, high]) is low  # neither has enough text


def climbed(fits=8):
    """Return the plans, and the measured sizes, if only the first `fits` sizes fit into memory."""
    measured = []

    def measure(size):
        if size in LADDER[fits:]:
            raise torch.OutOfMemoryError
        measured.append(size)
        n = size.n_layer * size.n_embd**2 * 12
        return plan(
            n_parameters=n, chars_per_update=2048, seconds_per_update=6.4e-7 * n, seconds_per_scoring=1.0, size=size
        )

    return list(plans_by_size(measure)), measured


def test_sizes_are_measured_up_to_the_first_that_sees_too_little_or_does_not_fit():
    plans, measured = climbed()
    assert [one.is_enough for one in plans] == [True] * (len(plans) - 1) + [False]
    assert [one.size for one in plans] == LADDER[: len(plans)] == measured
    assert propose(plans) is plans[-2]
    assert [one.size for one in climbed(fits=1)[0]] == LADDER[:1]
    with pytest.raises(torch.OutOfMemoryError):
        climbed(fits=0)
    with pytest.raises(BukvaError, match=r"leave no time for an update\. Use a longer BUDGET\.$"):
        propose([plan(seconds=5)])


def test_a_batch_doubles_with_the_channels():
    assert [size.batch_size(32) for size in LADDER] == [32, 32, 32, 32, 64, 64, 128, 128]
