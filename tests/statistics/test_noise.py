"""The noise floor against all scores pooled at once."""

import numpy as np
import pytest

from bukva.statistics.noise import Floor, pool

GROUPS = [[2.51, 2.52, 2.49], [2.61, 2.6], [2.7], [2.4, 2.41, 2.42, 2.4, 2.43]]


def test_a_group_is_known_by_its_standard_deviation():
    floor = Floor.of(GROUPS[0])
    assert (floor.sd, floor.df) == (pytest.approx(np.std(GROUPS[0], ddof=1)), 2)
    assert floor.difference == pytest.approx(np.sqrt(2) * floor.sd)


def test_groups_are_pooled_around_their_own_means():
    residuals = np.concatenate([np.array(group) - np.mean(group) for group in GROUPS])
    floor = pool(map(Floor.of, GROUPS))
    assert (floor.sd, floor.df) == (pytest.approx(np.sqrt((residuals**2).sum() / 7)), 2 + 1 + 0 + 4)


def test_pooling_pools_gives_the_same_as_pooling_once():
    floors = [Floor.of(group) for group in GROUPS]
    stepwise = pool([pool(floors[:2]), pool(floors[2:])])
    assert (stepwise.sd, stepwise.df) == (pytest.approx(pool(floors).sd), pool(floors).df)


@pytest.mark.parametrize(
    ("groups", "known"),
    [([], False), ([[2.5]], False), ([[2.5, 2.6, 2.5, 2.6]], False), ([[2.5] * 5], False), (GROUPS[3:], True)],
)
def test_a_floor_is_known_from_five_seeds_that_differ(groups, known):
    assert pool(map(Floor.of, groups)).known is known
