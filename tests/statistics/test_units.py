"""Units against one work at a time."""

import math

import numpy as np
import pytest

from bukva.base.errors import BukvaError
from bukva.statistics.units import Units

CHARS = [7, 11, 13, 5, 11, 7, 13]  # seven works, worth 6.3 equal ones


def test_equal_works_are_worth_their_number_and_one_long_work_is_worth_one():
    assert Units.works([11] * 7).effective == pytest.approx(7)
    assert Units.works([10**6, 1, 1]).effective == pytest.approx(1, abs=1e-5)
    assert Units.works([1, 2, 3]).effective == pytest.approx(36 / 14)


def test_the_bits_of_a_work_are_those_of_its_characters():
    nats = np.random.default_rng(1).exponential(size=sum(CHARS)).astype(np.float32)
    expected, start = [], 0
    for n in CHARS:
        expected.append(sum(float(value) for value in nats[start : start + n]) / math.log(2))
        start += n
    units = Units.of(CHARS)
    assert (units.kind, len(units)) == ("works", 7)
    np.testing.assert_allclose(units.sums(nats), expected, rtol=1e-12)


def test_sums_are_in_float64():
    nats = np.array([2**24, 1, 1, 1], np.float32)  # float32 cannot count further than 2^24
    assert float(Units.works([4]).sums(nats)[0]) * math.log(2) == pytest.approx(2**24 + 3, abs=1e-6)


def test_works_without_characters_are_left_out():
    nats = np.arange(sum(CHARS), dtype=np.float32)
    with_empty = Units.of([0, *CHARS[:3], 0, 0, *CHARS[3:], 0])
    np.testing.assert_array_equal(with_empty.sums(nats), Units.of(CHARS).sums(nats))
    assert with_empty.rows.tolist() == [1, 2, 3, 6, 7, 8, 9]


@pytest.mark.parametrize("chars", [[997], [1000, 3, 5, 7, 2, 3, 5, 7], [97, 97, 97, 97, 97]])
def test_fewer_than_six_effective_works_become_20_segments_of_equal_length(chars):
    units = Units.of(chars)
    assert (units.kind, len(units), int(units.edges[-1])) == ("segments", 20, sum(chars))
    assert np.ptp(units.chars) <= 1
    nats = np.random.default_rng(1).exponential(size=sum(chars))
    assert units.sums(nats).sum() * math.log(2) == pytest.approx(nats.sum())


def test_a_text_without_enough_characters_is_an_error():
    for chars in ([], [0, 0], [19]):
        with pytest.raises(BukvaError, match="too few to compare models on; use 20 or more"):
            Units.of(chars)


def test_a_loss_that_is_not_finite_is_an_error():
    nats = np.ones(sum(CHARS), np.float32)
    nats[[3, 5]] = np.inf, np.nan
    with pytest.raises(BukvaError, match="2 of 67 characters have no finite loss"):
        Units.of(CHARS).sums(nats)


def test_scores_of_another_text_are_refused():
    with pytest.raises(ValueError, match="66 scores for 67 characters"):
        Units.of(CHARS).sums(np.ones(66))
