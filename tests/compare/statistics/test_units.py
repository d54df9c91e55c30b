"""Units against one work at a time, and the noise floor against all scores pooled at once."""

import math

import numpy as np
import pytest

from bukva.compare.statistics.estimate import Floor, pool
from bukva.compare.statistics.text import Units
from bukva.core.errors import BukvaError

CHARS = [7, 11, 13, 5, 11, 7, 13]  # seven works, worth 6.3 equal ones


def test_equal_works_are_worth_their_number_and_one_long_work_is_worth_one():
    assert Units.works([11] * 7).effective == pytest.approx(7)
    assert Units.works([10**6, 1, 1]).effective == pytest.approx(1, abs=1e-5)
    assert Units.works([1, 2, 3]).effective == pytest.approx(36 / 14)


def test_the_bits_of_a_work_are_those_of_its_characters_and_empty_works_are_left_out():
    nats = np.random.default_rng(1).exponential(size=sum(CHARS)).astype(np.float32)
    nats[0] = 2**24  # float32 cannot count further
    expected, start = [], 0
    for n in CHARS:
        expected.append(sum(float(value) for value in nats[start : start + n]) / math.log(2))
        start += n
    units, with_empty = Units.of(CHARS), Units.of([0, *CHARS[:3], 0, 0, *CHARS[3:], 0])
    assert (units.kind, len(units)) == ("works", 7)
    np.testing.assert_allclose(units.sums(nats), expected, rtol=1e-12)
    np.testing.assert_allclose(with_empty.sums(nats), expected, rtol=1e-12)
    assert with_empty.rows.tolist() == [1, 2, 3, 6, 7, 8, 9]


@pytest.mark.parametrize("chars", [[997], [1000, 3, 5, 7, 2, 3, 5, 7], [97, 97, 97, 97, 97]])
def test_fewer_than_six_effective_works_become_20_segments_of_equal_length(chars):
    units = Units.of(chars)
    assert (units.kind, len(units), int(units.edges[-1])) == ("segments", 20, sum(chars))
    assert np.ptp(units.chars) <= 1
    nats = np.random.default_rng(1).exponential(size=sum(chars))
    assert units.sums(nats).sum() * math.log(2) == pytest.approx(nats.sum())


def test_a_text_that_is_too_short_or_of_other_scores_is_an_error():
    for chars in ([], [0, 0], [19]):
        with pytest.raises(BukvaError, match=f"compare models: got {sum(chars)}, need at least 20"):
            Units.of(chars)
    nats = np.ones(sum(CHARS), np.float32)
    nats[[3, 5]] = np.inf, np.nan
    with pytest.raises(BukvaError, match="2 of 67 characters have no finite loss"):
        Units.of(CHARS).sums(nats)
    with pytest.raises(ValueError, match="66 scores for 67 characters"):
        Units.of(CHARS).sums(np.ones(66))


# ---- the noise floor

GROUPS = [[2.51, 2.52, 2.49], [2.61, 2.6], [2.7], [2.4, 2.41, 2.42, 2.4, 2.43]]


def test_groups_of_seeds_are_pooled_around_their_own_means():
    residuals = np.concatenate([np.array(group) - np.mean(group) for group in GROUPS])
    floors = [Floor.of(group) for group in GROUPS]
    for floor in (pool(floors), pool([pool(floors[:2]), pool(floors[2:])])):
        assert (floor.sd, floor.df) == (pytest.approx(np.sqrt((residuals**2).sum() / 7)), 2 + 1 + 0 + 4)
        assert floor.difference == pytest.approx(np.sqrt(2) * floor.sd)


def test_a_floor_is_known_from_five_seeds_that_differ():
    for groups in ([], [[2.5]], [[2.5, 2.6, 2.5, 2.6]], [[2.5] * 5]):
        assert not pool(map(Floor.of, groups)).known
    assert pool(map(Floor.of, GROUPS[3:])).known
