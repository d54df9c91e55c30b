"""Works become one array of ids, with the vocabulary of all splits or of train."""

import json
import tempfile
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from works import split

from bukva.base.errors import BukvaError
from bukva.config.data import Tokenize
from bukva.config.messages import WAY_BACK
from bukva.corpus.collection import TEXT, Document, write_collection
from bukva.corpus.splits.folder import load_splits, read_shares, save_splits
from bukva.encoding.works import MAX_SYMBOLS, tokenize
from bukva.tokenizers import load_tokenizer


def chars(vocabulary, unknown="error"):
    return Tokenize(kind="char", vocabulary=vocabulary, unknown=unknown, vocab_size=257)


ALL, TRAIN = chars("all"), chars("train")
HALVES = split(0.5, 0.5, 0, "tail")


def collection(folder, *texts):
    """Works a, b, c ... of these texts, and the folder they are in."""
    folder.mkdir(parents=True, exist_ok=True)
    write_collection(folder, [(Document("c", "A", work), text) for work, text in zip("abcdef", texts, strict=False)])
    return folder


def joined(target):
    """The text of the ids in a folder."""
    return load_tokenizer(target).decode(np.load(target / "ids.npy"))


def test_the_ids_of_all_works_follow_the_order_of_the_table(tmp_path):
    clean = collection(tmp_path / "clean", "вба", "", "😀\n", "ба")
    found = tokenize(clean, tmp_path / "tokens", ALL, HALVES)
    tokenizer, n_ids = found.tokenizer, found.n_ids
    ids = np.load(tmp_path / "tokens" / "ids.npy")
    assert tokenizer.chars == ["\n", "а", "б", "в", "😀"]
    assert ids.tolist() == [3, 2, 1, 4, 0, 2, 1]
    assert (ids.dtype, n_ids) == (np.dtype("uint8"), 7)
    assert json.loads((tmp_path / "tokens" / "vocab.json").read_text()) == {"chars": tokenizer.chars}
    assert sorted(path.name for path in (tmp_path / "tokens").iterdir()) == ["ids.npy", "shares.parquet", "vocab.json"]


def test_more_than_256_characters_take_two_bytes_each(tmp_path):
    text = "".join(map(chr, range(0x400, 0x501)))
    tokenize(collection(tmp_path / "clean", text), tmp_path / "tokens", ALL, HALVES)
    assert np.load(tmp_path / "tokens" / "ids.npy").dtype == np.dtype("uint16")
    assert joined(tmp_path / "tokens") == text


def test_new_characters_renumber_the_works_before_them(tmp_path):
    few, many = "яюэ", "".join(map(chr, range(0x400, 0x501)))
    more = "".join(map(chr, range(0x10000, 0x10000 + 10_000)))  # beyond the basic plane, in 4 bytes each
    works = [few, "", many, "😀\n", more, few]
    found = tokenize(collection(tmp_path / "clean", *works), tmp_path / "tokens", ALL, HALVES)
    tokenizer, n_ids = found.tokenizer, found.n_ids
    ids = np.load(tmp_path / "tokens" / "ids.npy")
    assert tokenizer.chars == sorted(set("".join(works)))
    assert ids.dtype == np.dtype("uint16")
    assert n_ids == len(ids) == len("".join(works))
    assert joined(tmp_path / "tokens") == "".join(works)
    assert sorted(path.name for path in (tmp_path / "tokens").iterdir()) == ["ids.npy", "shares.parquet", "vocab.json"]


@pytest.mark.parametrize("works", [["ж"], ["", "жж", ""], [""], ["", ""]])
def test_a_vocabulary_of_one_character_or_none_is_enough(works, tmp_path):
    clean = collection(tmp_path / "clean", *works)
    for vocabulary in (ALL, TRAIN) if works == ["", "жж", ""] else (ALL,):
        found = tokenize(clean, tmp_path / "tokens", vocabulary, HALVES)
        tokenizer, n_ids = found.tokenizer, found.n_ids
        assert tokenizer.chars == sorted(set("".join(works)))
        assert np.load(tmp_path / "tokens" / "ids.npy").tolist() == [0] * n_ids == [0] * len("".join(works))


def test_the_vocabulary_of_train_has_the_characters_of_train_only(tmp_path):
    clean = collection(tmp_path / "clean", "абаа", "вгвв")
    tokenizer = tokenize(clean, tmp_path / "tokens", TRAIN, HALVES).tokenizer
    assert tokenizer.chars == ["а", "б", "в", "г"]
    front = split(0.5, 0.5, 0, "contiguous")
    with pytest.raises(BukvaError, match=r"c/A/b: not in the vocabulary of 2 characters: .*'в' \(U\+0432 "):
        tokenize(clean, tmp_path / "tokens", TRAIN, front)


def test_a_character_that_train_lacks_is_rejected_with_its_work(tmp_path):
    clean = collection(tmp_path / "clean", "абаа", "вгвёѣ")
    tokenize(clean, tmp_path / "tokens", ALL, HALVES)
    with pytest.raises(BukvaError) as error:
        tokenize(clean, tmp_path / "tokens", TRAIN, HALVES)
    message = str(error.value)
    assert message.startswith("c/A/b: not in the vocabulary of 4 characters: 'ё' (U+0451 ")
    assert "'ѣ' (U+0463 CYRILLIC SMALL LETTER YAT)" in message
    assert message.endswith(f"; use tokenize.vocabulary all, or tokenize.unknown drop or replace.\n{WAY_BACK}")
    assert joined(tmp_path / "tokens") == "абаавгвёѣ"  # the former outputs are complete


# ---- characters that train lacks, dropped or replaced


