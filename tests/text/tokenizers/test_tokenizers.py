"""Requirements of every tokenizer. A new tokenizer is tested as soon as it has a line in TOKENIZERS."""

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from bukva.core.errors import BukvaError
from bukva.text.tokenizers import TOKENIZERS, load_tokenizer, save_tokenizer

characters = st.characters(exclude_categories=["Cs"]) | st.sampled_from("ab \0\n\r е\u0308ё😀\U0010ffff")
texts = st.lists(st.text(characters, max_size=20), min_size=1, max_size=4)

pytestmark = pytest.mark.parametrize("kind", TOKENIZERS)


def trained(kind, texts):
    return TOKENIZERS[kind].train(texts, 263)


@settings(max_examples=25)
@given(texts)
@example(["\0\U0010ffff", "е\u0308 ё\r\n"])
def test_the_texts_of_the_training_survive_a_round_trip(kind, texts):
    tokenizer = trained(kind, texts)
    for text in ["", *texts, "".join(texts)]:
        ids = tokenizer.encode(text)
        assert tokenizer.decode(ids) == tokenizer.decode(ids.tolist()) == text
        assert ids.ndim == 1
        assert ids.dtype == tokenizer.dtype == np.min_scalar_type(max(len(tokenizer) - 1, 0))
        assert ids.max(initial=0) < max(len(tokenizer), 1)
        assert tokenizer.chars_of(ids).shape == tokenizer.bytes_of(ids).shape == ids.shape
        assert tokenizer.chars_of(ids).sum() == len(text)
        assert tokenizer.bytes_of(ids).sum() == len(text.encode())
        parts = tokenizer.texts_of(ids)
        assert "".join(parts) == text
        assert list(map(len, parts)) == tokenizer.chars_of(ids).tolist()
    assert [type(piece) for piece in tokenizer.pieces] == [str] * len(tokenizer)


@settings(max_examples=25)
@given(texts, st.randoms(use_true_random=False))
def test_the_order_of_the_texts_does_not_matter(kind, texts, random):
    before = trained(kind, texts).to_json()
    random.shuffle(texts)
    assert trained(kind, iter(texts)).to_json() == before


def test_a_saved_tokenizer_is_loaded_with_its_kind_and_all_that_it_has_learned(kind, tmp_path):
    text = "Ёж и ёж, и 😀\n"
    tokenizer = trained(kind, [text])
    save_tokenizer(tmp_path, tokenizer)
    loaded = load_tokenizer(tmp_path)
    assert type(loaded) is TOKENIZERS[kind]
    assert (loaded.to_json(), loaded.pieces) == (tokenizer.to_json(), tokenizer.pieces)
    assert loaded.encode(text).tolist() == tokenizer.encode(text).tolist()


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
    with pytest.raises(BukvaError) as error:
        load_tokenizer(tmp_path)
    message = str(error.value)
    assert message.startswith(f"{path}: this file is not a vocabulary (")
    assert message.endswith("); rerun stage tokenize.")
    assert "\n" not in message
