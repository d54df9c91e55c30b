"""Measured error rates of the verdicts: the acceptance tests of docs/comparing-method.md, on simulated comparisons."""

import pytest

from tests.compare.statistics.simulation import (
    EMBEDDED,
    RUSLIT,
    SEED_SD,
    coverage,
    false,
    false_while_adding_seeds,
    found_on_the_text,
    sweeps_with_a_false_better,
    verdicts_on_settings,
)

DRAWS = 2000  # the Monte Carlo error is half a point
EQUAL, TWICE = (SEED_SD, SEED_SD), (SEED_SD, 2 * SEED_SD)  # B scatters double


def test_in_a_few_hundred_draws_intervals_contain_the_truth_and_seeds_rarely_make_a_verdict():
    assert 91 <= coverage(EMBEDDED, 38, 400)[0] <= 98.5
    assert found_on_the_text(-0.02, 200) >= 88
    assert 100 - verdicts_on_settings(3, 200)["cannot tell"] <= 10
    assert 100 - verdicts_on_settings(3, 200, pairable=True)["cannot tell"] <= 10
    assert verdicts_on_settings(3, 100, difference=-0.03, sd=(0.005, 0.005), pairable=True)["better"] >= 50


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("lengths", "n_works", "low", "high"),
    [(EMBEDDED, 12, 93.5, 97.5), (EMBEDDED, 38, 93.5, 97.5), (RUSLIT, 38, 95.0, 98.0), (RUSLIT, 373, 93.0, 98.0)],
    ids=["embedded-12", "embedded-38", "ruslit-38", "ruslit-373"],
)
def test_95_of_100_intervals_over_the_text_contain_the_truth(lengths, n_works, low, high):
    covered, *outside = coverage(lengths, n_works, DRAWS)
    assert low <= covered <= high
    assert max(outside) < 4


@pytest.mark.nightly
def test_seeds_alone_rarely_make_a_verdict_on_settings():
    for pairable in (True, False):
        for k, sd, most in ((3, EQUAL, 7), (5, EQUAL, 6), ((3, 5), EQUAL, 7), (3, TWICE, 8)):
            rates = verdicts_on_settings(k, DRAWS, sd=sd, pairable=pairable)
            assert 100 - rates["cannot tell"] <= most, (k, sd, pairable)
    for k in (1, 2, (1, 5), (5, 1)):  # with a borrowed noise floor
        rates = verdicts_on_settings(k, DRAWS, floor=5)
        assert {"better", "worse"}.isdisjoint(rates)
        assert false(rates) <= 2.5, k
    for pairable in (True, False):
        assert sweeps_with_a_false_better(12, 3, DRAWS, pairable=pairable) <= 6


@pytest.mark.nightly
def test_adding_seeds_until_there_is_a_verdict_makes_more_false_ones_than_deciding_their_number_before():
    decided = false_while_adding_seeds((10,), DRAWS)
    until = false_while_adding_seeds(range(3, 11), DRAWS)
    assert decided <= 6
    assert decided < until <= 16


@pytest.mark.nightly
def test_a_planted_difference_is_found():
    assert found_on_the_text(-0.02, DRAWS) >= 90
    rates = verdicts_on_settings(3, DRAWS, difference=-0.03, sd=(0.005 / 2**0.5,) * 2, pairable=True)
    assert rates["better"] >= 95
