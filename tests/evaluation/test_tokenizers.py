"""Every tokenizer is scored over the same characters, so that one axis holds all of them."""

from hashlib import sha256

import numpy as np
import pytest
import torch
from encoded import KINDS, SPLITS, T, held_out

from bukva.core.schema import Evaluate
from bukva.evaluation.baselines import compress
from bukva.evaluation.baselines import score as score_baselines
from bukva.evaluation.compressors import COMPRESSORS
from bukva.evaluation.scores import evaluate
from bukva.models.bigram import Bigram, BigramConfig
from bukva.models.gpt import GPT, GPTConfig
from bukva.models.ngrams.counts import bits_of_train
from bukva.models.ngrams.kneser_ney import KneserNey
from bukva.models.window_rule import nats_of

PARAMS = Evaluate(short_context=2)


def evaluated(models, text):
    """What stage evaluate finds, with n-grams of orders 3 and 4."""
    ngrams = KneserNey.count(text.splits["train"], len(text.tokenizer), 4)
    return evaluate(models, text, PARAMS, score_baselines(text, ngrams, compress(text)))


@pytest.fixture(scope="module", params=SPLITS)
def texts(request, tmp_path_factory):
    """kind -> the text."""
    return {kind: held_out(tmp_path_factory.mktemp(kind), kind, request.param) for kind in KINDS}


@pytest.fixture(scope="module")
def scores(texts):
    """kind -> what stage evaluate finds, and its bigram; models are untrained, but not flat."""
    found = {}
    for kind, text in texts.items():
        torch.manual_seed(1)
        V = len(text.tokenizer)
        gpt, bigram = GPT(GPTConfig(V, 1, 1, 8, T, 0.0)).eval(), Bigram(BigramConfig(V, T))
        torch.nn.init.normal_(gpt.lm_head.weight)
        found[kind] = evaluated({"bigram": bigram, "gpt": gpt}, text), bigram
    return found


@pytest.mark.parametrize("split", ["val", "test"])
def test_the_same_characters_of_each_work_are_scored_all_but_the_first_of_the_split(texts, split):
    chars = texts["char"].chars[split].tolist()
    text = texts["char"].tokenizer.decode(texts["char"].splits[split])
    assert sum(chars) == len(text) - 1
    for kind in KINDS:
        ids = np.concatenate([passage.scored for passage in texts[kind].passages(split, 3)])
        assert texts[kind].chars[split].tolist() == chars
        assert texts[kind].tokenizer.decode(ids) == text[1:]
        assert texts[kind].describe()["text"][split] == sha256(text.encode()).hexdigest()


@pytest.mark.parametrize("split", ["val", "test"])
def test_bits_are_those_of_all_ids_over_all_characters_and_over_all_their_bytes(texts, scores, split):
    """The oracle: one forward pass of the bigram, which has no windows."""
    text = texts["char"].tokenizer.decode(texts["char"].splits[split])[1:]
    for kind, (found, bigram) in scores.items():
        bits = 0.0
        for passage in texts[kind].passages(split, 1):
            ids = torch.from_numpy(passage.ids.astype(np.int64))
            logits = bigram(ids[None, :-1])[0].detach().double()
            bits += float(torch.nn.functional.cross_entropy(logits, ids[1:], reduction="sum")) / np.log(2)
        fields = found.table["bigram"][split]
        assert fields["bits_per_char"] == pytest.approx(bits / len(text), rel=1e-5)
        assert fields["bits_per_byte"] == pytest.approx(bits / len(text.encode()), rel=1e-5), kind
        uniform = np.log2(len(texts[kind].tokenizer)) * len(texts[kind].splits[split]) / (len(text) + 1)
        assert found.table["baselines"][split]["uniform"] == pytest.approx(uniform)
        assert {name: len(nats[split]) for name, nats in found.nats.items()} == dict.fromkeys(found.nats, len(text))


def test_train_is_scored_by_its_characters(texts, scores):
    for kind, (found, bigram) in scores.items():
        ids, tokenizer = texts[kind].splits["train"], texts[kind].tokenizer
        chars = len(tokenizer.decode(ids)) - 1
        nats = nats_of(bigram, ids, T, 3).sum(dtype=np.float64)
        assert found.table["bigram"]["train"]["nats_per_char"] == pytest.approx(nats / chars, rel=1e-5)
        per_id = bits_of_train(ids, len(tokenizer))["unigram"]
        unigram = per_id * (len(ids) - 1) / chars
        assert found.table["baselines"]["train"]["unigram"] == pytest.approx(unigram, rel=1e-9)


def test_what_does_not_depend_on_the_tokenizer_is_the_same_and_its_unit_is_named(scores):
    tables = {kind: found.table for kind, (found, _) in scores.items()}
    assert [tables[kind]["window"]["unit"] for kind in KINDS] == ["character", "byte", "token"]
    for split in ("val", "test"):
        compressed = [[table["baselines"][split][name] for name in COMPRESSORS] for table in tables.values()]
        assert compressed[0] == compressed[1] == compressed[2]
