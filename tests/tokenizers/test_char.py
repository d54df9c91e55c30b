"""The character tokenizer maps text to ids and back without loss (test_tokenizers.py: what all tokenizers must do)."""

import json
import re

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from bukva.base.errors import BukvaError
from bukva.base.ids import write_ids
from bukva.base.text import describe
from bukva.tokenizers import load_tokenizer, save_tokenizer
from bukva.tokenizers.char import CharTokenizer

# the 87 symbols of the lecture notes' corpus; invisible and ambiguous ones are written as code points
NOTES = (
    "\n !&,-.:;?i\u00a0\u0300\u0301\u0401\u0406\u0409"
    + "".join(map(chr, range(0x0410, 0x0450)))
    + "\u0451\u0454\u0456\u2013\u2014\u2019"
)

characters = st.characters(exclude_categories=["Cs"])  # surrogates are not characters
alphabets = st.sets(characters | st.sampled_from("\0\n\r е\u0308ё😀\U0010ffff"), max_size=20).map(sorted)


@st.composite
def alphabets_with_texts(draw):
    chars = draw(alphabets.filter(bool))
    return chars, draw(st.text(st.sampled_from(chars), max_size=50))


@given(alphabets_with_texts())
@example((["a"], ""))
@example((["\0", "\U0010ffff"], "\U0010ffff\0\U0010ffff"))
def test_every_text_over_the_alphabet_survives_a_round_trip(alphabet_with_text):
    chars, text = alphabet_with_text
    tokenizer = CharTokenizer(chars)
    ids = tokenizer.encode(text)
    assert ids.shape == (len(text),)
    assert tokenizer.decode(ids) == text
    assert tokenizer.decode(ids.tolist()) == text
    assert ids.tolist() == [chars.index(char) for char in text]  # the lecture's stoi


@given(st.lists(st.text(characters, max_size=10), max_size=4))
def test_ids_are_dense_and_in_the_order_of_code_points(texts):
    tokenizer = CharTokenizer.train(texts)
    assert tokenizer.chars == sorted(set("".join(texts)))
    assert len(tokenizer) == len(tokenizer.chars)
    assert tokenizer.encode("".join(tokenizer.chars)).tolist() == list(range(len(tokenizer)))


@given(st.lists(st.text(characters, max_size=10), max_size=4), st.randoms(use_true_random=False))
def test_the_order_of_texts_does_not_matter(texts, random):
    chars = CharTokenizer.train(texts).chars
    random.shuffle(texts)
    assert CharTokenizer.train(iter(texts)).chars == chars


def test_the_line_of_the_lecture_notes_has_their_ids():
    assert len(NOTES) == 87
    tokenizer = CharTokenizer(list(NOTES))
    printed = "29 63 58 1 53 80 53 80 1 66 49 61 76 70 1 72 54 66 67 62 76 70 1 64 65 49 51 57 60"
    assert tokenizer.encode("Мой дядя самых честных правил").tolist() == [int(id_) for id_ in printed.split()]
    assert [tokenizer.encode(char).item() for char in " \nи"] == [1, 0, 57]


def many(n_chars):
    """The first n characters, in the order of their code points."""
    return [chr(code) for code in range(0x20000) if not 0xD800 <= code < 0xE000][:n_chars]


SIZES = [(0, 8), (1, 8), (2, 8), (255, 8), (256, 8), (257, 16), (65_535, 16), (65_536, 16), (65_537, 32), (70_000, 32)]


@pytest.mark.parametrize(("n_chars", "bits"), SIZES)
def test_ids_have_the_smallest_unsigned_type(n_chars, bits):
    tokenizer = CharTokenizer(many(n_chars))
    ids = tokenizer.encode("".join(tokenizer.chars))
    assert ids.dtype == tokenizer.dtype == np.dtype(f"uint{bits}")
    assert np.array_equal(ids, np.arange(n_chars))
    assert tokenizer.encode("").dtype == tokenizer.dtype


# ---- unknown characters


@given(alphabets_with_texts(), characters, st.integers(0, 50))
def test_an_unknown_character_is_never_encoded(alphabet_with_text, char, place):
    chars, text = alphabet_with_text
    tokenizer = CharTokenizer([known for known in chars if known != char])
    place = min(place, text.find(char)) if char in text else min(place, len(text))
    with pytest.raises(BukvaError) as error:
        tokenizer.encode(text[:place] + char + text[place:])
    assert f"U+{ord(char):04X}" in str(error.value)
    assert f"the first is character {place + 1} of" in str(error.value)


