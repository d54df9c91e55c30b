"""Every tokenizer is scored over the same characters, so that one axis holds all of them."""

import numpy as np
import pytest
import torch
from works import split as section

from bukva.baselines.compressors import COMPRESSORS
from bukva.config.data import Tokenize
from bukva.config.schema import Evaluate
from bukva.corpus.collection import Document, write_collection
from bukva.corpus.splits.folder import load_lengths, load_splits, read_shares, save_splits
from bukva.encoding.works import tokenize
from bukva.evaluation.held_out import HeldOut
from bukva.evaluation.scores import evaluate, score
from bukva.models.bigram import Bigram, BigramConfig
from bukva.models.gpt import GPT, GPTConfig
from bukva.scoring.characters import text_digest

T = 6
WORKS = {
    "а": "мир и война, война и мир\n" * 41,
    "б": "",
    "в": "日本 — мир 😀 и war\n" * 37 + "мирмирмир",
    "г": "и",
}
SPLITS = {
    "tail": section(0.8, 0.1, 0.1, "tail"),
    "contiguous": section(0.7, 0.15, 0.15, "contiguous"),
}
KINDS = ["char", "byte", "bpe"]
PARAMS = Evaluate(
    short_context=2, context_chars=31, attention_sentence="", attention_windows=3, leak_steps=2, ngram_orders=[3, 4]
)


def held_out(folder, kind, split):
    """The works, encoded and split up by the stages' functions."""
    write_collection(folder / "clean", ((Document("c", "A", name), text) for name, text in WORKS.items()))
    params = Tokenize(kind=kind, vocabulary="all", unknown="error", vocab_size=277)
    found = tokenize(folder / "clean", folder / "tokens", params, split)
    save_splits(folder / "split", np.load(folder / "tokens" / "ids.npy"), read_shares(folder / "tokens"))
    return HeldOut(load_splits(folder / "split"), load_lengths(folder / "split"), found.tokenizer, T)


@pytest.fixture(scope="module", params=SPLITS)
def texts(request, tmp_path_factory):
    """kind -> the text."""
    folders = {kind: tmp_path_factory.mktemp(kind) for kind in KINDS}
    for folder in folders.values():
        (folder / "clean").mkdir()
    return {kind: held_out(folder, kind, SPLITS[request.param]) for kind, folder in folders.items()}


@pytest.fixture(scope="module")
def scores(texts):
    """kind -> what stage evaluate finds, with untrained models that are not flat."""
    found = {}
    for kind, text in texts.items():
        torch.manual_seed(1)
        V = len(text.tokenizer)
        gpt = GPT(GPTConfig(V, 1, 1, 8, T, 0.0)).eval()
        torch.nn.init.normal_(gpt.lm_head.weight)
        found[kind] = evaluate({"bigram": Bigram(BigramConfig(V, T)), "gpt": gpt}, text, PARAMS)
    return found


def test_the_same_characters_of_each_work_are_scored(texts):
    expected = texts["char"].chars
    for split, chars in expected.items():
        assert chars.sum() == len(texts["char"].splits[split]) - 1
        for kind in KINDS:
            assert texts[kind].chars[split].tolist() == chars.tolist()


def test_the_scored_ids_are_the_text_without_its_first_character(texts):
    for split in ("val", "test"):
        text = texts["char"].tokenizer.decode(texts["char"].splits[split])
        for kind in KINDS:
            ids = np.concatenate([passage.scored for passage in texts[kind].passages(split, 3)])
            assert texts[kind].tokenizer.decode(ids) == text[1:]
            assert texts[kind].n_bytes[split] == len(text[1:].encode())


def test_the_digest_of_the_text_is_the_same(texts):
    for split in ("val", "test"):
        assert len({text_digest(text.splits[split], text.tokenizer) for text in texts.values()}) == 1


def test_there_is_a_score_of_each_character(texts, scores):
    for found in scores.values():
        for nats in found.nats.values():
            assert {split: len(values) for split, values in nats.items()} == {
                split: len(texts["char"].splits[split]) - 1 for split in ("val", "test")
            }


def test_bits_per_byte_are_the_bits_of_all_characters_over_all_their_bytes(texts, scores):
    for kind, found in scores.items():
        for split in ("val", "test"):
            text = texts["char"].tokenizer.decode(texts["char"].splits[split])[1:]
            for name in ("bigram", "gpt"):
                bits = found.nats[name][split].sum(dtype=np.float64) / np.log(2)
                fields = found.table[name][split]
                assert fields["bits_per_byte"] == pytest.approx(bits / len(text.encode()), rel=1e-6), kind
                assert fields["bits_per_char"] == pytest.approx(bits / len(text), rel=1e-6)
                assert fields["chars"] == len(text)


def test_the_bits_of_a_text_are_those_of_its_ids(texts, scores):
    """The oracle: the nats of ids by one forward pass of the bigram, which has no windows."""
    for kind, text in texts.items():
        torch.manual_seed(1)
        V = len(text.tokenizer)
        torch.nn.init.normal_(GPT(GPTConfig(V, 1, 1, 8, T, 0.0)).lm_head.weight)  # draws what the fixture drew
        model = Bigram(BigramConfig(V, T))
        for split in ("val", "test"):
            nats = 0.0
            for passage in text.passages(split, 1):
                ids = torch.from_numpy(passage.ids.astype(np.int64))
                logits = model(ids[None, :-1])[0].detach().double()
                nats += float(torch.nn.functional.cross_entropy(logits, ids[1:], reduction="sum"))
            found = scores[kind].table["bigram"][split]
            assert found["nats_per_char"] * found["chars"] == pytest.approx(nats, rel=1e-5)


def test_compressors_do_not_depend_on_the_tokenizer(scores):
    for split in ("val", "test"):
        compressed = [
            {name: value for name, value in found.table["baselines"][split].items() if name in COMPRESSORS}
            for found in scores.values()
        ]
        assert compressed[0].keys() == COMPRESSORS.keys()
        assert compressed[0] == compressed[1] == compressed[2]


def test_the_unit_of_windows_is_what_an_id_stands_for(scores):
    units = {kind: found.table["window"]["unit"] for kind, found in scores.items()}
    assert units == {"char": "character", "byte": "byte", "bpe": "token"}


def test_the_value_of_context_is_over_so_many_characters_at_most_for_each_work(texts, scores):
    for kind, found in scores.items():
        for split, context in found.table["context"].items():
            n = len([chars for chars in texts[kind].chars[split] if chars])
            assert 0 < context["chars"] <= PARAMS.context_chars + n * 4


def test_train_is_scored_by_its_characters(texts):
    for text in texts.values():
        model = Bigram(BigramConfig(len(text.tokenizer), T))
        torch.nn.init.zeros_(model.table.weight)
        train = text.splits["train"]
        uniform = np.log(len(text.tokenizer)) * (len(train) - 1) / text.tokenizer.chars_of(train[1:]).sum()
        assert score(model, [train], text.tokenizer, T, 3).nats_per_char == pytest.approx(uniform, rel=1e-6)
