"""byte and bpe: any text, bytes that are not UTF-8, and how merges are learned."""

import json
import os
import subprocess
import sys
from collections import Counter
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from imports import ROOT

from bukva.tokenizers.bpe import BPETokenizer
from bukva.tokenizers.byte import ByteTokenizer

TRAIN = ["мир и мир\nи мирмир", "the theme then\n\n", "x  \n\n\n\n x  \n\n  y" * 5, "日本日本日本 😀😀"]
BPE = BPETokenizer.train(TRAIN, 283)
BOTH = pytest.mark.parametrize("tokenizer", [ByteTokenizer(), BPE], ids=["byte", "bpe"])

# any Unicode text, much of it of what the merges know
texts = st.text(st.characters(exclude_categories=["Cs"]) | st.sampled_from(" \n\r\t\0мир日😀the\u0308\u2028\U0010ffff"))


# ---- any text


@BOTH
@settings(max_examples=25)
@given(text=texts)
def test_any_text_survives_a_round_trip(tokenizer, text):
    ids = tokenizer.encode(text)
    assert tokenizer.decode(ids) == text
    assert tokenizer.utf8(ids) == text.encode()
    assert tokenizer.chars_of(ids).sum() == len(text)
    assert tokenizer.bytes_of(ids).sum() == len(text.encode())
    assert "".join(tokenizer.parts(ids)) == text


@BOTH
def test_a_text_that_is_encoded_in_pieces_has_the_same_ids(tokenizer, monkeypatch):
    text = "мир и the\n\n 日本😀 x \n" * 11
    whole = tokenizer.encode(text).tolist()
    assert whole == tokenizer.encode(text[: len(text) // 11]).tolist() * 11  # lines are encoded independently
    monkeypatch.setattr("bukva.base.text.PIECE_CHARS", 5)
    assert tokenizer.encode(text).tolist() == whole


# ---- ids that are not UTF-8: a model may write any


@BOTH
@settings(max_examples=25)
@given(data=st.data())
def test_any_ids_are_decoded_as_python_decodes_their_bytes(tokenizer, data):
    ids = data.draw(st.lists(st.integers(0, len(tokenizer) - 1)))
    utf8 = b"".join(tokenizer.tokens[id_] for id_ in ids)
    assert tokenizer.decode(ids) == utf8.decode(errors="replace")
    assert "".join(tokenizer.parts(ids)) == utf8.decode(errors="replace")
    assert len(tokenizer.parts(ids)) == len(ids)


@BOTH
def test_a_part_of_a_character_is_the_replacement_character(tokenizer):
    lead, *others = "я".encode()
    assert tokenizer.decode([lead]) == "\ufffd"
    assert tokenizer.decode([*others, ord("a")]) == "\ufffda"
    assert tokenizer.parts([lead, *others, ord("a")]) == ["я", "", "a"]
    assert [tokenizer.pieces[id_] for id_ in (lead, ord("a"), 0, ord("\n"))] == ["\\xd1", "a", "\\x00", "\n"]


@BOTH
def test_a_character_counts_at_its_first_byte(tokenizer):
    text = "a я 日 😀"
    counts = [int(tokenizer.chars_of([byte]).item()) for byte in text.encode()]
    assert counts == [1, 1, 1, 0, 1, 1, 0, 0, 1, 1, 0, 0, 0]


@BOTH
@pytest.mark.parametrize("ids", [[300], [0, 2**40]])
def test_an_id_outside_the_vocabulary_raises(tokenizer, ids):
    with pytest.raises((IndexError, OverflowError)):
        tokenizer.decode(ids)


# ---- merges


def merged(text, vocab_size):
    """Byte-level BPE of one word in the obvious way: the tokens after 256, as bytes."""
    word, tokens = [bytes([byte]) for byte in text.encode()], []
    while len(tokens) < vocab_size - 256:
        (first, second), n = Counter(pairwise(word)).most_common(1)[0]
        assert list(Counter(pairwise(word)).values()).count(n) == 1  # no tie, or the order is a matter of taste
        tokens.append(first + second)
        joined = []
        while word:
            n_taken = 2 if word[:2] == [first, second] else 1
            joined.append(b"".join(word[:n_taken]))
            word = word[n_taken:]
        word = joined
    return tokens


def test_the_most_frequent_pair_is_merged_first():
    text = "abcabcabcabxabxcab"
    expected = merged(text, 258)
    assert expected == [b"ab", b"cab"]
    assert BPETokenizer.train([text], 258).tokens[256:] == expected


def test_the_bytes_are_the_first_256_ids():
    assert BPE.tokens[:256] == [bytes([byte]) for byte in range(256)]
    assert BPETokenizer([]).encode("мир\n").tolist() == list("мир\n".encode())


def test_nothing_is_merged_across_words_or_lines():
    tokenizer = BPETokenizer.train(["ab\nab\n\n\nab ab ab \n  \n"] * 7, 400)
    assert set(tokenizer.tokens[256:]) == {b"ab", b" ab", b" \n", b"  \n"}
    assert tokenizer.encode("ab\n\n\nab").tolist() == [256, 10, 10, 10, 256]


def test_a_short_text_has_a_smaller_vocabulary_than_asked_for():
    assert len(BPETokenizer.train(["abcd"], 300)) == 256  # every pair comes once
    assert len(BPETokenizer.train(["ab ab"], 300)) == 257


def test_the_vocabulary_is_not_larger_than_asked_for():
    assert len(BPETokenizer.train(TRAIN, 263)) == 263
    assert BPETokenizer.train(TRAIN, 263).merges == BPE.merges[:7]


@pytest.mark.slow
def test_another_process_with_other_threads_learns_the_same_merges():
    program = (
        "import sys, json; from bukva.tokenizers.bpe import BPETokenizer; "
        "texts = [str(n * n) + ' мир' * (n % 7) for n in range(5000)][:: int(sys.argv[1])]; "
        "print(json.dumps(BPETokenizer.train(texts, 997).merges))"
    )
    found = set()
    for threads, step in (("1", "1"), ("2", "-1"), ("3", "1")):
        environment = os.environ | {"PYTHONPATH": str(ROOT / "src"), "RAYON_NUM_THREADS": threads}
        run = subprocess.run([sys.executable, "-c", program, step], env=environment, capture_output=True, check=True)
        found.add(run.stdout)
    assert len(found) == 1
    assert len(json.loads(found.pop())) == 997 - 256
