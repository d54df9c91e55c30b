"""The levels of many tries hold the share of false keeps."""

import numpy as np
import pytest

from bukva.compare.statistics.judging import next_level

# the levels that onlineFDR's ADDIS gives (package online-fdr 1.0.0: level 0.05, wealth 0.025, lambda 0.25, tau 0.5) for
# the 15 p-values of the R package's vignette
PS = [2.90e-08, 0.06743, 0.01514, 0.08174, 0.00171, 3.60e-05, 0.79149, 0.27201, 0.28295, 7.59e-08, 0.69274, 0.30443]
PS += [0.00136, 0.72342, 0.54757]
LEVELS = [0.0027343, 0.0054686, 0.0054686, 0.0054686, 0.0054686, 0.0109373, 0.0164059, 0.0164059, 0.0054119, 0.0028288]
LEVELS += [0.0082974, 0.0082974, 0.0035892, 0.0090579, 0.0090579]


def levels(ps, level=0.05):
    found, kept = [], []
    for n, p in enumerate(ps):
        found.append(next_level(ps[:n], kept, level))
        kept.append(p <= found[-1])
    return found, kept


def test_the_levels_are_those_of_another_implementation() -> None:
    assert levels(PS)[0] == pytest.approx(LEVELS, rel=1e-4)


def test_the_decisions_are_those_of_the_test_of_the_authors_package() -> None:
    assert levels([1e-07, 3e-04, 0.1, 6e-04])[1] == [True, True, False, True]


def test_a_clear_failure_costs_nothing_and_a_near_one_does() -> None:
    assert next_level([0.9] * 41, [False] * 41, 0.1) == next_level([], [], 0.1)
    assert next_level([0.3], [False], 0.1) < next_level([], [], 0.1) < next_level([1e-5], [True], 0.1)


def test_of_tries_that_are_all_equal_a_tenth_of_nights_keeps_one() -> None:
    rng = np.random.default_rng(1)
    nights = [any(levels(list(rng.random(61)), 0.1)[1]) for _ in range(499)]
    assert 0.01 < np.mean(nights) < 0.1 + 3 * (0.1 * 0.9 / 499) ** 0.5
