"""The scores of models and baselines: which text is scored, in which unit, and the value of context."""

import math
from hashlib import sha256

import numpy as np
import pytest
import torch
from encoded import KINDS, SPLITS, held_out

from bukva.core.schema import Evaluate
from bukva.evaluation.baselines import compress
from bukva.evaluation.baselines import score as score_baselines
from bukva.evaluation.compressors import COMPRESSORS
from bukva.models.bigram import Bigram, BigramConfig
from bukva.models.gpt import GPT, GPTConfig
from bukva.models.ngram_gpt import NgramGPT
from bukva.models.ngrams.counts import bits_of_train, count_pairs, scorers
from bukva.models.ngrams.kneser_ney import KneserNey
from bukva.scoring import scores as module
from bukva.scoring import window_rule
from bukva.scoring.scores import counted_accuracy, evaluate, headline, sampled, value_of_context
from bukva.scoring.window_rule import evenly_spaced, nats_of, nats_of_passages
from bukva.text.held_out import HeldOut
from bukva.text.tokenizers import CharTokenizer

V, T = 5, 6
TOKENIZER = CharTokenizer(list("абвгд"))
WORKS = {"train": [2011, 1980, 9], "val": [101, 109, 1], "test": [41, 43, 13]}  # ids of each of three works
PARAMS = Evaluate(short_context=2)


def evaluated(models, text, params=PARAMS):
    """What stage evaluate finds, with n-grams of orders 3 and 4."""
    ngrams = KneserNey.count(text.splits["train"], len(text.tokenizer), 4)
    return evaluate(models, text, params, score_baselines(text, ngrams, compress(text)))


def text(*names):
    names, splits = names or tuple(WORKS), {}
    for i, name in enumerate(names):
        splits[name] = np.random.default_rng(i).integers(V, size=sum(WORKS[name])).astype(np.uint8)
    return HeldOut(splits, {name: np.array(WORKS[name]) for name in names}, TOKENIZER)


def models():
    torch.manual_seed(1)
    gpt = GPT(GPTConfig(V, 1, 1, 8, T, 0.0)).eval()
    torch.nn.init.normal_(gpt.wpe.weight)  # so that every position matters
    torch.nn.init.normal_(gpt.lm_head.weight)
    return {"bigram": Bigram(BigramConfig(V, 8)), "gpt": gpt}


@pytest.fixture(scope="module")
def scores():
    return evaluated(models(), text())


def test_scores_are_means_over_all_characters(scores):
    table = scores.table
    for name in ("bigram", "gpt"):
        for split, chars in (("val", 210), ("test", 96)):
            fields, nats = table[name][split], scores.nats[name][split].mean(dtype=np.float64)
            assert fields.keys() == {"nats_per_char", "bits_per_char", "bits_per_byte", "chars", "accuracy"}
            assert (fields["nats_per_char"], fields["chars"]) == (nats, chars)
    assert table["bigram"]["train"]["chars"] == 3999
    assert 211 <= table["gpt"]["train"]["chars"] < 300  # as much as val has
    assert table["baselines"]["train"] == bits_of_train(text().splits["train"], V)
    assert table["baselines"]["val"]["uniform"] == math.log2(V)


def test_the_headline_is_the_bits_of_the_models_and_of_the_best_n_gram_on_val(scores):
    best = min(("ngram_3", "ngram_4"), key=lambda name: scores.nats[name]["val"].mean())
    found = headline(scores.table, ["gpt", "bigram"])
    assert list(found) == ["gpt", "bigram", "counted"]
    for key, name in (("gpt", "gpt"), ("bigram", "bigram"), ("counted", best)):
        means = {split: nats.mean(dtype=np.float64) / np.log(2) for split, nats in scores.nats[name].items()}
        accuracy = {} if key == "counted" else {"accuracy": scores.table[key]["val"]["accuracy"]}
        assert found[key] == pytest.approx(means | accuracy)
        assert list(found[key]) == ["val", "test", *accuracy]


def test_a_split_of_fraction_zero_is_absent():
    found = evaluated(models(), text("train", "val"))
    assert all("test" not in found.table[key] for key in ("bigram", "gpt", "baselines", "context"))
    assert [list(scores) for scores in headline(found.table, ["gpt"]).values()] == [["val", "accuracy"], ["val"]]


def own_texts(held_out):
    """The ids of each work in all splits, and where the first of them in the last split is that is scored."""
    for work in range(3):
        parts = [np.split(ids, np.cumsum(WORKS[name]))[work] for name, ids in held_out.splits.items()]
        yield np.concatenate(parts), sum(map(len, parts[:-1])) + (work == 0)


