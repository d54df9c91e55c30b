"""Holm's correction against its definition; the best of m; seeds against the table of the specification."""

import numpy as np
import pytest

from bukva.compare.statistics.estimate import resolved_by
from bukva.compare.statistics.settings import SeedSums, compare_settings, correct, expected_luck, holm
from bukva.compare.statistics.text import Units
from tests.compare.statistics.simulation import EMBEDDED

UNITS = Units.of(EMBEDDED)


def test_holm_by_hand():
    # sorted .005 .01 .03 .04, times 4 3 2 1: .02 .03 .06 .04, and no smaller than the one before
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([0.6, 0.7]) == [1.0, 1.0]
    assert holm([]) == []


def verdicts(differences):
    rng = np.random.default_rng(2)
    sides = [
        SeedSums.of(
            [(seed, UNITS.chars * (2.5 + d + rng.normal(0, 0.009) + rng.normal(0, 0.03, 38))) for seed in range(3)]
        )
        for d in [0.0, *differences]
    ]
    return [compare_settings(sides[0], b, UNITS, None, pairable=False) for b in sides[1:]]


def test_a_sweep_says_cannot_tell_of_what_may_be_luck():
    alone = verdicts([-0.2, -0.045, 0.0, 0.045, 0.2, 0.0, 0.0])
    together = correct(alone)
    assert {verdict.compared for verdict in together} == {7}
    assert [verdict.p for verdict in together] == holm([verdict.p for verdict in alone])
    assert (together[0].verdict, together[4].verdict) == ("better", "worse")
    lost = [before.p for before, after in zip(alone, together, strict=True) if before.verdict != after.verdict]
    assert lost
    assert all(0.05 / 7 < p < 0.05 for p in lost)
    assert [verdict.estimate for verdict in together] == [verdict.estimate for verdict in alone]


def test_the_best_of_m_equal_settings_gains_the_mean_of_the_greatest_of_m_normal_deviates():
    for m, luck in ((1, 0), (2, np.pi**-0.5), (3, 1.5 * np.pi**-0.5), (12, 1.6292)):
        assert expected_luck(m, 1) == pytest.approx(luck, abs=1e-4)
        assert expected_luck(m, 0.009) == pytest.approx(0.009 * luck, abs=1e-6)


def test_seeds_for_differences_of_half_one_and_two_per_cent_of_2_52_bits():
    table = {(0.006, False): [5, 3, 2], (0.012, False): [16, 5, 3], (0.003, True): [3, 3, 2], (0.010, True): [8, 4, 3]}
    for (sd, paired), seeds in table.items():
        for share, k in zip((0.005, 0.01, 0.02), seeds, strict=True):
            assert resolved_by(k, sd, paired=paired) <= share * 2.52
            assert k == 2 or share * 2.52 < resolved_by(k - 1, sd, paired=paired)


def test_the_text_limits_what_seeds_can_resolve():
    text = (0.0055**2, 33.0)
    assert resolved_by(1000, 0.009, text=text) > 0.0126 > resolved_by(1000, 0.009)