@pytest.mark.parametrize(("unknown", "instead"), [("drop", ""), ("replace", "\ufffd")])
def test_characters_that_train_lacks_are_dropped_or_replaced_and_counted(unknown, instead, tmp_path):
    works = ["абаёж", "вгѣвёё\n"]  # the first halves, аб and вгѣ, are train
    found = tokenize(collection(tmp_path / "clean", *works), tmp_path / "tokens", chars("train", unknown), HALVES)
    assert found.tokenizer.alphabet == "".join(sorted("абвгѣ" + instead))
    assert found.n_unknown == len("ёж") + len("ёё\n")
    assert str(found).endswith(f"; 5 characters that train lacks: {unknown}")
    assert joined(tmp_path / "tokens") == "абаxxвгѣвxxx".replace("x", instead)
    shares, ids = read_shares(tmp_path / "tokens"), np.load(tmp_path / "tokens" / "ids.npy")
    rows = shares[shares["split"] == "val"]
    val = [found.tokenizer.decode(ids[at : at + n]) for at, n in zip(rows["first_id"], rows["ids"], strict=True)]
    assert val == ["аxx".replace("x", instead), "вxxx".replace("x", instead)]


@pytest.mark.parametrize("unknown", ["drop", "replace"])
def test_a_text_without_unknown_characters_is_not_changed(unknown, tmp_path):
    clean = collection(tmp_path / "clean", "абаб", "ёё")
    found = tokenize(clean, tmp_path / "tokens", chars("train", unknown), HALVES)
    assert found.n_unknown == 0
    assert joined(tmp_path / "tokens") == "абабёё"


@pytest.mark.parametrize("unknown", ["drop", "replace"])
def test_with_the_vocabulary_of_all_nothing_is_unknown(unknown, tmp_path):
    clean = collection(tmp_path / "clean", "абвг")
    found = tokenize(clean, tmp_path / "tokens", chars("all", unknown), HALVES)
    assert (found.tokenizer.alphabet, found.n_unknown) == ("абвг", 0)


# ---- too many characters


def symbols(first, n):
    """n different characters, none of them a surrogate."""
    return "".join(map(chr, range(0x10000 + first, 0x10000 + first + n)))


@pytest.mark.parametrize("vocabulary", [ALL, TRAIN], ids=["all", "train"])
def test_200_000_different_characters_are_rejected_with_advice(vocabulary, tmp_path):
    clean = collection(tmp_path / "clean", symbols(0, 200_000) * 2)
    with pytest.raises(BukvaError) as error:
        tokenize(clean, tmp_path / "tokens", vocabulary, HALVES)
    assert str(error.value) == (
        "The text has at least 200,000 different characters, but a model takes 20,000 at most; "
        f"use a text in fewer scripts, or check its encoding.\n{WAY_BACK}"
    )
    assert not (tmp_path / "tokens").exists()


def test_exactly_the_limit_of_characters_is_accepted(tmp_path):
    halves = symbols(0, MAX_SYMBOLS // 2), symbols(MAX_SYMBOLS // 2, MAX_SYMBOLS // 2)
    tokenizer = tokenize(collection(tmp_path / "clean", *halves), tmp_path / "tokens", ALL, HALVES).tokenizer
    assert len(tokenizer) == MAX_SYMBOLS
    assert joined(tmp_path / "tokens") == "".join(halves)


def test_too_many_characters_are_rejected_at_the_first_work_above_the_limit(tmp_path):
    clean = collection(tmp_path / "clean", symbols(0, MAX_SYMBOLS), symbols(MAX_SYMBOLS, 1), "unread")
    (clean / TEXT).write_bytes((clean / TEXT).read_bytes()[:-6] + b"\xff")  # reading the third work would raise
    with pytest.raises(BukvaError, match="The text has at least 20,001 different characters"):
        tokenize(clean, tmp_path / "tokens", ALL, HALVES)


def test_new_characters_in_every_work_cost_no_extra_memory(tmp_path):
    """One table per work once took 3 GB and 39 seconds for 4,000 works with four new characters each."""
    works = [(Document("c", "A", f"{n:04}"), symbols(4 * n, 4)) for n in range(1000)]
    (tmp_path / "clean").mkdir()
    write_collection(tmp_path / "clean", works)
    tracemalloc.start()
    try:
        tokenize(tmp_path / "clean", tmp_path / "tokens", ALL, HALVES)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 30e6
    assert joined(tmp_path / "tokens") == "".join(text for _, text in works)


texts = st.lists(st.text("абв\n😀", max_size=8), min_size=1, max_size=4)
strategies = st.sampled_from(["tail", "contiguous"])
fractions = st.sampled_from([(0.5, 0.5, 0.0), (0.8, 0.1, 0.1), (0.3, 0.3, 0.4)])


@settings(max_examples=15)
@given(texts, strategies, fractions)
def test_the_vocabulary_of_train_matches_stage_split_and_covers_all_text_or_is_rejected(texts, strategy, fractions):
    train, val, test = fractions
    chosen = split(train, val, test, strategy)
    with tempfile.TemporaryDirectory() as temporary:
        clean, tokens, splits = (Path(temporary) / name for name in ("clean", "tokens", "split"))
        collection(clean, *texts)
        everything = tokenize(clean, tokens, ALL, chosen).tokenizer
        assert joined(tokens) == "".join(texts)
        save_splits(splits, np.load(tokens / "ids.npy"), read_shares(tokens))
        seen = sorted(set(everything.decode(load_splits(splits)["train"])))
        if seen == everything.chars:
            tokenizer = tokenize(clean, tokens, TRAIN, chosen).tokenizer
            assert tokenizer.chars == seen
        else:
            with pytest.raises(BukvaError, match=f"not in the vocabulary of {len(seen)} characters"):
                tokenize(clean, tokens, TRAIN, chosen)
        assert joined(tokens) == "".join(texts)
