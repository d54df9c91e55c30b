"""The sentences, word for word, from results whose numbers are given."""

from bukva.statistics.authors import AuthorEffect, Authors
from bukva.statistics.estimate import Estimate
from bukva.statistics.settings import SettingsVerdict
from bukva.statistics.text import TextVerdict
from bukva.statistics.wording import authors_line, detectable_line, settings_line, text_line

CLEAR, OPEN = Estimate(-0.062, 0.0054, 33.0), Estimate(-0.002, 0.0135, 33.0)
BETTER = TextVerdict("better", CLEAR, "works", 38, 33.9, 16930)


def on_settings(word, estimate, method="paired", k=(3, 3), *, text=BETTER, sd: float | None = 0.009, compared=1):
    seeds = [tuple(range(n)) for n in k]
    return SettingsVerdict(word, text.estimate.difference, estimate, 0.01, compared, method, *seeds, sd, None, text)


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


def test_what_can_be_detected_is_said_and_what_holds_on_this_text_and_who_decides():
    assert detectable_line(on_settings("better", Estimate(-0.062, 0.008, 12.0))) == (
        "Smallest detectable difference: 0.016 bits between models on this text, 0.024 bits between settings. "
        "5 seeds a side would resolve 0.020 bits."
    )
    effects = (AuthorEffect("x", 997, -0.1, -0.05, "cannot tell"), AuthorEffect("y", 991, 0.01, 0.005, None))
    by_segments = TextVerdict("cannot tell", OPEN, "segments", 20, 20.0, 997)
    assert text_line(on_settings("cannot tell", None, k=(1, 3), text=by_segments), "A", "B", "test") == (
        "On this test text, the mean of 3 models B and model A cannot be told apart: -0.002 bits (-0.029 to +0.025; "
        "20 segments: more of this text only)."
    )
    assert authors_line(Authors(effects, 1, 1), "A", "B", "author") == (
        "By author: B is better than A on 1 of 2, worse on 1. Without x, the verdict over the text would be: cannot "
        "tell."
    )
