"""What every tokenizer must do: a new one is tested when it has its line in TOKENIZERS."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bukva.base.errors import BukvaError
from bukva.tokenizers import TOKENIZERS, load_tokenizer, save_tokenizer, tokenizer_class

characters = st.characters(exclude_categories=["Cs"]) | st.sampled_from("\0\n\r е\u0308ё😀\U0010ffff")
texts = st.lists(st.text(characters, max_size=20), min_size=1, max_size=4)

pytestmark = pytest.mark.parametrize("kind", TOKENIZERS)


def trained(kind, texts):
    return tokenizer_class(kind).train(texts, 263)


@given(texts)
def test_the_texts_of_the_training_survive_a_round_trip(kind, texts):
    tokenizer = trained(kind, texts)
    for text in ["", *texts, "".join(texts)]:
        ids = tokenizer.encode(text)
        assert tokenizer.decode(ids) == text
        assert tokenizer.decode(ids.tolist()) == text


@given(texts)
def test_ids_are_below_the_size_of_the_vocabulary_in_the_smallest_type(kind, texts):
    tokenizer = trained(kind, texts)
    ids = tokenizer.encode("".join(texts))
    assert ids.ndim == 1
    assert ids.dtype == tokenizer.dtype == np.min_scalar_type(max(len(tokenizer) - 1, 0))
    assert ids.max(initial=0) < max(len(tokenizer), 1)
    assert len(tokenizer.pieces) == len(tokenizer)
    assert all(isinstance(piece, str) for piece in tokenizer.pieces)


@given(texts)
def test_the_characters_of_the_ids_sum_to_those_of_the_text(kind, texts):
    tokenizer = trained(kind, texts)
    for text in ["", *texts]:
        chars = tokenizer.chars_of(tokenizer.encode(text))
        assert chars.shape == tokenizer.encode(text).shape
        assert chars.sum() == len(text)


@given(texts)
def test_the_bytes_of_the_ids_sum_to_those_of_the_text(kind, texts):
    tokenizer = trained(kind, texts)
    for text in ["", *texts]:
        n_bytes = tokenizer.bytes_of(tokenizer.encode(text))
        assert n_bytes.shape == tokenizer.encode(text).shape
        assert n_bytes.sum() == len(text.encode())


@given(texts)
def test_the_parts_of_the_ids_are_the_text_as_its_characters_begin(kind, texts):
    tokenizer = trained(kind, texts)
    for text in ["", *texts]:
        ids = tokenizer.encode(text)
        parts = tokenizer.parts(ids)
        assert "".join(parts) == text
        assert list(map(len, parts)) == tokenizer.chars_of(ids).tolist()


@given(texts, st.randoms(use_true_random=False))
def test_the_order_of_the_texts_does_not_matter(kind, texts, random):
    before = trained(kind, texts).to_json()
    random.shuffle(texts)
    assert trained(kind, iter(texts)).to_json() == before


@given(texts)
def test_json_restores_the_same_tokenizer(kind, texts):
    tokenizer = trained(kind, texts)
    content = json.loads(json.dumps(tokenizer.to_json()))
    restored = tokenizer_class(kind).from_json(content)
    assert restored.to_json() == content
    assert restored.pieces == tokenizer.pieces
    assert restored.encode("".join(texts)).tolist() == tokenizer.encode("".join(texts)).tolist()


def test_a_saved_tokenizer_is_loaded_with_its_kind(kind, tmp_path):
    tokenizer = trained(kind, ["Ёж и 😀\n"])
    save_tokenizer(tmp_path, tokenizer)
    loaded = load_tokenizer(tmp_path)
    assert type(loaded) is tokenizer_class(kind)
    assert loaded.to_json() == tokenizer.to_json()


@given(texts, characters)
def test_knows_agrees_with_encode(kind, texts, char):
    tokenizer = trained(kind, texts)
    assert all(tokenizer.knows(known) for known in "".join(texts))
    assert tokenizer.knows(char) == (tokenizer.alphabet is None or char in tokenizer.alphabet)
    if tokenizer.knows(char):
        assert tokenizer.decode(tokenizer.encode(char)) == char
    else:
        with pytest.raises(BukvaError):
            tokenizer.encode(char)


@pytest.mark.parametrize("content", [{}, {"chars": 1}, {"kind": None}, {"kind": "byte", "a": 1}, {"merges": "ab"}])
def test_other_json_is_rejected(kind, content):
    with pytest.raises((ValueError, KeyError, TypeError)):
        tokenizer_class(kind).from_json(content)
