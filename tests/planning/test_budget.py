"""A budget is a text with units, and becomes seconds."""

import pytest

from bukva.base.errors import BukvaError
from bukva.planning.budget import parse_budget


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("90s", 90), ("10min", 600), ("1h30min", 5400), ("2h", 7200), ("1h5s", 3605), ("1.5h", 5400), ("720h", 2_592_000)],
)
def test_a_budget_is_a_number_with_its_unit(text, seconds):
    assert parse_budget(text) == seconds


@pytest.mark.parametrize("text", ["", "10", "min", "10m", "10 min", "30min1h", "-5min", "1e3s", ".5h", "10min,", "١s"])
def test_a_missing_or_unknown_unit_is_an_error_with_examples(text):
    with pytest.raises(BukvaError) as error:
        parse_budget(text)
    assert str(error.value) == (
        f"BUDGET {text!r}: not a time with its unit (h, min, s); use for example 90s, 10min, 1h30min or 2h."
    )


@pytest.mark.parametrize("text", ["0s", "0h0min", "0.0s", "720h1s", "99999999999h", "9" * 400 + "h"])
def test_a_budget_of_zero_or_of_more_than_a_month_is_an_error_with_the_range(text):
    with pytest.raises(BukvaError, match=r"use more than 0 and at most 30 days, for example 90s, .* or 2h\.$"):
        parse_budget(text)
