"""UTF-8 becomes code points and back as Python does it, and what Python rejects is rejected."""

import itertools

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from bukva.text.characters import code_points
from bukva.text.utf8 import alphabet, decoded, encoded

chars = st.sampled_from("\0\nz\x7f\x80жё\u07ff\u0800—\ud7ff\ue000\ufeff\uffff") | st.characters(
    exclude_categories=["Cs"]
)
texts = st.lists(chars | st.just("и\u0306"), max_size=50).map("".join)


def decoded_by_python(utf8):
    try:
        return [*map(ord, utf8.decode())]
    except UnicodeDecodeError as error:
        return error.reason


def decoded_by_us(utf8):
    try:
        return decoded(utf8).tolist()
    except UnicodeDecodeError as error:
        return error.reason


@settings(max_examples=100)
@given(texts)
@example("")
@example("😀ж—z\U0010ffff")
def test_a_text_survives_a_round_trip(text):
    assert decoded(text.encode()).tolist() == [*map(ord, text)]
    assert encoded(decoded(text.encode())) == encoded(code_points(text)) == text.encode()


@settings(max_examples=50)
@given(texts, st.binary(max_size=3))
def test_a_text_that_is_cut_at_any_byte_is_what_python_says(text, damage):
    utf8 = text.encode()
    for cut in range(len(utf8) + 1):
        for bytes_ in (utf8[:cut], utf8[cut:], utf8[:cut] + damage + utf8[cut:]):
            assert decoded_by_us(bytes_) == decoded_by_python(bytes_)


EDGES = bytes.fromhex("0a 7f 80 8f 90 9f a0 bf c0 c1 c2 df e0 e1 ec ed ee ef f0 f4 f5 ff")


@pytest.mark.parametrize("length", range(4))
def test_all_sequences_of_bytes_at_the_edges_of_utf8_are_what_python_says(length):
    for utf8 in map(bytes, itertools.product(EDGES, repeat=length)):
        assert decoded_by_us(utf8) == decoded_by_python(utf8)


def test_every_character_of_the_basic_plane_has_the_bytes_that_python_gives_it():
    codes = np.array([code for code in range(2**16) if not 0xD800 <= code < 0xE000], np.uint16)
    utf8 = "".join(map(chr, codes.tolist())).encode()
    assert encoded(codes) == utf8
    assert decoded(utf8).tolist() == codes.tolist()


def test_the_alphabet_of_texts_is_their_characters_sorted():
    assert alphabet(map(code_points, ["бв", "", "ба\U00010000\n"])) == "\nабв\U00010000"
