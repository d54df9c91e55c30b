"""The interval over the text: by hand, against the paired t, and under changes that must not matter."""

import json

import numpy as np
import pytest
from scipy import stats

from bukva.compare.statistics.text import Units, compare_text, jackknife
from tests.compare.statistics.simulation import EMBEDDED

UNITS = Units.of(EMBEDDED)


def two_models(units, difference=-0.02, seed=1):
    rng = np.random.default_rng(seed)
    a = units.chars * rng.normal(2.5, 0.1, len(units))
    return a, a + units.chars * rng.normal(difference, 0.03, len(units))


def test_three_works_by_hand():
    # differences 6, 0, 6 over 10, 20, 30 characters: in all 12 / 60 = 0.2;
    # without the first 6 / 50 = 0.12, the second 12 / 40 = 0.3, the third 6 / 30 = 0.2
    ratio, variance = jackknife(np.array([6.0, 0.0, 6.0]), np.array([10, 20, 30]))
    assert ratio == pytest.approx(0.2)
    assert variance == pytest.approx(2 / 3 * (0.08**2 + 0.1**2 + 0))


def test_degrees_of_freedom_are_effective_works_less_one():
    verdict = compare_text(*two_models(UNITS), UNITS)
    n = EMBEDDED.tolist()
    assert verdict.effective_units == pytest.approx(sum(n) ** 2 / sum(k * k for k in n))
    assert verdict.estimate.df == pytest.approx(verdict.effective_units - 1)
    quantile = stats.t.ppf(0.975, verdict.effective_units - 1)
    assert verdict.estimate.interval == pytest.approx(
        [verdict.estimate.difference + side * quantile * verdict.estimate.se for side in (-1, 1)]
    )


@pytest.mark.parametrize("difference", [-0.02, 0.0, 0.05])
def test_equal_lengths_reproduce_the_paired_t(difference):
    units = Units.of([457] * 13)
    a, b = two_models(units, difference)
    expected = stats.ttest_rel(b / 457, a / 457)
    interval = expected.confidence_interval()
    estimate = compare_text(a, b, units).estimate
    assert estimate.p == pytest.approx(expected.pvalue, rel=1e-9)
    assert estimate.interval == pytest.approx([interval.low, interval.high], rel=1e-9)
    assert estimate.df == pytest.approx(12)


def test_the_smallest_detectable_difference_is_found_in_80_of_100_cases():
    estimate = compare_text(*two_models(UNITS), UNITS).estimate
    t = stats.nct(estimate.df, estimate.smallest_detectable / estimate.se)
    assert t.sf(stats.t.ppf(0.975, estimate.df)) == pytest.approx(0.8, abs=0.005)


def test_identical_is_said_only_where_nothing_differs():
    for units in (UNITS, Units.of([997])):
        a, _ = two_models(units)
        verdict = compare_text(a, a, units)
        assert (verdict.verdict, verdict.estimate.p, verdict.estimate.interval) == ("identical", 1.0, (0.0, 0.0))
        json.dumps(verdict.to_json(), allow_nan=False)
    sums = np.zeros(38)
    sums[3], sums[5] = 7, -7  # which cancel
    assert compare_text(np.zeros(38), sums, UNITS).verdict == "cannot tell"
    everywhere = compare_text(np.zeros(7), np.full(7, -64.0), Units.of([64] * 7))
    assert (everywhere.verdict, everywhere.estimate.interval, everywhere.estimate.p) == ("better", (-1.0, -1.0), 0.0)
