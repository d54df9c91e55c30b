"""Text in pieces, and as arrays of code points."""

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from bukva.base.text import Alphabet, alphabet, code_points, from_code_points, pieces

texts = st.text(st.characters(exclude_categories=["Cs"]) | st.sampled_from("\0\nж\uffff\U00010000\U0010ffff"))


@given(texts)
@example("")
@example("\uffff")
@example("ж\U00010000")
def test_a_text_survives_a_round_trip_through_code_points(text):
    assert code_points(text).tolist() == list(map(ord, text))
    assert from_code_points(code_points(text)) == text


def test_code_points_take_four_bytes_only_beyond_the_basic_plane():
    assert code_points("ж\uffff").dtype == np.uint16
    assert code_points("ж\U00010000").dtype == np.uint32


@pytest.mark.parametrize(
    ("text", "end", "expected"),
    [
        ("", "", []),
        ("абвгдеж", "", ["абв", "где", "ж"]),
        ("абвгде", "", ["абв", "где"]),
        ("а\nбв\nгд\nежзик\n", "\n", ["а\nбв\n", "гд\nежзик\n"]),
        ("абв\nг", "\n", ["абв\n", "г"]),
        ("абвгд", "\n", ["абвгд"]),
    ],
)
def test_a_piece_extends_to_the_next_end(text, end, expected, monkeypatch):
    monkeypatch.setattr("bukva.base.text.PIECE_CHARS", 3)
    assert list(pieces(text, end)) == expected


@given(st.lists(texts, max_size=4))
def test_the_alphabet_of_texts_is_their_characters_sorted(several):
    found = Alphabet()
    for text in several:
        found.add(text)
    assert alphabet(iter(several)) == found.chars == "".join(sorted(set("".join(several))))
