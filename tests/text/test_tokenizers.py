"""What every tokenizer promises, and what each of them learns. A new line in TOKENIZERS is tested without a change."""

import re
from collections import Counter
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from bukva.core.errors import BukvaError
from bukva.text.tokenizers import TOKENIZERS, BPETokenizer, ByteTokenizer, CharTokenizer, load_tokenizer, save_tokenizer

TRAIN = ["мир и мир\nи мирмир", "the theme then\n\n", "x  \n\n\n\n x  \n\n  y" * 5, "日本日本日本 😀😀"]
BPE = BPETokenizer.train(TRAIN, 283)
KINDS = pytest.mark.parametrize("kind", TOKENIZERS)
UTF8 = pytest.mark.parametrize("tokenizer", [ByteTokenizer(), BPE], ids=["byte", "bpe"])

# all characters but surrogates, and often those in merges and at the edges of Unicode
characters = st.characters(exclude_categories=["Cs"]) | st.sampled_from(" \n\r\t\0мир日е\u0308ё😀the\u2028\U0010ffff")
texts = st.lists(st.text(characters, max_size=20), min_size=1, max_size=4)


def trained(kind, texts):
    return TOKENIZERS[kind].train(texts, 263)


def check_round_trip(tokenizer, text):
    ids = tokenizer.encode(text)
    assert tokenizer.decode(ids) == tokenizer.decode(ids.tolist()) == text
    assert tokenizer.utf8(ids) == text.encode()
    assert ids.ndim == 1
    assert ids.dtype == tokenizer.dtype == np.min_scalar_type(max(len(tokenizer) - 1, 0))
    assert ids.max(initial=0) < max(len(tokenizer), 1)
    assert tokenizer.chars_of(ids).shape == tokenizer.bytes_of(ids).shape == ids.shape
    assert tokenizer.chars_of(ids).sum() == len(text)
    assert tokenizer.bytes_of(ids).sum() == len(text.encode())
    parts = tokenizer.texts_of(ids)
    assert "".join(parts) == text
    assert list(map(len, parts)) == tokenizer.chars_of(ids).tolist()


@KINDS
@settings(max_examples=25)
@given(texts, st.randoms(use_true_random=False))
@example(["\0\U0010ffff", "е\u0308 ё\r\n"], None)
def test_the_texts_of_the_training_survive_a_round_trip_in_any_order(kind, texts, random):
    tokenizer = trained(kind, texts)
    for text in ["", *texts, "".join(texts)]:
        check_round_trip(tokenizer, text)
    assert [type(piece) for piece in tokenizer.pieces] == [str] * len(tokenizer)
    if random:
        random.shuffle(texts)
    assert trained(kind, iter(texts)).to_json() == tokenizer.to_json()


@KINDS
def test_a_saved_tokenizer_is_loaded_with_its_kind_and_all_that_it_has_learned(kind, tmp_path):
    text = "Ёж и ёж, и 😀\n"
    tokenizer = trained(kind, [text])
    save_tokenizer(tmp_path, tokenizer)
    loaded = load_tokenizer(tmp_path)
    assert type(loaded) is TOKENIZERS[kind]
    assert (loaded.to_json(), loaded.pieces) == (tokenizer.to_json(), tokenizer.pieces)
    assert loaded.encode(text).tolist() == tokenizer.encode(text).tolist()


@KINDS
@pytest.mark.parametrize(
    "content",
    [
        "",
        "null",
        "[]",
        '{"kind": "words"}',
        '{"kind": ["bpe"]}',
        *(f'{{"kind": "KIND", "KEY": {value}}}' for value in ('"ab"', '["b", "a"]', '["a", "a"]', '["abc"]')),
        *(f'{{"kind": "KIND", "KEY": [{value}]}}' for value in ('["a"]', '["a", 1]', '["ab", "c"]', '["a", "я"]')),
    ],
)
def test_a_file_that_is_not_a_vocabulary_is_rejected_in_one_sentence(kind, tmp_path, content):
    path = tmp_path / "vocab.json"
    path.write_text(content.replace("KIND", kind).replace("KEY", "chars" if kind == "char" else "merges"))
    message = rf"^{path}: this file is not a vocabulary \([^\n]*\); rerun stage tokenize\.$"
    with pytest.raises(BukvaError, match=message):
        load_tokenizer(tmp_path)


few = st.sampled_from("\0\n\r е\u0308ё😀\U0010ffff")


