"""The verdict on settings: which trainings are compared and how, the variance by hand, Holm, luck and power."""

import itertools
import json
import math

import numpy as np
import pytest
from scipy import stats

from bukva.compare.statistics.estimate import Floor, resolved_by
from bukva.compare.statistics.settings import SeedSums, compare_settings, correct, expected_luck, holm
from bukva.compare.statistics.text import compare_text
from tests.compare.statistics.simulation import EMBEDDED, UNITS

FLOOR = Floor(0.009, 4)


def trained(seeds, difference=0.0, sd=0.009, rng=7):
    rng = np.random.default_rng(rng)
    return SeedSums.of(
        [(seed, UNITS.chars * (2.5 + difference + rng.normal(0, sd) + rng.normal(0, 0.03, 38))) for seed in seeds]
    )


def scores(side):
    return side.sums.sum(axis=1) / EMBEDDED.sum()


def assert_estimate(verdict, a, b, parts):
    """Compare with the sum of the variances, with the degrees of freedom of Welch and Satterthwaite."""
    over_text = compare_text(a.sums.mean(axis=0), b.sums.mean(axis=0), UNITS).estimate
    parts = [(over_text.se**2, UNITS.effective - 1), *parts]
    variance, difference = sum(v for v, _ in parts), scores(b).mean() - scores(a).mean()
    df = variance**2 / sum(v**2 / df for v, df in parts)
    margin = stats.t.ppf(0.975, df) * math.sqrt(variance)
    assert verdict.difference == verdict.estimate.difference == pytest.approx(difference)
    assert (verdict.estimate.se, verdict.estimate.df) == pytest.approx((math.sqrt(variance), df))
    assert verdict.estimate.interval == pytest.approx((difference - margin, difference + margin))
    assert verdict.p == pytest.approx(2 * stats.t.sf(abs(difference) / math.sqrt(variance), df))


def test_the_same_seeds_are_paired():
    a, b = trained([1, 2, 3, 4, 5], rng=1), trained([5, 4, 3, 2, 1], -0.03, rng=2)
    verdict = compare_settings(a, b, UNITS, FLOOR, pairable=True)
    change = scores(b) - scores(a)  # SeedSums.of sorts by seed
    assert (verdict.method, verdict.seeds_a, verdict.seeds_b) == ("paired", (1, 2, 3, 4, 5), (1, 2, 3, 4, 5))
    assert verdict.seed_sd == pytest.approx(change.std(ddof=1))
    assert_estimate(verdict, a, b, [(change.var(ddof=1) / 5, 4)])


@pytest.mark.parametrize(
    ("seeds_a", "seeds_b", "pairable"),
    [
        ([1, 2, 3], [1, 2, 3], False),
        ([1, 2, 3], [4, 5, 6, 7, 8], True),
        ([1, 2, 3, 4], [3, 4, 5, 6, 7], True),
        ([1, 1, 2, 3], [1, 2, 3], True),
    ],
    ids=["other numerics", "other seeds", "two common seeds", "a seed twice"],
)
def test_otherwise_each_side_has_its_own_variance(seeds_a, seeds_b, pairable):
    a, b = trained(seeds_a, rng=1), trained(seeds_b, -0.03, sd=0.02, rng=2)
    verdict = compare_settings(a, b, UNITS, FLOOR, pairable)
    assert (verdict.method, verdict.seeds_a, verdict.seeds_b) == ("unpaired", tuple(seeds_a), tuple(seeds_b))
    assert_estimate(
        verdict, a, b, [(scores(side).var(ddof=1) / len(side.seeds), len(side.seeds) - 1) for side in (a, b)]
    )


def test_three_common_seeds_are_paired_and_the_others_left_out():
    a, b = trained([1, 2, 3, 4, 5], rng=1), trained([3, 4, 5, 6], -0.03, rng=2)
    verdict = compare_settings(a, b, UNITS, FLOOR, pairable=True)
    assert verdict.seeds_a == verdict.seeds_b == (3, 4, 5)
    assert verdict == compare_settings(a.only({3, 4, 5}), b.only({3, 4, 5}), UNITS, FLOOR, pairable=True)


@pytest.mark.parametrize(("k_a", "k_b"), [(1, 1), (1, 5), (3, 2)])
def test_fewer_than_three_seeds_borrow_twice_the_noise_floor(k_a, k_b):
    a, b = trained(range(k_a), rng=1), trained(range(k_b), -0.1, rng=2)
    verdict = compare_settings(a, b, UNITS, FLOOR, pairable=True)
    assert verdict.method == "noise floor"
    assert_estimate(verdict, a, b, [(4 * 0.009**2 * (1 / k_a + 1 / k_b), 4)])