def test_each_work_is_scored_after_its_own_text_and_never_after_another(scores):
    """The oracle: each character alone, after the preceding text of its work as far as the window reaches."""
    held_out, (learned, gpt) = text(), models().values()
    train = held_out.splits["train"]
    bigram, ngrams = scorers(train, V)["bigram_exact"], KneserNey.count(train, V, 4)
    expected, right, bigram_right = {"gpt": [], "bigram_exact": [], "ngram_4": []}, 0, 0
    for own, start in own_texts(held_out):
        for i in range(start, len(own)):
            # windows move by 3; the first one begins 4 characters before the first that is scored
            first = start - 4 + 3 * max(0, -(-(i - start + 4 - T) // 3))
            window = torch.from_numpy(own[max(first, 0) : i].astype(np.int64))[None]
            logits = gpt(window)[0, -1]
            expected["gpt"].append(-logits.log_softmax(-1)[int(own[i])].item())
            right += int(logits.argmax() == own[i])
            bigram_right += int(learned(window[:, -1:])[0, -1].argmax() == own[i])
            expected["bigram_exact"].append(bigram(own[i - 1 : i + 1])[0])
            expected["ngram_4"].append(ngrams.nats_by_order(own[i - 3 : i + 1], [4])[4][-1])
    for name, nats in expected.items():
        np.testing.assert_allclose(scores.nats[name]["test"], nats, rtol=1e-4, err_msg=name)
        if name != "gpt":
            bits = scores.nats[name]["test"].mean(dtype=np.float64) / math.log(2)
            assert scores.table["baselines"]["test"][name] == pytest.approx(bits)
    accuracy = [scores.table[name]["test"]["accuracy"] for name in ("gpt", "bigram")]
    assert accuracy == pytest.approx([right / 96, bigram_right / 96])


@pytest.mark.parametrize("counts", [False, True])
def test_short_context_means_exactly_that_many_characters_of_the_same_work(counts):
    held_out = text("train", "val")
    all_models = with_memory(held_out.splits["train"]) if counts else models()
    gpt = all_models["gpt"]
    nats = []
    for own, start in own_texts(held_out):
        for i in range(start, len(own)):
            window = torch.from_numpy(own[i - 2 : i].astype(np.int64))[None]
            nats.append(-gpt(window)[0, -1].log_softmax(-1)[int(own[i])].item())
    whole = evaluated(all_models, held_out).nats["gpt"]["val"]
    value = value_of_context(gpt, whole, held_out, "val", PARAMS)
    short, full = np.mean(nats) / np.log(2), whole.mean(dtype=float) / np.log(2)
    assert value["chars"] == len(nats) == 210
    assert value["short_bits_per_char"] == pytest.approx(short, abs=1e-5)
    assert value["full_bits_per_char"] == pytest.approx(full)
    assert value["gain_bits_per_char"] == pytest.approx(short - full, abs=1e-5)


def with_memory(train):
    """The models, of which the GPT counts train and its network is as far from flat as that of `models`."""
    torch.manual_seed(1)
    gpt = NgramGPT(GPTConfig(V, 1, 1, 8, T, 0.0, ngrams="input", ngram_orders=(2, 4))).eval()
    torch.nn.init.normal_(gpt.lm_head.weight)
    gpt.ngrams.count(train)
    return models() | {"gpt": gpt}


def test_the_network_of_a_gpt_with_a_memory_is_scored_by_itself_as_a_plain_gpt_is():
    held_out = text()
    gpt = with_memory(held_out.splits["train"])["gpt"]
    found = evaluated(models() | {"gpt": gpt}, held_out)
    plain = GPT(GPTConfig(V, 1, 1, 8, T, 0.0)).eval()
    plain.load_state_dict({name: gpt.state_dict()[name] for name in plain.state_dict()})
    expected = evaluated(models() | {"gpt": plain}, held_out)
    assert found.table["network"] == {split: expected.table["gpt"][split] for split in ("val", "test")}
    assert found.table["gpt"] != expected.table["gpt"]
    for split in ("val", "test"):
        assert found.nats["network"][split].tolist() == expected.nats["gpt"][split].tolist()


def test_what_is_counted_of_train_is_left_out_where_train_is_scored():
    """Nothing can be learned from these ids: a score of train far below that of val would be that of its answers."""
    held_out = text()
    gpt, train = with_memory(held_out.splits["train"])["gpt"], held_out.splits["train"]
    torch.nn.init.zeros_(gpt.lm_head.weight)
    honest, seen = (float(nats_of(gpt, train, T, 3, of_train=of_train).mean()) for of_train in (True, False))
    assert seen < math.log(V) - 0.05 < honest
    scored = evaluated(models() | {"gpt": gpt}, held_out).table["gpt"]["train"]["nats_per_char"]
    runs = evenly_spaced(train, len(held_out.splits["val"]), 2)
    nats = [nats_of_passages(gpt, [run], T, 3, of_train=True) for run in runs]
    assert scored == pytest.approx(np.concatenate(nats).mean(dtype=np.float64))


def test_of_a_long_train_at_most_so_much_is_scored_and_samples_are_named(scores, monkeypatch):
    monkeypatch.setattr(module, "MAX_SCORED_IDS", 101)
    monkeypatch.setattr(module, "CONTEXT_CHARS", 70)
    found = evaluated(models(), text())
    assert 101 <= found.table["gpt"]["train"]["chars"] < 101 + window_rule.N_EXCERPTS
    whole = "all of val and test is scored; samples suffice for the score on train (112 of 3,999 characters; split.val)"
    of_context = " and the gain from context (72 of 210 of val, 71 of 96 of test)"
    assert sampled(found, text()) == whole + of_context
    assert "context" not in sampled(scores, text())


def test_the_text_of_test_changes_no_score_of_val():
    held_out, other = text(), text()
    other.splits["test"] = other.splits["train"][:97]  # which the longest n-grams know by heart
    one, two = (evaluated(with_memory(each.splits["train"]), each) for each in (held_out, other))
    assert one.table["best_counted"] == two.table["best_counted"] == "ngram_3"
    for name in ("gpt", "network"):
        assert one.nats[name]["val"].tolist() == two.nats[name]["val"].tolist()
        assert one.table[name].get("train") == two.table[name].get("train")
        assert one.nats[name]["test"].tolist() != two.nats[name]["test"].tolist()


@pytest.fixture(scope="module", params=SPLITS)
def texts(request, tmp_path_factory):
    return {kind: held_out(tmp_path_factory.mktemp(kind), kind, request.param) for kind in KINDS}


@pytest.fixture(scope="module")
def of_kinds(texts):
    """kind -> what stage evaluate finds, and its bigram; models are untrained, but not flat."""
    found = {}
    for kind, text in texts.items():
        torch.manual_seed(1)
        n = len(text.tokenizer)
        gpt, bigram = GPT(GPTConfig(n, 1, 1, 8, T, 0.0)).eval(), Bigram(BigramConfig(n, T))
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
def test_bits_are_those_of_all_ids_over_all_characters_and_over_all_their_bytes(texts, of_kinds, split):
    """The oracle: one forward pass of the bigram, which has no windows."""
    text = texts["char"].tokenizer.decode(texts["char"].splits[split])[1:]
    for kind, (found, bigram) in of_kinds.items():
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


def test_train_is_scored_by_its_characters(texts, of_kinds):
    for kind, (found, bigram) in of_kinds.items():
        ids, tokenizer = texts[kind].splits["train"], texts[kind].tokenizer
        chars = len(tokenizer.decode(ids)) - 1
        nats = nats_of(bigram, ids, T, 3).sum(dtype=np.float64)
        assert found.table["bigram"]["train"]["nats_per_char"] == pytest.approx(nats / chars, rel=1e-5)
        per_id = bits_of_train(ids, len(tokenizer))["unigram"]
        unigram = per_id * (len(ids) - 1) / chars
        assert found.table["baselines"]["train"]["unigram"] == pytest.approx(unigram, rel=1e-9)


def test_what_does_not_depend_on_the_tokenizer_is_the_same_and_its_unit_is_named(of_kinds):
    tables = {kind: found.table for kind, (found, _) in of_kinds.items()}
    assert [tables[kind]["window"]["unit"] for kind in KINDS] == ["character", "byte", "token"]
    for split in ("val", "test"):
        compressed = [[table["baselines"][split][name] for name in COMPRESSORS] for table in tables.values()]
        assert compressed[0] == compressed[1] == compressed[2]


ORDER = 4


@pytest.fixture
def predictable():
    """Text in which one id often follows another, in three works."""
    rng, splits = np.random.default_rng(1), {}
    for split, n in (("train", 3000), ("val", 211)):
        ids = rng.integers(V, size=n)
        ids[1::2] = (ids[::2][: n // 2] * 2 + rng.integers(2, size=n // 2)) % V
        splits[split] = ids.astype(np.uint8)
    return HeldOut(splits, {"train": np.array([1500, 700, 800]), "val": np.array([101, 109, 1])}, TOKENIZER)


@pytest.mark.parametrize("at_once", [2**22, 7 * V])
def test_the_guesses_are_the_likeliest_of_all_ids(predictable, at_once, monkeypatch):
    monkeypatch.setattr(module, "AT_ONCE", at_once)
    train = predictable.splits["train"]
    ngrams, pairs = KneserNey.count(train, V, ORDER), count_pairs(train, V)
    by_pairs, by_ngrams = [], []
    for work in predictable.passages("val", ORDER - 1):
        for i in range(work.n_context, len(work.ids)):
            before, followed = work.ids[max(0, i - ORDER + 1) : i], work.ids[i]
            texts = [np.append(before, v).astype(np.uint8) for v in range(V)]
            nats = [ngrams.nats_by_order(each, [ORDER])[ORDER][-1] for each in texts]
            by_ngrams.append(np.argmin(nats) == followed)
            by_pairs.append(pairs[before[-1]].argmax() == followed)
    found = counted_accuracy(predictable, f"ngram_{ORDER}")
    assert found == pytest.approx({"bigram_exact": np.mean(by_pairs), f"ngram_{ORDER}": np.mean(by_ngrams)})
    assert found["bigram_exact"] > 1.3 / V
    monkeypatch.setattr(module, "MAX_SCORED_IDS", 100)
    assert list(counted_accuracy(predictable, f"ngram_{ORDER}")) == ["bigram_exact"]
