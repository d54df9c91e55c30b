"""Works are summed by label, and figures write what their font can draw."""

from collections import Counter

import pytest
from fontTools.ttLib import TTFont
from hypothesis import given
from hypothesis import strategies as st
from matplotlib import font_manager
from report.strange import strange_texts

from bukva.report.labels import FONT, LABEL_CHARS, NOT_GIVEN, drawn, drawn_symbol, largest, works_and_chars

GLYPHS = TTFont(font_manager.findfont(FONT)).getBestCmap()


def test_the_works_of_a_label_are_counted_with_their_characters():
    assert works_and_chars(["b", "a", "b"], [5, 0, 2]) == {"b": [7, 2], "a": [0, 1]}


@given(st.lists(st.tuples(st.sampled_from("abcdefg-"), st.integers(0, 99)), min_size=1), st.integers(1, 9))
def test_the_largest_and_the_others_are_the_whole(works, most):
    chars = Counter()
    for label, n in works:
        chars[label] += n
    rows = largest(works_and_chars(*zip(*works, strict=True)), most)
    assert [sum(column) for column in zip(*(numbers for _, numbers in rows), strict=True)] == [
        sum(chars.values()),
        len(works),
    ]
    expected = sorted(chars, key=lambda label: (-chars[label], label))[:most]
    assert [label for label, _ in rows][:most] == [NOT_GIVEN if label == "-" else label for label in expected]
    assert [label for label, _ in rows][most:] == ([f"others ({len(chars) - most})"] if len(chars) > most else [])


def test_decades_are_in_their_order_and_unknown_ones_and_others_last():
    sums = {"1850s": [2], "-": [9], "1790s": [5], "1860s": [1], "1840s": [7]}
    rows = largest(sums, 4, by_name=True)
    assert rows == [("1790s", [5]), ("1840s", [7]), ("1850s", [2]), (NOT_GIVEN, [9]), ("others (1)", [1])]


@given(strange_texts)
def test_a_label_has_only_what_the_font_can_draw_on_one_line(text):
    shown = drawn(text)
    assert len(shown) <= LABEL_CHARS
    assert all(ord(char) in GLYPHS and char.isprintable() for char in shown)
    if all(ord(char) in GLYPHS and char.isprintable() for char in text):
        assert shown == (text if len(text) <= LABEL_CHARS else f"{text[: LABEL_CHARS - 1]}…")


@pytest.mark.parametrize(
    ("char", "label"), [(" ", "␣"), ("\n", "⏎"), ("ж", "ж"), ("中", "U+4E2D"), ("\u00ad", "U+00AD"), ("\0", "U+0000")]
)
def test_a_symbol_is_shown_as_itself_or_as_its_code_point(char, label):
    assert drawn_symbol(char) == label
