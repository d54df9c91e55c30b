"""A random order without a table: every number once, every order equally likely, and nothing grows with n."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from bukva.training.permutation import draw_keys, permuted


def order(n, seed):
    return permuted(np.arange(n), n, draw_keys(np.random.default_rng(seed)))


def is_uniform(counts):
    """Whether counts differ from equal ones by no more than one draw in a million would."""
    return stats.chisquare(counts).pvalue > 1e-6


def test_an_order_has_every_number_once_and_other_keys_are_another_order():
    for n in (*range(1, 32), 101, 1009):
        assert sorted(order(n, n)) == list(range(n))
    assert len({tuple(order(101, seed).tolist()) for seed in range(31)}) == 31


@settings(max_examples=20)
@given(n=st.integers(1, 2**62), seed=st.integers(0, 2**32), data=st.data())
def test_numbers_are_below_n_and_different_and_belong_to_their_places_however_large_n_is(n, seed, data):
    places = np.array(data.draw(st.lists(st.integers(0, n - 1), min_size=1, max_size=31, unique=True)))
    before, keys = places.copy(), draw_keys(np.random.default_rng(seed))
    numbers = permuted(places, n, keys)
    assert ((numbers >= 0) & (numbers < n)).all()
    assert len(set(numbers.tolist())) == len(places)
    assert permuted(places[-1:], n, keys) == numbers[-1]
    assert (places == before).all()


@pytest.mark.parametrize("n", [2, 3, 4, pytest.param(5, marks=pytest.mark.nightly)])
def test_all_orders_of_a_few_things_are_equally_likely(n):
    counts = dict.fromkeys(itertools.permutations(range(n)), 0)
    for seed in range(40 * math.factorial(n)):
        counts[tuple(order(n, seed).tolist())] += 1
    assert is_uniform(list(counts.values()))


@pytest.mark.parametrize("n", [7, *(pytest.param(n, marks=pytest.mark.nightly) for n in (31, 101))])
def test_places_and_neighbours_of_a_number_are_equally_likely(n):
    orders = np.stack([order(n, seed) for seed in range(1009)])  # (seeds, n)
    at_place = orders + n * np.arange(n)
    steps = np.diff(orders, axis=1) % n
    assert is_uniform(np.bincount(at_place.ravel(), minlength=n * n))
    assert is_uniform(np.bincount(steps.ravel(), minlength=n)[1:])
