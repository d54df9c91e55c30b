"""The mixture of two models is the mean of their probabilities."""

import math

import numpy as np
import pytest

from bukva.baselines.mixture import mixture


def nats(*probabilities):
    return -np.log(np.array(probabilities)).astype(np.float32)


def test_the_mixture_has_the_mean_of_the_probabilities():
    mixed = mixture(nats(0.5, 0.01, 1), nats(0.1, 0.03, 0.25))
    assert mixed.dtype == np.float32
    assert np.exp(-mixed) == pytest.approx([0.3, 0.02, 0.625], rel=1e-6)


def test_two_models_that_agree_are_their_mixture():
    same = np.random.default_rng(1).exponential(3, size=101).astype(np.float32)
    assert mixture(same, same) == pytest.approx(same, rel=1e-6)


def test_the_order_of_the_models_does_not_matter():
    a, b = np.random.default_rng(1).exponential(3, size=(2, 101)).astype(np.float32)
    assert mixture(a, b).tolist() == mixture(b, a).tolist()


def test_probabilities_too_small_for_a_number_mix():
    tiny = np.array([2000, 2000, 0], np.float32)  # nats; exp(-2000) is 0
    mixed = mixture(tiny, np.array([2000, 1, 2000], np.float32))
    assert mixed == pytest.approx([2000, 1 + math.log(2), math.log(2)])


def test_a_small_gain_of_a_likely_character_is_not_rounded_away():
    a, b = np.array([1e-6], np.float32), np.array([3e-6], np.float32)
    assert mixture(a, b) == pytest.approx([2e-6], rel=1e-5)  # float32 inside is 3 % off
