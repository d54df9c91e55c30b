"""The progress of a transfer and of work in a log, readable quantities and durations, nats and bits."""

import math

import pytest

from bukva.base import progress
from bukva.base.progress import duration, quantity
from bukva.base.units import bits


@pytest.fixture
def clock(monkeypatch):
    """A clock that tests set."""
    now = [100.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    return now


def test_work_shows_its_share_and_speed_and_short_work_nothing(clock, capsys):
    assert list(progress.watched(["раз", "два"], "tokenize", 6)) == ["раз", "два"]
    assert capsys.readouterr().err == ""
    with progress.counting("clean", 20_000_000) as show:
        for _ in range(3):
            clock[0] += 10
            show(4_000_000)
    assert capsys.readouterr().err.splitlines() == [
        "clean: 8.00M of 20.0M (40%) characters, 400k/s",
        "clean: 12.0M of 20.0M (60%) characters, 400k/s",
        "clean: 12.0M characters, 400k/s",
    ]


def test_a_quantity_has_three_digits_and_a_unit_and_a_duration_its_two_largest_units():
    quantities = {999.4: "999", 12_345: "12.3k", 999_499: "999k", 999_999: "1.00M", 34_824_659: "34.8M", 2e12: "2000G"}
    assert {n: quantity(n) for n in quantities} == quantities
    durations = {8.4: "8 s", 59.6: "1 min 00 s", 3599.6: "1 h 00 min", 90_000: "25 h 00 min"}
    assert {seconds: duration(seconds) for seconds in durations} == durations


def test_choosing_evenly_among_n_costs_log2_n_bits():
    assert math.isclose(bits(math.log(87)), math.log2(87), rel_tol=1e-15)
