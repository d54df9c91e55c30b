"""The character tokenizer of the lecture notes (requirements of all tokenizers: test_tokenizers.py)."""

import re

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from bukva.core.errors import BukvaError
from bukva.text.tokenizers.char import CharTokenizer

characters = st.characters(exclude_categories=["Cs"])  # surrogates are not characters
alphabets = st.sets(characters | st.sampled_from("\0\n\r е\u0308ё😀\U0010ffff"), min_size=1, max_size=20).map(sorted)


@st.composite
def alphabets_with_texts(draw):
    chars = draw(alphabets)
    return chars, draw(st.text(st.sampled_from(chars), max_size=50))


@settings(max_examples=25)
@given(alphabets_with_texts())
@example((["\0", "\U0010ffff"], "\U0010ffff\0\U0010ffff"))
def test_an_id_is_the_place_of_the_character_in_the_sorted_alphabet(alphabet_with_text):
    chars, text = alphabet_with_text
    tokenizer = CharTokenizer(chars)
    assert tokenizer.encode(text).tolist() == [chars.index(char) for char in text]  # the lecture's stoi
    assert CharTokenizer.train([text, "".join(chars)]).chars == chars


def many(n_chars):
    """Return the first n characters in the order of their code points."""
    return [chr(code) for code in range(0x20000) if not 0xD800 <= code < 0xE000][:n_chars]


@pytest.mark.parametrize(("n_chars", "bits"), [(0, 8), (256, 8), (257, 16), (65_536, 16), (65_537, 32)])
def test_ids_have_the_smallest_unsigned_type_and_unknown_characters_are_found_in_each(n_chars, bits):
    *known, following = many(n_chars + 1)
    tokenizer = CharTokenizer(known)
    ids = tokenizer.encode("".join(known))
    assert ids.dtype == tokenizer.dtype == np.dtype(f"uint{bits}")
    assert np.array_equal(ids, np.arange(n_chars))
    for unknown in (following, "\U0010ffff"):
        with pytest.raises(
            BukvaError, match=rf"U\+{ord(unknown):04X} .* the first unknown character is number {n_chars + 1} of"
        ):
            tokenizer.encode("".join(known) + unknown)


@settings(max_examples=25)
@given(alphabets_with_texts(), characters, st.integers(0, 50))
def test_an_unknown_character_is_never_encoded(alphabet_with_text, char, place):
    chars, text = alphabet_with_text
    tokenizer = CharTokenizer([known for known in chars if known != char])
    place = min(place, text.find(char)) if char in text else min(place, len(text))
    with pytest.raises(BukvaError) as error:
        tokenizer.encode(text[:place] + char + text[place:])
    assert f"U+{ord(char):04X}" in str(error.value)
    assert f"the first unknown character is number {place + 1} of" in str(error.value)


def test_unknown_characters_are_named_with_code_points_and_the_first_position_and_at_most_five():
    with pytest.raises(BukvaError) as error:
        CharTokenizer(["а", "б"]).encode("абѣ\u00a0😀\nба")
    assert str(error.value) == (
        "not in the vocabulary of 2 characters: '\\n' (U+000A without a name), '\\xa0' (U+00A0 NO-BREAK SPACE), "
        "'ѣ' (U+0463 CYRILLIC SMALL LETTER YAT), '😀' (U+1F600 GRINNING FACE); "
        "the first unknown character is number 3 of 'абѣ\\xa0😀\\nба'"
    )
    with pytest.raises(BukvaError) as error:
        CharTokenizer([]).encode("жедгвба")
    assert re.findall(r"'(.)' \(U", str(error.value)) == list("абвгд")
    assert ") and 2 more;" in str(error.value)


def test_an_id_outside_the_vocabulary_raises():
    with pytest.raises(IndexError):
        CharTokenizer(["а", "б"]).decode([0, 2])
