"""Units against loops over works; intervals by hand, against the paired t, and under changes that must not matter."""

import json
import math

import numpy as np
import pytest
from scipy import stats

from bukva.compare.statistics.estimate import Floor, pool
from bukva.compare.statistics.text import Units, by_author, compare_text, over_text
from bukva.core.errors import BukvaError
from tests.compare.statistics.simulation import UNITS

CHARS = [7, 11, 13, 5, 11, 7, 13]  # seven works, worth 6.3 equal ones


def test_equal_works_are_worth_their_number_and_one_long_work_is_worth_one():
    for chars, worth in (([11] * 7, 7), ([10**6, 1, 1], 1), ([1, 2, 3], 36 / 14)):
        assert Units.works(chars).effective == pytest.approx(worth, abs=1e-5)


def test_the_bits_of_a_work_are_those_of_its_characters_and_empty_works_are_left_out():
    nats = np.random.default_rng(1).exponential(size=sum(CHARS)).astype(np.float32)
    nats[0] = 2**24  # float32 cannot count further
    of_works = np.split(nats, np.cumsum(CHARS)[:-1])
    expected = [sum(float(value) for value in work) / math.log(2) for work in of_works]
    units, with_empty = Units.of(CHARS), Units.of([0, *CHARS[:3], 0, 0, *CHARS[3:], 0])
    assert (units.kind, len(units)) == ("works", 7)
    for each in (units, with_empty):
        np.testing.assert_allclose(each.sums(nats), expected, rtol=1e-12)
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


# ---- intervals


def two_models(units, difference=-0.02):
    rng = np.random.default_rng(1)
    a = units.chars * rng.normal(2.5, 0.1, len(units))
    return a, a + units.chars * rng.normal(difference, 0.03, len(units))


def test_three_works_by_hand_with_effective_works_less_one_as_degrees_of_freedom():
    # differences 6, 0, 6 over 10, 20, 30 characters: in all 12 / 60 = 0.2;
    # without the first 6 / 50 = 0.12, the second 12 / 40 = 0.3, the third 6 / 30 = 0.2
    found = over_text(np.array([6.0, 0.0, 6.0]), Units.works([10, 20, 30]))
    assert (found.difference, found.se**2) == pytest.approx((0.2, 2 / 3 * (0.08**2 + 0.1**2 + 0)))
    assert found.df == pytest.approx(60**2 / (10**2 + 20**2 + 30**2) - 1)


@pytest.mark.parametrize("difference", [-0.02, 0.0, 0.05])
def test_equal_lengths_reproduce_the_paired_t(difference):
    units = Units.of([457] * 13)
    a, b = two_models(units, difference)
    expected = stats.ttest_rel(b / 457, a / 457)
    interval = expected.confidence_interval()
    estimate = compare_text(a, b, units).estimate
    assert (estimate.p, estimate.df) == pytest.approx((expected.pvalue, 12), rel=1e-9)
    assert estimate.interval == pytest.approx([interval.low, interval.high], rel=1e-9)


def test_the_smallest_detectable_difference_is_found_in_80_of_100_cases():
    estimate = compare_text(*two_models(UNITS), UNITS).estimate
    t = stats.nct(estimate.df, estimate.smallest_detectable / estimate.se)
    assert t.sf(stats.t.ppf(0.975, estimate.df)) == pytest.approx(0.8, abs=0.005)


def test_identical_is_said_only_where_nothing_differs():
    for units in (UNITS, Units.of([997])):
        a, _ = two_models(units)
        verdict = compare_text(a, a, units)
        assert (verdict.verdict, verdict.estimate.p, verdict.estimate.interval) == ("identical", 1.0, (0.0, 0.0))
        json.dumps(verdict.estimate.to_json(), allow_nan=False)
    sums = np.zeros(38)
    sums[3], sums[5] = 7, -7  # which cancel
    assert compare_text(np.zeros(38), sums, UNITS).verdict == "cannot tell"
    everywhere = compare_text(np.zeros(7), np.full(7, -64.0), Units.of([64] * 7))
    assert (everywhere.verdict, everywhere.estimate.interval, everywhere.estimate.p) == ("better", (-1.0, -1.0), 0.0)


# ---- authors

AUTHORS = [*("abcab" * 4), "d"]
LENGTHS = [211, 0, 467, 223, 479, *[307] * 16]


def compared(effects, chars=LENGTHS, authors=AUTHORS):
    """By author, from the differences of each work in bits per character."""
    works = Units.works(chars)
    base = works.chars * 2.5
    return by_author(base, base + works.chars * np.array(effects)[works.rows], works, authors)


def test_differences_are_those_of_the_characters_of_each_author():
    effects = np.random.default_rng(1).normal(-0.02, 0.03, 21)
    expected = {}
    for name in "abcd":
        rows = [row for row, author in enumerate(AUTHORS) if author == name]
        expected[name] = sum(LENGTHS[row] * effects[row] for row in rows) / sum(LENGTHS[row] for row in rows)
    found = compared(effects)
    assert {effect.author: effect.difference for effect in found.effects} == pytest.approx(expected)
    assert (found.better, found.worse) == tuple(sum(sign * each > 0 for each in expected.values()) for sign in (-1, 1))


def test_the_author_without_whom_the_verdict_is_another_is_named():
    rng = np.random.default_rng(4)
    by_one = [-0.2 * (name == "b") + rng.normal(0, 0.01) for name in AUTHORS]
    alike = np.random.default_rng(1).normal(-0.2, 0.03, 21)
    for effects, authors, deciding in (
        (by_one, AUTHORS, [("b", "cannot tell")]),
        (alike, AUTHORS, []),
        (alike, ["a"] * 20 + ["d"], [("a", "cannot tell")]),
        (alike, ["a"] * 21, []),  # an only author is not left out
    ):
        found = compared(effects, authors=authors).effects
        assert [(effect.author, effect.without) for effect in found if effect.without] == deciding
    too_few_works = compared([-0.2, -0.1], chars=[997, 499], authors=["a", "b"])
    assert not any(effect.without for effect in too_few_works.effects)


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
