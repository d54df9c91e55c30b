"""The sentences, word for word, from results whose numbers are given."""

from bukva.compare.statistics.estimate import Estimate
from bukva.compare.statistics.settings import SettingsVerdict
from bukva.compare.statistics.text import TextVerdict
from bukva.compare.statistics.wording import settings_line

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
        "Worse by 0.062 bits (0.051 to 0.073; 3 and 5 seeds, unpaired; Holm over 12): settings B against A.",
        "No difference that matters, -0.002 bits (-0.008 to +0.004; 5 seeds each, unpaired): settings B against A. "
        "The limit is 0.01 bits.",
        "Probably better by 0.062 bits (0.051 to 0.073; one seed each): settings B against A. "
        "To confirm, add seeds: bukva seeds 3",
        "Cannot tell from 1 and 5 seeds: settings B against A. To add seeds: bukva seeds 3",
        "Identical: settings B against A.",
    ]
