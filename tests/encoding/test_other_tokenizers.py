"""The data stages with a tokenizer whose ids are not characters: UTF-8 bytes, written here as a stand-in."""

import json

import numpy as np
import pytest

from bukva import tokenizers
from bukva.config.schema import Split, Tokenize
from bukva.corpus.collection import Document, write_collection
from bukva.corpus.splits import load_splits, save_splits, sizes, spans_in_ids
from bukva.corpus.strategies import spans
from bukva.encoding.works import tokenize

WORKS = {"a": "Мир\nи war, 1869.\n", "b": "日本語のテキスト", "c": "plain"}
SPLITS = [
    Split(strategy="tail", train=0.5, val=0.25, test=0.25),
    Split(strategy="contiguous", train=0.5, val=0.3, test=0.2),
    Split(strategy="tail", train=0.6, val=0.4, test=0),
]


class ByteTokenizer:
    """One id per UTF-8 byte; a character is counted at its first byte."""

    @classmethod
    def train(cls, texts):
        list(texts)
        return cls()

    @classmethod
    def from_json(cls, _content):
        return cls()

    def to_json(self):
        return {"kind": "byte"}

    def __len__(self):
        return 256

    dtype = np.dtype(np.uint8)
    pieces = tuple(map(chr, range(256)))

    def knows(self, _char):
        return True

    def encode(self, text):
        return np.frombuffer(text.encode(), np.uint8)

    def decode(self, ids):
        return np.asarray(ids, np.uint8).tobytes().decode()

    def chars_of(self, ids):
        return (np.asarray(ids) & 0xC0 != 0x80).astype(np.int64)


@pytest.fixture
def collection(tmp_path, monkeypatch):
    monkeypatch.setitem(tokenizers.TOKENIZERS, "byte", f"{__name__}:ByteTokenizer")
    monkeypatch.setattr(tokenizers, "tokenizer_class", lambda _kind: ByteTokenizer)
    monkeypatch.setattr("bukva.encoding.works.tokenizer_class", lambda _kind: ByteTokenizer)
    (tmp_path / "clean").mkdir()
    return tmp_path, write_collection(tmp_path / "clean", ((Document("-", "-", n), t) for n, t in WORKS.items()))


def kind_of_bytes(vocabulary):
    return Tokenize.model_construct(kind="byte", vocabulary=vocabulary)


@pytest.mark.parametrize("vocabulary", ["all", "train"])
@pytest.mark.parametrize("split", SPLITS)
def test_the_splits_in_ids_decode_to_the_splits_in_characters(collection, split, vocabulary):
    folder, table = collection
    tokenizer, n_ids = tokenize(folder / "clean", folder / "tokens", kind_of_bytes(vocabulary), split)
    assert n_ids == len("".join(WORKS.values()).encode())
    shares, joined = spans(table, split), "".join(WORKS.values())
    in_ids = spans_in_ids(folder / "tokens", shares)
    save_splits(folder / "split", np.load(folder / "tokens" / "ids.npy"), in_ids)
    for name, ids in load_splits(folder / "split").items():
        text = "".join(joined[start:stop] for start, stop in shares[name])
        assert tokenizer.decode(ids) == text
        assert tokenizer.chars_of(ids).sum() == len(text)
        assert sizes(in_ids)[name] == len(ids) == len(text.encode())


def test_the_vocabulary_file_names_the_kind_and_is_read_by_it(collection):
    folder, _ = collection
    tokenize(folder / "clean", folder / "tokens", kind_of_bytes("all"), SPLITS[0])
    assert json.loads((folder / "tokens" / "vocab.json").read_text()) == {"kind": "byte"}
    assert isinstance(tokenizers.load_tokenizer(folder / "tokens" / "vocab.json"), ByteTokenizer)


def test_where_every_id_is_a_character_no_lengths_are_written(collection):
    folder, _ = collection
    write_collection(folder / "clean", ((Document("-", "-", name), "x" * len(text)) for name, text in WORKS.items()))
    tokenize(folder / "clean", folder / "tokens", kind_of_bytes("all"), SPLITS[0])
    assert {file.name for file in (folder / "tokens").iterdir()} == {"ids.npy", "vocab.json"}