@settings(max_examples=50)
@given(st.sets(few, min_size=1).map(sorted), st.text(few, max_size=7))
def test_an_id_is_the_place_in_the_sorted_alphabet_and_an_unknown_character_is_never_encoded(alphabet, text):
    tokenizer = CharTokenizer(alphabet)
    if unknown := [place for place, char in enumerate(text, 1) if char not in alphabet]:
        with pytest.raises(BukvaError, match=rf"first unknown character is number {unknown[0]} of"):
            tokenizer.encode(text)
    else:
        assert tokenizer.encode(text).tolist() == [alphabet.index(char) for char in text]  # the lecture's stoi
    assert CharTokenizer.train([text, "".join(alphabet)]).chars == sorted({*alphabet, *text})
    with pytest.raises(IndexError):
        tokenizer.decode([0, len(alphabet)])


@pytest.mark.parametrize(("n_chars", "bits"), [(0, 8), (256, 8), (257, 16), (65_536, 16), (65_537, 32)])
def test_ids_have_the_smallest_unsigned_type_and_unknown_characters_are_found_in_each(n_chars, bits):
    *known, following = [chr(code) for code in range(0x20000) if not 0xD800 <= code < 0xE000][: n_chars + 1]
    tokenizer = CharTokenizer(known)
    ids = tokenizer.encode("".join(known))
    assert ids.dtype == tokenizer.dtype == np.dtype(f"uint{bits}")
    assert np.array_equal(ids, np.arange(n_chars))
    for unknown in (following, "\U0010ffff"):
        words = rf"U\+{ord(unknown):04X} .* the first unknown character is number {n_chars + 1} of"
        with pytest.raises(BukvaError, match=words):
            tokenizer.encode("".join(known) + unknown)


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


@UTF8
def test_a_text_that_is_encoded_in_pieces_has_the_same_ids(tokenizer, monkeypatch):
    text = "мир и the\n\n 日本😀 x \n" * 11
    whole = tokenizer.encode(text).tolist()
    assert whole == tokenizer.encode(text[: len(text) // 11]).tolist() * 11  # lines are encoded independently
    monkeypatch.setattr("bukva.text.tokenizers.PIECE_CHARS", 5)
    assert tokenizer.encode(text).tolist() == whole


@UTF8
@settings(max_examples=25)
@given(text=st.text(characters), data=st.data())
def test_any_text_survives_a_round_trip_and_any_ids_are_decoded_as_python_decodes_their_bytes(tokenizer, text, data):
    check_round_trip(tokenizer, text)
    ids = data.draw(st.lists(st.integers(0, len(tokenizer) - 1)))
    text = b"".join(tokenizer.tokens[id_] for id_ in ids).decode(errors="replace")
    assert tokenizer.decode(ids) == "".join(tokenizer.texts_of(ids)) == text
    assert len(tokenizer.texts_of(ids)) == len(ids)


@UTF8
def test_a_character_counts_at_its_first_byte(tokenizer):
    assert tokenizer.chars_of(list("a я 日 😀".encode())).tolist() == [1, 1, 1, 0, 1, 1, 0, 0, 1, 1, 0, 0, 0]
    assert tokenizer.texts_of([*"я".encode(), ord("a")]) == ["я", "", "a"]
    assert [tokenizer.pieces[id_] for id_ in ("я".encode()[0], ord("a"), 0, ord("\n"))] == ["\\xd1", "a", "\\x00", "\n"]
    with pytest.raises((IndexError, OverflowError)):
        tokenizer.decode([0, 300])


def test_the_most_frequent_pair_is_merged_first_after_the_256_bytes():
    text = "abcabcabcabxabxcab"
    assert Counter(pairwise(text)).most_common(1) == [(("a", "b"), 6)]
    assert Counter(pairwise(text.replace("ab", "A"))).most_common(1) == [(("c", "A"), 4)]
    tokens = BPETokenizer.train([text], 258).tokens
    assert tokens == [*(bytes([byte]) for byte in range(256)), b"ab", b"cab"]


def test_nothing_is_merged_across_words_or_lines():
    tokenizer = BPETokenizer.train(["ab\nab\n\n\nab ab ab \n  \n"] * 7, 400)
    assert set(tokenizer.tokens[256:]) == {b"ab", b" ab", b" \n", b"  \n"}
    assert tokenizer.encode("ab\n\n\nab").tolist() == [256, 10, 10, 10, 256]


def test_the_vocabulary_is_as_large_as_asked_for_unless_every_pair_comes_once():
    assert [len(BPETokenizer.train([text], 300)) for text in ("abcd", "ab ab")] == [256, 257]
    assert len(BPETokenizer.train(TRAIN, 263)) == 263
    assert BPETokenizer.train(TRAIN, 263).merges == BPE.merges[:7]