@pytest.mark.parametrize(
    ("difference", "spread", "word"),
    [
        (-0.1, 0.003, "better"),
        (0.1, 0.003, "worse"),
        (-0.012, 0.03, "cannot tell"),
        (0.002, 0.003, "no difference that matters"),
        (-0.005, 0.0, "no difference that matters"),  # certain, but below a hundredth of a bit
    ],
)
def test_three_seeds_decide(difference, spread, word):
    works = np.random.default_rng(3).normal(0, spread, 38)
    works -= (works * UNITS.chars).sum() / UNITS.chars.sum()  # the effects cancel over the whole text
    seeds, base = np.array([[-0.001], [0.0], [0.001]]), trained([1, 2, 3]).sums
    a, b = SeedSums((1, 2, 3), base), SeedSums((1, 2, 3), base + UNITS.chars * (difference + seeds + works))
    verdict = compare_settings(a, b, UNITS, None, pairable=True)
    assert (verdict.difference, verdict.verdict) == (pytest.approx(difference), word)


def test_one_seed_each_is_probably_better_at_best_and_cannot_tell_without_a_known_floor():
    for difference, word in ((-0.2, "probably better"), (0.2, "probably worse"), (-0.03, "cannot tell")):
        sides = trained([1]), trained([2], difference, rng=2)
        assert compare_settings(*sides, UNITS, FLOOR, pairable=True).verdict == word
    for floor in (None, Floor(0.009, 3), Floor(0.0, 7)):
        verdict = compare_settings(trained([1]), trained([2], -0.5, rng=2), UNITS, floor, pairable=True)
        assert (verdict.verdict, verdict.method, verdict.estimate) == ("cannot tell", "text only", None)
        assert (verdict.p, verdict.text.verdict) == (1.0, "better")
        json.dumps(verdict.to_json(), allow_nan=False)


def test_settings_against_themselves_are_identical():
    for seeds, floor, pairable in itertools.product(([1], [1, 2, 3]), (None, FLOOR), (True, False)):
        verdict = compare_settings(trained(seeds), trained(seeds), UNITS, floor, pairable)
        assert (verdict.verdict, verdict.difference, verdict.p) == ("identical", 0.0, 1.0)
        assert verdict.estimate.interval == (0.0, 0.0)
        json.dumps(verdict.to_json(), allow_nan=False)


# ---- several comparisons


def test_holm_by_hand():
    # sorted .005 .01 .03 .04, times 4 3 2 1: .02 .03 .06 .04, and no smaller than the one before
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert (holm([0.6, 0.7]), holm([])) == ([1.0, 1.0], [])


def test_a_sweep_says_cannot_tell_of_what_may_be_luck():
    differences = [0.0, -0.2, -0.045, 0.0, 0.045, 0.2, 0.0, 0.0]
    baseline, *others = [trained(range(3), difference, rng=rng) for rng, difference in enumerate(differences)]
    alone = [compare_settings(baseline, other, UNITS, None, pairable=False) for other in others]
    together = correct(alone)
    assert {verdict.compared for verdict in together} == {7}
    assert [verdict.p for verdict in together] == holm([verdict.p for verdict in alone])
    for each in together:
        low, high = each.estimate.interval_at(each.level)
        assert (low > 0 or high < 0) == (each.p < 0.05)
    assert {each.level for each in alone} == {0.05}
    assert (together[0].verdict, together[4].verdict) == ("better", "worse")
    lost = [before.p for before, after in zip(alone, together, strict=True) if before.verdict != after.verdict]
    assert lost
    assert all(0.05 / 7 < p < 0.05 for p in lost)
    assert [verdict.estimate for verdict in together] == [verdict.estimate for verdict in alone]


def test_the_best_of_m_equal_settings_gains_the_mean_of_the_greatest_of_m_normal_deviates():
    for m, luck in ((1, 0), (2, np.pi**-0.5), (3, 1.5 * np.pi**-0.5), (12, 1.6292)):
        assert expected_luck(m, 0.009) == pytest.approx(0.009 * luck, abs=1e-6)


LONG = (0.0, np.inf)  # a text so long that its choice adds no variance


def test_seeds_for_differences_of_half_one_and_two_per_cent_of_2_52_bits():
    table = {(0.006, False): [5, 3, 2], (0.012, False): [16, 5, 3], (0.003, True): [3, 3, 2], (0.010, True): [8, 4, 3]}
    for (sd, paired), seeds in table.items():
        for share, k in zip((0.005, 0.01, 0.02), seeds, strict=True):
            assert resolved_by(k, sd, paired=paired, text=LONG) <= share * 2.52
            assert k == 2 or share * 2.52 < resolved_by(k - 1, sd, paired=paired, text=LONG)
    limited, unlimited = (resolved_by(1000, 0.009, paired=False, text=text) for text in ((0.0055**2, 33.0), LONG))
    assert limited > 0.0126 > unlimited
