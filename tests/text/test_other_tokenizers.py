"""The data stages with tokenizers whose ids are not characters."""

import numpy as np
import pytest
from works import split

from bukva.config.schema import Tokenize
from bukva.corpus.splits.division import spans
from bukva.corpus.splits.encoding import tokenize
from bukva.text.collection import Document, write_collection
from bukva.text.splits import load_splits, read_shares, save_splits
from bukva.text.tokenizers import load_tokenizer
from bukva.text.tokenizers.base import ByteTokenizer
from bukva.text.tokenizers.bpe import BPETokenizer

WORKS = {"a": "мир" * 7, "b": "日本語のテキスト", "c": "war, 1869,\nмир мир"}
SPLITS = [split(0.5, 0.25, 0.25, "tail"), split(0.5, 0.3, 0.2, "contiguous")]
KINDS = {"byte": ByteTokenizer, "bpe": BPETokenizer}


@pytest.fixture
def collection(tmp_path):
    (tmp_path / "clean").mkdir()
    return tmp_path, write_collection(tmp_path / "clean", ((Document("-", "-", n), t) for n, t in WORKS.items()))


def params(kind):
    return Tokenize(kind=kind, vocabulary="all", unknown="error", vocab_size=263)


def split_up(folder, table, split):
    """Return split -> its ids, and split -> the texts of its shares."""
    shares, joined = spans(table, split), "".join(WORKS.values())
    in_ids = read_shares(folder / "tokens")
    save_splits(folder / "split", np.load(folder / "tokens" / "ids.npy"), in_ids)
    ids = load_splits(folder / "split")
    assert in_ids.groupby("split")["ids"].sum().to_dict() == {name: len(of_split) for name, of_split in ids.items()}
    return ids, {name: [joined[start:stop] for start, stop in span] for name, span in shares.items()}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("split", SPLITS)
def test_the_splits_in_ids_decode_to_the_splits_in_characters_by_a_tokenizer_of_train(collection, split, kind):
    folder, table = collection
    encoded = tokenize(folder / "clean", folder / "tokens", params(kind), split)
    ids, texts = split_up(folder, table, split)
    assert encoded.n_ids == sum(map(len, ids.values()))
    assert type(load_tokenizer(folder / "tokens")) is KINDS[kind]
    for name, parts in texts.items():
        text = "".join(parts)
        assert encoded.tokenizer.decode(ids[name]) == text
        assert encoded.tokenizer.chars_of(ids[name]).sum() == len(text)
        n = len(encoded.tokenizer.encode(text[0]))  # the first character is not scored and shares no id with the second
        assert encoded.tokenizer.decode(ids[name][:n]) == text[0]
    learned = KINDS[kind].train(texts["train"], 263).to_json()
    assert encoded.tokenizer.to_json() == learned
    from_all = KINDS[kind].train(WORKS.values(), 263).to_json()
    assert (learned != from_all) == (kind == "bpe")  # bpe learns from train only
