"""Measured error rates of the verdicts: the acceptance tests of docs/comparing.md, on simulated comparisons."""

import pytest

from tests.statistics.simulation import (
    EMBEDDED,
    RUSLIT,
    SEED_SD,
    coverage,
    false,
    found_on_the_text,
    sweeps_with_a_false_better,
    verdicts_on_settings,
)

DRAWS = 2000  # the Monte Carlo error is half a point
TWICE = SEED_SD, 2 * SEED_SD  # B scatters double


@pytest.mark.parametrize(
    ("lengths", "n_works", "low", "high"),
    [(EMBEDDED, 12, 93.5, 97.5), (EMBEDDED, 38, 93.5, 97.5), (RUSLIT, 38, 95.0, 98.0), (RUSLIT, 373, 93.0, 98.0)],
    ids=["embedded-12", "embedded-38", "ruslit-38", "ruslit-373"],
)
def test_95_of_100_intervals_over_the_text_contain_the_truth(lengths, n_works, low, high):
    covered, *outside = coverage(lengths, n_works, DRAWS)
    assert low <= covered <= high
    assert max(outside) < 4


@pytest.mark.parametrize(
    ("k", "sd", "pairable", "most"),
    [
        (3, (SEED_SD, SEED_SD), True, 7),
        (3, (SEED_SD, SEED_SD), False, 7),
        (5, (SEED_SD, SEED_SD), True, 6),
        (5, (SEED_SD, SEED_SD), False, 6),
        ((3, 5), (SEED_SD, SEED_SD), True, 7),
        (3, TWICE, True, 8),
        (3, TWICE, False, 8),
    ],
)
def test_seeds_alone_rarely_make_a_verdict_on_settings(k, sd, pairable, most):
    rates = verdicts_on_settings(k, DRAWS, sd=sd, pairable=pairable)
    assert 100 - rates["cannot tell"] <= most


@pytest.mark.parametrize("k", [1, 2, (1, 5), (5, 1)])
def test_a_borrowed_noise_floor_rarely_makes_a_probably(k):
    rates = verdicts_on_settings(k, DRAWS, floor=5)
    assert {"better", "worse"}.isdisjoint(rates)
    assert false(rates) <= 2.5


def test_a_planted_difference_is_found_on_the_text():
    assert found_on_the_text(-0.02, DRAWS) >= 90


def test_a_planted_difference_is_found_between_settings():
    rates = verdicts_on_settings(3, DRAWS, difference=-0.03, sd=(0.005 / 2**0.5,) * 2, pairable=True)
    assert rates["better"] >= 95


@pytest.mark.slow
@pytest.mark.parametrize("pairable", [True, False], ids=["paired", "unpaired"])
def test_a_sweep_of_equal_experiments_rarely_has_a_better_one(pairable):
    assert sweeps_with_a_false_better(12, 3, DRAWS, pairable=pairable) <= 6
