"""One try: kept when it is clearly better, discarded when there is no hope, else more seeds; the levels of many."""

from functools import partial

import numpy as np
import pytest
from scipy.stats import t

from bukva.compare.statistics.estimate import Estimate, Floor, pool
from bukva.compare.statistics.judging import BORROWED_DF, GIVEN_UP, N_SEEDS, look, next_level

KNOWN = Floor(0.010, 31)
BASELINE = [2.5 + each / 1000 for each in (-7, 7, -3, 3, -1, 1, 0, 0)]


def seen(difference, n_seeds, level=0.01, own=0.003, text_se=0.004, known=KNOWN):
    tried = [2.5 + difference + (own if seed % 2 else -own) * (n_seeds > 1) for seed in range(n_seeds)]
    return look(Estimate(difference, text_se, 29), BASELINE, tried, known, level)


def test_p_is_that_of_the_variances_of_text_and_seeds_times_the_looks() -> None:
    found = seen(-0.011, 4)
    own = 4 * 0.003**2  # sum of squares, with 3 degrees of freedom
    parts = [
        (0.004**2, 29),
        (0.010**2 / 8, 31),
        ((BORROWED_DF * 0.010**2 + own) / (BORROWED_DF + 3) / 4, BORROWED_DF + 3),
    ]
    se = sum(variance for variance, _ in parts) ** 0.5
    df = se**4 / sum(variance**2 / df for variance, df in parts)
    assert (found.estimate.se, found.estimate.df) == pytest.approx((se, df))
    assert found.p == pytest.approx(len(N_SEEDS) * t.cdf(-0.011 / se, df))


@pytest.mark.parametrize(
    ("difference", "n_seeds", "decision"),
    [
        (0.001, 1, "discard"),  # not better with one seed
        (-0.001, 1, "more seeds"),
        (-0.100, 1, "more seeds"),  # clear, but too few seeds to know their scatter
        (-0.100, 2, "more seeds"),
        (-0.100, 4, "more seeds"),
        (-0.002, 4, "discard"),
        (-0.020, 4, "more seeds"),
        (-0.030, 8, "keep"),
        (-0.009, 8, "cannot tell"),  # may be better by more than 0.01 bits
        (0.010, 8, "discard"),  # cannot
    ],
)
def test_the_decision_follows_the_difference_and_the_seeds(difference, n_seeds, decision) -> None:
    assert seen(difference, n_seeds).decision == decision


def test_a_try_that_is_discarded_early_has_a_p_value_that_costs_nothing() -> None:
    for n_seeds in N_SEEDS[:-1]:
        ps = [seen(difference, n_seeds) for difference in np.linspace(-0.02, 0.02, 41)]
        discarded = [each.p for each in ps if each.decision == "discard"]
        assert next_level([min(discarded)], [False], 0.1) == next_level([], [], 0.1)


def test_a_try_whose_seeds_scatter_more_is_tested_with_more_scatter_however_well_the_floor_is_known() -> None:
    assert seen(-0.04, 8).decision == "keep"
    assert seen(-0.04, 8, own=0.04).estimate.se > 2 * seen(-0.04, 8).estimate.se
    for known in (KNOWN, Floor(0.010, 10**6)):
        assert seen(-0.04, 8, own=0.04, known=known).decision != "keep"


def test_trainings_without_scores_have_no_scatter_and_the_pool_of_others_stays() -> None:
    for make in (lambda: Floor.of([]), *(partial(Floor, *values) for values in ((-1, 3), (np.nan, 3), (0.1, -1)))):
        with pytest.raises(ValueError, match=r"^No standard deviation between seeds: "):
            make()
    assert pool([KNOWN, Floor.of([2.5])]) == KNOWN


# ---- the levels of many tries hold the share of false keeps

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


def test_the_levels_are_those_of_another_implementation_and_decide_as_in_the_test_of_the_authors_package() -> None:
    assert levels(PS)[0] == pytest.approx(LEVELS, rel=1e-4)
    assert levels([1e-07, 3e-04, 0.1, 6e-04])[1] == [True, True, False, True]


def test_a_clear_failure_costs_nothing_and_a_near_one_and_one_that_was_given_up_do() -> None:
    assert next_level([0.9] * 41, [False] * 41, 0.1) == next_level([], [], 0.1)
    assert next_level([GIVEN_UP], [False], 0.1) == next_level([0.3], [False], 0.1)
    assert next_level([0.3], [False], 0.1) < next_level([], [], 0.1) < next_level([1e-5], [True], 0.1)


def test_of_tries_that_are_all_equal_a_tenth_of_nights_keeps_one() -> None:
    rng = np.random.default_rng(1)
    nights = [any(levels(list(rng.random(61)), 0.1)[1]) for _ in range(499)]
    assert 0.01 < np.mean(nights) < 0.1 + 3 * (0.1 * 0.9 / 499) ** 0.5
