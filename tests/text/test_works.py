"""The data stages encode works as one array of ids, and divide it."""

import json

import numpy as np
import pytest
from works import saved, split

from bukva.core.errors import BukvaError
from bukva.core.schema import Tokenize
from bukva.corpus.splits import MAX_SYMBOLS, spans, tokenize
from bukva.text.collection import read_table
from bukva.text.ids import load_splits, read_shares, save_splits
from bukva.text.tokenizers import TOKENIZERS, load_tokenizer


def params(kind="char", vocabulary="all"):
    return Tokenize(kind=kind, vocabulary=vocabulary, vocab_size=263)


ALL, TRAIN = params(), params(vocabulary="train")
HALVES = split(0.5, 0.5, 0, "tail")


def collection(folder, *texts):
    """Write works a, b, c ... with these texts to a folder, and return the folder."""
    saved(folder, dict(zip("abcdef", texts, strict=False)))
    return folder


def symbols(first, n):
    return "".join(map(chr, range(0x10000 + first, 0x10000 + first + n)))


def rejection(clean, target, params):
    with pytest.raises(BukvaError) as error:
        tokenize(clean, target, params, HALVES)
    return str(error.value)


def test_the_ids_of_all_works_follow_the_order_of_the_table(tmp_path):
    clean = collection(tmp_path / "clean", "вба", "", "😀\n", "ба")
    assert tokenize(clean, tmp_path / "tokens", ALL, HALVES)[1:] == (7, 0)
    np.save(tmp_path / "ids.npy", np.array([3, 2, 1, 4, 0, 2, 1], np.uint8))
    assert (tmp_path / "tokens" / "ids.npy").read_bytes() == (tmp_path / "ids.npy").read_bytes()
    assert json.loads((tmp_path / "tokens" / "vocab.json").read_text()) == {"chars": ["\n", "а", "б", "в", "😀"]}
    assert sorted(path.name for path in (tmp_path / "tokens").iterdir()) == ["ids.npy", "shares.parquet", "vocab.json"]


@pytest.mark.parametrize("kind", TOKENIZERS)
@pytest.mark.parametrize("split", [split(0.5, 0.25, 0.25, "tail"), split(0.5, 0.3, 0.2, "contiguous")])
def test_the_splits_in_ids_decode_to_the_splits_in_characters(split, kind, tmp_path):
    works = ["мир" * 7, "日本語のテキスト", "war, 1869,\nмир мир"]
    clean, tokens, text = collection(tmp_path / "clean", *works), tmp_path / "tokens", "".join(works)
    tokenizer, n_ids, _ = tokenize(clean, tokens, params(kind), split)
    save_splits(tmp_path / "split", np.load(tokens / "ids.npy"), read_shares(tokens))
    ids = load_splits(tmp_path / "split")
    assert n_ids == sum(map(len, ids.values()))
    assert type(load_tokenizer(tokens)) is TOKENIZERS[kind]
    parts = {name: [text[start:stop] for start, stop in span] for name, span in spans(read_table(clean), split).items()}
    for name, texts in parts.items():
        assert tokenizer.decode(ids[name]) == "".join(texts)
        assert tokenizer.chars_of(ids[name]).sum() == len("".join(texts))
        first = "".join(texts)[0]  # it is not scored, and shares no id with the second character
        assert tokenizer.decode(ids[name][: len(tokenizer.encode(first))]) == first
    learned_from = works if kind == "char" else parts["train"]
    assert tokenizer.to_json() == TOKENIZERS[kind].train(learned_from, 263).to_json()


def test_a_character_that_train_lacks_is_rejected_with_its_work(tmp_path):
    clean = collection(tmp_path / "clean", "абаа", "вгвёѣ")
    tokenize(clean, tmp_path / "tokens", ALL, HALVES)
    message = rejection(clean, tmp_path / "tokens", TRAIN)
    assert message.startswith("-/-/b: not in the vocabulary of 4 characters: 'ё' (U+0451 ")
    assert message.endswith("; use tokenize.vocabulary=all.")
    former = load_tokenizer(tmp_path / "tokens").decode(np.load(tmp_path / "tokens" / "ids.npy"))
    assert former == "абаавгвёѣ"  # the previous outputs are still complete
    alike = collection(tmp_path / "alike", "вбвб", "аба")
    assert tokenize(alike, tmp_path / "tokens", TRAIN, HALVES)[0].chars == ["а", "б", "в"]


def test_more_characters_than_a_model_takes_are_rejected_with_advice(tmp_path):
    clean = collection(tmp_path / "clean", symbols(0, MAX_SYMBOLS), symbols(MAX_SYMBOLS, 1))
    assert rejection(clean, tmp_path / "tokens", ALL) == (
        "The text has 20,001 different characters, but a model supports at most 20,000; "
        "use a text in fewer scripts, or check its encoding."
    )
    assert not (tmp_path / "tokens").exists()
    collection(clean, symbols(0, MAX_SYMBOLS))
    assert len(tokenize(clean, tmp_path / "tokens", ALL, HALVES)[0]) == MAX_SYMBOLS
