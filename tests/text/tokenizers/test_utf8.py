"""Tokenizers `byte` and `bpe`: any text, bytes that are not UTF-8, and the learning of merges."""

from collections import Counter
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bukva.text.tokenizers.base import ByteTokenizer
from bukva.text.tokenizers.bpe import BPETokenizer

TRAIN = ["мир и мир\nи мирмир", "the theme then\n\n", "x  \n\n\n\n x  \n\n  y" * 5, "日本日本日本 😀😀"]
BPE = BPETokenizer.train(TRAIN, 283)
BOTH = pytest.mark.parametrize("tokenizer", [ByteTokenizer(), BPE], ids=["byte", "bpe"])

# any Unicode text, with many characters that the merges contain
texts = st.text(st.characters(exclude_categories=["Cs"]) | st.sampled_from(" \n\r\t\0мир日😀the\u0308\u2028\U0010ffff"))


@BOTH
@settings(max_examples=25)
@given(text=texts)
def test_any_text_survives_a_round_trip(tokenizer, text):
    ids = tokenizer.encode(text)
    assert tokenizer.decode(ids) == text
    assert tokenizer.utf8(ids) == text.encode()
    assert tokenizer.chars_of(ids).sum() == len(text)
    assert tokenizer.bytes_of(ids).sum() == len(text.encode())
    assert "".join(tokenizer.texts_of(ids)) == text


@BOTH
def test_a_text_that_is_encoded_in_pieces_has_the_same_ids(tokenizer, monkeypatch):
    text = "мир и the\n\n 日本😀 x \n" * 11
    whole = tokenizer.encode(text).tolist()
    assert whole == tokenizer.encode(text[: len(text) // 11]).tolist() * 11  # lines are encoded independently
    monkeypatch.setattr("bukva.text.tokenizers.bpe.PIECE_CHARS", 5)
    assert tokenizer.encode(text).tolist() == whole


@BOTH
@settings(max_examples=25)
@given(data=st.data())
def test_any_ids_are_decoded_as_python_decodes_their_bytes(tokenizer, data):
    ids = data.draw(st.lists(st.integers(0, len(tokenizer) - 1)))
    utf8 = b"".join(tokenizer.tokens[id_] for id_ in ids)
    assert tokenizer.decode(ids) == utf8.decode(errors="replace")
    assert "".join(tokenizer.texts_of(ids)) == utf8.decode(errors="replace")
    assert len(tokenizer.texts_of(ids)) == len(ids)


@BOTH
def test_a_part_of_a_character_is_the_replacement_character(tokenizer):
    lead, *others = "я".encode()
    assert tokenizer.texts_of([lead, *others, ord("a")]) == ["я", "", "a"]
    assert [tokenizer.pieces[id_] for id_ in (lead, ord("a"), 0, ord("\n"))] == ["\\xd1", "a", "\\x00", "\n"]


@BOTH
def test_a_character_counts_at_its_first_byte(tokenizer):
    assert tokenizer.chars_of(list("a я 日 😀".encode())).tolist() == [1, 1, 1, 0, 1, 1, 0, 0, 1, 1, 0, 0, 0]
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
    assert len(BPETokenizer.train(["abcd"], 300)) == 256
    assert len(BPETokenizer.train(["ab ab"], 300)) == 257
    assert len(BPETokenizer.train(TRAIN, 263)) == 263
    assert BPETokenizer.train(TRAIN, 263).merges == BPE.merges[:7]