@pytest.mark.parametrize(("n_chars", "_"), SIZES)
def test_an_unknown_character_is_found_for_every_type_of_ids(n_chars, _):
    *known, following = many(n_chars + 1)
    for unknown in (following, "\U0010ffff"):
        with pytest.raises(BukvaError, match=rf"U\+{ord(unknown):04X} .* the first is character {n_chars + 1} of"):
            CharTokenizer(known).encode("".join(known) + unknown)


def test_an_unknown_character_is_named_with_its_code_point_and_position():
    with pytest.raises(BukvaError) as error:
        CharTokenizer(["а", "б"]).encode("абѣ\u00a0😀ба")
    assert str(error.value) == (
        "not in the vocabulary of 2 characters: '\\xa0' (U+00A0 NO-BREAK SPACE), "
        "'ѣ' (U+0463 CYRILLIC SMALL LETTER YAT), '😀' (U+1F600 GRINNING FACE); "
        "the first is character 3 of 'абѣ\\xa0😀ба'"
    )


def test_at_most_five_unknown_characters_are_named():
    with pytest.raises(BukvaError) as error:
        CharTokenizer([]).encode("жедгвба")
    assert re.findall(r"'(.)' \(U", str(error.value)) == list("абвгд")
    assert ") and 2 more;" in str(error.value)


def test_a_character_without_a_name_is_described_too():
    assert describe("\n") == "'\\n' (U+000A without a name)"


@pytest.mark.parametrize("chars", [["б", "а"], ["а", "а"], ["аб"], [""], ["\u0438\u0306"]])
def test_an_invalid_alphabet_is_rejected(chars):
    with pytest.raises(ValueError, match="single characters, sorted, each once"):
        CharTokenizer(chars)


@pytest.mark.parametrize("ids", [[2], [0, 300], [2**40]])
def test_an_id_outside_the_vocabulary_raises(ids):
    with pytest.raises(IndexError):
        CharTokenizer(["а", "б"]).decode(ids)


# ---- files


@pytest.mark.parametrize("dtype", [np.uint8, np.uint16, np.uint32])
@pytest.mark.parametrize("lengths", [[], [0], [3, 0, 2]])
def test_ids_written_in_pieces_are_the_file_that_numpy_writes(tmp_path, dtype, lengths):
    pieces = [np.arange(n, dtype=dtype) for n in lengths]
    write_ids(tmp_path / "pieces.npy", np.dtype(dtype), sum(lengths), iter(pieces))
    np.save(tmp_path / "whole.npy", np.concatenate([np.empty(0, dtype), *pieces]))
    assert (tmp_path / "pieces.npy").read_bytes() == (tmp_path / "whole.npy").read_bytes()


@settings(max_examples=30)
@given(chars=alphabets)
def test_a_vocabulary_survives_a_round_trip(tmp_path_factory, chars):
    folder = tmp_path_factory.getbasetemp()
    save_tokenizer(folder, CharTokenizer(chars))
    assert load_tokenizer(folder).pieces == chars


def test_the_file_is_readable_json(tmp_path):
    save_tokenizer(tmp_path, CharTokenizer(["\n", "а", "😀"]))
    text = (tmp_path / "vocab.json").read_text(encoding="utf-8")
    assert json.loads(text) == {"chars": ["\n", "а", "😀"]}
    assert '"а"' in text


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"[1",
        b"{}",
        b"[]",
        b"3",
        b"null",
        b'{"chars": null}',
        b'{"chars": "ab"}',
        b'{"chars": {"a": 0}}',
        b'{"chars": [1]}',
        b'{"chars": [["a"]]}',
        b'{"chars": [{"a": 1}]}',
        b'{"chars": ["ab"]}',
        b'{"chars": ["b", "a"]}',
        b'{"chars": ["a", "a"]}',
        '{"chars": ["а"]}'.encode("cp1251"),
    ],
)
def test_a_file_that_is_not_a_vocabulary_is_rejected_in_one_sentence(tmp_path, content):
    path = tmp_path / "vocab.json"
    path.write_bytes(content)
    with pytest.raises(BukvaError) as error:
        load_tokenizer(tmp_path)
    message = str(error.value)
    assert message.startswith(f"{path}: not a vocabulary (")
    assert message.endswith("); rerun stage tokenize.")
    assert "\n" not in message
