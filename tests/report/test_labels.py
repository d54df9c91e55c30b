"""Works are summed by label, and figures write what their font can draw."""

from fontTools.ttLib import TTFont
from hypothesis import given, settings
from matplotlib import font_manager
from report.strange import strange_texts

from bukva.report.labels import FONT, LABEL_CHARS, NOT_GIVEN, drawn, drawn_symbol, largest, works_and_chars

GLYPHS = TTFont(font_manager.findfont(FONT)).getBestCmap()


def test_the_largest_and_the_others_are_the_whole():
    sums = works_and_chars(["b", "a", "b", "-", "c", "d"], [5, 8, 2, 9, 8, 1])
    assert sums == {"b": [7, 2], "a": [8, 1], "-": [9, 1], "c": [8, 1], "d": [1, 1]}
    assert largest(sums, 3) == [(NOT_GIVEN, [9, 1]), ("a", [8, 1]), ("c", [8, 1]), ("others (2)", [8, 3])]
    assert [label for label, _ in largest(sums, 5)] == [NOT_GIVEN, "a", "c", "b", "d"]


def test_decades_are_in_their_order_and_unknown_ones_and_others_last():
    sums = {"1850s": [2], "-": [9], "1790s": [5], "1860s": [1], "1840s": [7]}
    rows = largest(sums, 4, by_name=True)
    assert rows == [("1790s", [5]), ("1840s", [7]), ("1850s", [2]), (NOT_GIVEN, [9]), ("others (1)", [1])]


@settings(max_examples=30)
@given(strange_texts)
def test_a_label_has_only_what_the_font_can_draw_on_one_line(text):
    shown = drawn(text)
    assert len(shown) <= LABEL_CHARS
    assert all(ord(char) in GLYPHS and char.isprintable() for char in shown)
    if all(ord(char) in GLYPHS and char.isprintable() for char in text):
        assert shown == (text if len(text) <= LABEL_CHARS else f"{text[: LABEL_CHARS - 1]}…")


def test_a_symbol_is_shown_as_itself_or_as_its_code_point():
    symbols = {" ": "␣", "\n": "⏎", "ж": "ж", "中": "U+4E2D", "\u00ad": "U+00AD"}
    assert {char: drawn_symbol(char) for char in symbols} == symbols
