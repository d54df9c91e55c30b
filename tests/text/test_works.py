"""Encoding of works as one array of ids by the character tokenizer (others: test_other_tokenizers.py)."""

import json
import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from works import split

from bukva.config.schema import Tokenize
from bukva.core.errors import BukvaError
from bukva.corpus.splits.encoding import MAX_SYMBOLS, tokenize
from bukva.text.collection import Document, write_collection
from bukva.text.splits import load_splits, read_shares, save_splits
from bukva.text.tokenizers import load_tokenizer


def chars(vocabulary, unknown="error"):
    return Tokenize(kind="char", vocabulary=vocabulary, unknown=unknown, vocab_size=257)


ALL, TRAIN = chars("all"), chars("train")
HALVES = split(0.5, 0.5, 0, "tail")


def collection(folder, *texts):
    """Write works a, b, c ... with these texts to a folder, and return the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    write_collection(folder, [(Document("c", "A", work), text) for work, text in zip("abcdef", texts, strict=False)])
    return folder


def symbols(first, n):
    """Return n different characters of four bytes each."""
    return "".join(map(chr, range(0x10000 + first, 0x10000 + first + n)))


def joined(target):
    """Return the text of the ids in a folder."""
    return load_tokenizer(target).decode(np.load(target / "ids.npy"))


def rejection(clean, target, params):
    with pytest.raises(BukvaError) as error:
        tokenize(clean, target, params, HALVES)
    return str(error.value)


def test_the_ids_of_all_works_follow_the_order_of_the_table(tmp_path):
    clean = collection(tmp_path / "clean", "вба", "", "😀\n", "ба")
    encoded = tokenize(clean, tmp_path / "tokens", ALL, HALVES)
    ids = np.load(tmp_path / "tokens" / "ids.npy")
    assert ids.tolist() == [3, 2, 1, 4, 0, 2, 1]
    assert (ids.dtype, encoded.n_ids) == (np.dtype("uint8"), 7)
    assert json.loads((tmp_path / "tokens" / "vocab.json").read_text()) == {"chars": ["\n", "а", "б", "в", "😀"]}
    assert sorted(path.name for path in (tmp_path / "tokens").iterdir()) == ["ids.npy", "shares.parquet", "vocab.json"]


def test_new_characters_renumber_the_works_before_them(tmp_path):
    works = ["яюэ", "", "".join(map(chr, range(0x400, 0x501))), "😀\n", symbols(0, 10_000), "яюэ"]
    encoded = tokenize(collection(tmp_path / "clean", *works), tmp_path / "tokens", ALL, HALVES)
    ids = np.load(tmp_path / "tokens" / "ids.npy")
    assert encoded.tokenizer.chars == sorted(set("".join(works)))
    assert ids.dtype == np.dtype("uint16")
    assert encoded.n_ids == len(ids) == len("".join(works))
    assert joined(tmp_path / "tokens") == "".join(works)


@pytest.mark.parametrize("params", [ALL, TRAIN])
def test_the_file_of_ids_is_that_of_numpy(params, tmp_path):
    clean = collection(tmp_path / "clean", "вбавба", "аб—вва\U00010000", "ба\nв—\U00010000ба\n")
    halves = split(0.9, 0.1, 0, "contiguous")
    tokenize(clean, tmp_path / "whole", params, halves)
    np.save(tmp_path / "whole.npy", np.load(tmp_path / "whole" / "ids.npy"))
    assert (tmp_path / "whole.npy").read_bytes() == (tmp_path / "whole" / "ids.npy").read_bytes()


def test_a_character_that_train_lacks_is_rejected_with_its_work(tmp_path):
    clean = collection(tmp_path / "clean", "абаа", "вгвёѣ")
    tokenize(clean, tmp_path / "tokens", ALL, HALVES)
    message = rejection(clean, tmp_path / "tokens", TRAIN)
    assert message.startswith("c/A/b: not in the vocabulary of 4 characters: 'ё' (U+0451 ")
    assert "'ѣ' (U+0463 CYRILLIC SMALL LETTER YAT)" in message
    assert message.endswith("; use tokenize.vocabulary=all, or tokenize.unknown=drop or replace.")
    assert joined(tmp_path / "tokens") == "абаавгвёѣ"  # the previous outputs are still complete


@pytest.mark.parametrize(("unknown", "instead"), [("drop", ""), ("replace", "\ufffd")])
def test_characters_that_train_lacks_are_dropped_or_replaced_and_counted(unknown, instead, tmp_path):
    works = ["абаёж", "вгѣвёё\n"]  # the first halves, аб and вгѣ, are train
    encoded = tokenize(collection(tmp_path / "clean", *works), tmp_path / "tokens", chars("train", unknown), HALVES)
    assert encoded.tokenizer.alphabet == "".join(sorted("абвгѣ" + instead))
    assert encoded.n_unknown == len("ёж") + len("ёё\n")
    assert joined(tmp_path / "tokens") == "абаxxвгѣвxxx".replace("x", instead)
    shares, ids = read_shares(tmp_path / "tokens"), np.load(tmp_path / "tokens" / "ids.npy")
    rows = shares[shares["split"] == "val"]
    val = [encoded.tokenizer.decode(ids[at : at + n]) for at, n in zip(rows["first_id"], rows["ids"], strict=True)]
    assert val == ["аxx".replace("x", instead), "вxxx".replace("x", instead)]


texts = st.lists(st.text("абв\n😀", max_size=8), min_size=1, max_size=4)
splits = st.sampled_from([split(0.8, 0.1, 0.1, "tail"), split(0.5, 0.5, 0, "contiguous"), split(0.3, 0.3, 0.4, "tail")])


@settings(max_examples=10)
@given(texts, splits)
def test_the_vocabulary_of_train_matches_stage_split_and_covers_all_text_or_is_rejected(texts, chosen):
    with tempfile.TemporaryDirectory() as temporary:
        clean, tokens, folder = (Path(temporary) / name for name in ("clean", "tokens", "split"))
        collection(clean, *texts)
        everything = tokenize(clean, tokens, ALL, chosen).tokenizer
        assert joined(tokens) == "".join(texts)
        save_splits(folder, np.load(tokens / "ids.npy"), read_shares(tokens))
        seen = sorted(set(everything.decode(load_splits(folder)["train"])))
        if seen == everything.chars:
            assert tokenize(clean, tokens, TRAIN, chosen).tokenizer.chars == seen
        else:
            with pytest.raises(BukvaError, match=f"not in the vocabulary of {len(seen)} characters"):
                tokenize(clean, tokens, TRAIN, chosen)
        assert joined(tokens) == "".join(texts)


def test_more_characters_than_a_model_takes_are_rejected_with_advice(tmp_path):
    clean = collection(tmp_path / "clean", symbols(0, MAX_SYMBOLS), symbols(MAX_SYMBOLS, 1))
    assert rejection(clean, tmp_path / "tokens", ALL) == (
        "The text has 20,001 different characters, but a model supports at most 20,000; "
        "use a text in fewer scripts, or check its encoding."
    )
    assert not (tmp_path / "tokens").exists()
    collection(clean, symbols(0, MAX_SYMBOLS))
    assert len(tokenize(clean, tmp_path / "tokens", ALL, HALVES).tokenizer) == MAX_SYMBOLS
