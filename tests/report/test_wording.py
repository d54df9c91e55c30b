"""The sentences, word for word, from results whose numbers are given."""

from dataclasses import replace

import pytest

from bukva.compare.statistics.estimate import Estimate
from bukva.compare.statistics.settings import SettingsVerdict
from bukva.compare.statistics.text import TextVerdict
from bukva.report.comparison import detectable_line, settings_line
from bukva.report.terminal import better_or_worse, signed

CLEAR = Estimate(-0.062, 0.0054, 33.0)
BETTER = TextVerdict("better", CLEAR, "works", 38, 33.9)


def on_settings(word, estimate, method="paired", k=(3, 3), compared=1):
    seeds = [tuple(range(n)) for n in k]
    return SettingsVerdict(word, -0.062, estimate, 0.01, compared, method, *seeds, 0.009, BETTER)


def test_the_headline_is_about_settings_and_begins_with_the_word_to_act_on():
    verdicts = (
        on_settings("better", CLEAR),
        on_settings("worse", CLEAR, "unpaired", (3, 5), compared=12),
        on_settings("no difference that matters", Estimate(-0.002, 0.003, 33.0), "unpaired", (5, 5)),
        on_settings("probably better", CLEAR, "noise floor", (1, 1)),
        on_settings("cannot tell", None, "text only", (1, 5)),
        on_settings("identical", Estimate(0.0, 0.0, 33.0)),
    )
    assert [settings_line(verdict, "A", "B", "bukva seeds 3") for verdict in verdicts] == [
        "Better by 0.062 bits (0.051 to 0.073; 3 paired seeds): settings B against A.",
        "Worse by 0.062 bits (0.051 to 0.073; 3 and 5 seeds, unpaired; Holm-corrected for 12 comparisons): "
        "settings B against A.",
        "No difference that matters, -0.002 bits (-0.008 to +0.004; 5 seeds each, unpaired): settings B against A. "
        "Differences below 0.01 bits do not matter.",
        "Probably better by 0.062 bits (0.051 to 0.073; one seed each): settings B against A. "
        "To confirm, add seeds: bukva seeds 3",
        "Cannot tell from 1 and 5 seeds: settings B against A. To add seeds: bukva seeds 3",
        "Identical: settings B against A.",
    ]


@pytest.mark.parametrize(
    ("difference", "sign", "words"),
    [
        (-0.0004, "+0.000", "as good as"),
        (-0.0, "+0.000", "as good as"),
        (0.0004, "+0.000", "as good as"),
        (0.0006, "+0.001", "0.001 bits worse than"),
        (-0.062, "-0.062", "0.062 bits better than"),
    ],
)
def test_what_is_rounded_to_zero_has_no_minus_and_is_neither_better_nor_worse(difference, sign, words):
    assert (signed(difference), better_or_worse(difference)) == (sign, words)


@pytest.mark.parametrize(
    ("estimate", "by"),
    [
        (Estimate(-0.062, 0.0054, 33.0), "0.062 bits (0.051 to 0.073"),
        (Estimate(-0.00213, 0.00054, 33.0), "0.0021 bits (0.0010 to 0.0032"),
        (Estimate(-0.0000213, 0.0000054, 33.0), "0.000021 bits (0.000010 to 0.000032"),
        (Estimate(-0.0000213, 0.0, 33.0), "0.00002 bits (0.00002 to 0.00002"),
    ],
)
def test_a_difference_has_as_many_digits_as_its_error_asks_for(estimate, by):
    line = settings_line(on_settings("better", estimate), "A", "B", "bukva seeds 3")
    assert line.startswith(f"Better by {by}; 3 paired seeds): ")
    sd = replace(on_settings("better", estimate), text=replace(BETTER, estimate=estimate))
    assert " 0.000 bits" not in detectable_line(sd) or not estimate.se
