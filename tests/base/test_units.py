"""Nats and bits, and readable quantities and durations."""

import math

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from bukva.base.progress import duration, quantity
from bukva.base.units import bits


@pytest.mark.parametrize("n", [2, 8, 58, 87])
def test_choosing_evenly_among_n_costs_log2_n_bits(n):
    assert math.isclose(bits(math.log(n)), math.log2(n), rel_tol=1e-15)


@pytest.mark.parametrize(
    ("n", "shown"),
    [
        (0, "0"),
        (950, "950"),
        (999.4, "999"),
        (1000, "1.00k"),
        (12_345, "12.3k"),
        (123_456, "123k"),
        (999_499, "999k"),
        (999_999, "1.00M"),
        (4_560_000, "4.56M"),
        (34_824_659, "34.8M"),
        (1_200_000_000, "1.20G"),
        (2_000_000_000_000, "2000G"),
    ],
)
def test_a_quantity_has_three_digits_and_a_unit(n, shown):
    assert quantity(n) == shown


@given(st.floats(0, 9.99e11))
@example(999_999)
@example(99_950)
def test_a_quantity_is_short_and_near_the_number(n):
    shown = quantity(n)
    unit = {"k": 1e3, "M": 1e6, "G": 1e9}.get(shown[-1], 1)
    assert len(shown) <= 5
    assert "e" not in shown
    assert math.isclose(float(shown.rstrip("kMG")) * unit, n, rel_tol=0.005, abs_tol=0.5)


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [
        (0, "0 s"),
        (8.4, "8 s"),
        (59.6, "1 min 00 s"),
        (125, "2 min 05 s"),
        (3599, "59 min 59 s"),
        (3599.6, "1 h 00 min"),
        (12_000, "3 h 20 min"),
        (90_000, "25 h 00 min"),
    ],
)
def test_a_duration_has_its_two_largest_units(seconds, shown):
    assert duration(seconds) == shown
