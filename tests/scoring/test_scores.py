"""The scores of models and baselines: which text is scored, in which unit, and the value of context."""

import math
from hashlib import sha256

import numpy as np
import pytest
import torch
from tiny import far_from_zero
from works import KINDS, SPLITS, held_out

from bukva.core.schema import Evaluate
from bukva.evaluation.baselines import compress
from bukva.evaluation.baselines import score as score_baselines
from bukva.evaluation.compressors import COMPRESSORS
from bukva.models.bigram import Bigram, BigramConfig
from bukva.models.gpt import GPT, GPTConfig
from bukva.models.ngram_gpt import NgramGPT
from bukva.models.ngrams.counts import bits_of_train, scorers
from bukva.models.ngrams.kneser_ney import KneserNey
from bukva.project.stages import trained_models
from bukva.report.sections import score_cards
from bukva.report.terminal import headline as sentences
from bukva.report.terminal import table
from bukva.scoring import scores as module
from bukva.scoring import window_rule
from bukva.scoring.metrics import METRICS, Metric
from bukva.scoring.rows import rows_of
from bukva.scoring.scores import counted_scores, evaluate, headline, sampled, value_of_context
from bukva.scoring.window_rule import evenly_spaced, nats_of, nats_of_passages
from bukva.text.held_out import HeldOut, Passage
from bukva.text.tokenizers import CharTokenizer

V, T = 8, 6
TOKENIZER = CharTokenizer(list("абвгдежз"))
WORKS = {"train": [2011, 1980, 9], "val": [101, 109, 1], "test": [41, 43, 13]}  # ids of each of three works
PARAMS = Evaluate(short_context=2)
# Name of a metric of METRICS -> its formula, from the (n, V) losses in nats of all possible ids, the (n,) ids that
# followed, and the number of characters (here: ids) of each work.
ORACLES = {"accuracy": lambda losses, ids, _: np.mean([np.argmin(losses[i]) == ids[i] for i in range(len(ids))])}


def baselines(text):
    return score_baselines(text, KneserNey.count(text.splits["train"], len(text.tokenizer), 4), compress(text))


def evaluated(models, text, params=PARAMS):
    """What stage evaluate finds, with n-grams of orders 3 and 4."""
    return evaluate(models, text, params, baselines(text))


def text(*names, learnable=True):
    """Random text; in a learnable one, every second id is one of two that depend on the id before it."""
    names, splits = names or tuple(WORKS), {}
    for i, name in enumerate(names):
        rng = np.random.default_rng(i)
        ids = rng.integers(V, size=sum(WORKS[name]))
        if learnable:
            ids[1::2] = (ids[::2][: len(ids) // 2] * 2 + rng.integers(2, size=len(ids) // 2)) % V
        splits[name] = ids.astype(np.uint8)
    return HeldOut(splits, {name: np.array(WORKS[name]) for name in names}, TOKENIZER)


def models():
    torch.manual_seed(1)
    return {"bigram": Bigram(BigramConfig(V, 8)), "gpt": far_from_zero(GPT(GPTConfig(V, 1, 1, 8, T, 0.0)))}


@pytest.fixture(scope="module")
def scores():
    return evaluated(models(), text())


@pytest.mark.parametrize("names", [("train", "val", "test"), ("train", "val")])
def test_scores_are_means_over_all_characters_and_the_headline_is_that_of_the_models_and_the_best_n_gram(names):
    found, splits, means = evaluated(models(), text(*names)), names[1:], {}
    for name in ("gpt", "bigram", "ngram_3", "ngram_4"):
        means[name] = {split: found.nats[name][split].mean(dtype=np.float64) for split in splits}
    for name in ("bigram", "gpt"):
        assert list(found.table[name]) == list(names)
        for split in splits:
            fields = found.table[name][split]
            assert [*fields] == ["nats_per_char", "bits_per_char", "bits_per_byte", "chars", *METRICS]
            assert (fields["nats_per_char"], fields["chars"]) == (means[name][split], sum(WORKS[split]) - 1)
    assert found.table["bigram"]["train"]["chars"] == 3999
    assert 211 <= found.table["gpt"]["train"]["chars"] < 300  # as much as val has
    assert found.table["baselines"]["train"] == bits_of_train(text().splits["train"], V)
    assert found.table["baselines"]["val"]["uniform"] == math.log2(V)
    assert [*found.table["context"]] == [*splits]
    best = min(("ngram_3", "ngram_4"), key=lambda name: means[name]["val"])
    head = headline(found.table, ["gpt", "bigram"])
    assert [*head] == ["gpt", "bigram", "counted"]
    for key, name in (("gpt", "gpt"), ("bigram", "bigram"), ("counted", best)):
        metrics = {} if key == "counted" else {metric: found.table[name]["val"][metric] for metric in METRICS}
        assert head[key] == pytest.approx({split: nats / np.log(2) for split, nats in means[name].items()} | metrics)
        assert [*head[key]] == [*splits, *metrics]


def own_texts(held_out, split):
    """The ids of each work up to the end of a split, and where the first of them is that is scored in this split."""
    names = [*held_out.splits][: [*held_out.splits].index(split) + 1]
    for work in range(3):
        parts = [np.split(held_out.splits[name], np.cumsum(WORKS[name]))[work] for name in names]
        yield np.concatenate(parts), sum(map(len, parts[:-1])) + (work == 0)


@pytest.mark.parametrize(("split", "at_once"), [("val", 2**22), ("val", 7 * V), ("test", 2**22)])
def test_each_work_is_scored_after_its_own_text_and_never_after_another(scores, split, at_once, monkeypatch):
    """The oracle: each character alone, after the preceding text of its work as far as the window reaches."""
    held_out, (learned, gpt), train = text(), models().values(), text().splits["train"]
    bigram, ngrams = scorers(train, V)["bigram_exact"], KneserNey.count(train, V, 4)
    losses, ids, chars = {"gpt": [], "bigram": [], "bigram_exact": [], "ngram_4": [], "ngram_3": []}, [], []
    for own, start in own_texts(held_out, split):
        chars.append(len(own) - start)
        for i in range(start, len(own)):
            # windows move by 3; the first one begins 4 characters before the first that is scored
            first = start - 4 + 3 * max(0, -(-(i - start + 4 - T) // 3))
            window = torch.from_numpy(own[max(first, 0) : i].astype(np.int64))[None]
            for name, model, seen in (("gpt", gpt, window), ("bigram", learned, window[:, -1:])):
                losses[name].append(-model(seen)[0, -1].log_softmax(-1).detach().numpy())
            texts = [np.append(own[max(0, i - 3) : i], v).astype(np.uint8) for v in range(V)]
            losses["bigram_exact"].append(np.array([bigram(each[-2:])[0] for each in texts]))
            for order in (3, 4):
                each = [ngrams.nats_by_order(each[-order:], [order])[order][-1] for each in texts]
                losses[f"ngram_{order}"].append(np.array(each))
            ids.append(own[i])
    for name, rows in losses.items():
        nats = np.array(rows)[np.arange(len(ids)), ids]
        np.testing.assert_allclose(scores.nats[name][split], nats, rtol=1e-4, err_msg=name)
        if name not in models():
            assert scores.table["baselines"][split][name] == pytest.approx(nats.mean() / math.log(2))
    monkeypatch.setattr(module, "AT_ONCE", at_once)
    found, best = counted_scores(held_out, baselines(held_out)), scores.table["best_counted"]
    assert found == {key: scores.table[key] for key in scores.table if key.startswith("counted_")}
    assert METRICS.keys() == ORACLES.keys(), "a metric has no formula here"
    for metric, of_text in ORACLES.items():
        expected = {name: of_text(np.array(rows), np.array(ids), chars) for name, rows in losses.items()}
        assert {name: scores.table[name][split][metric] for name in models()} == pytest.approx(
            {name: expected[name] for name in models()}
        )
        if split == "val":
            assert found[f"counted_{metric}"] == pytest.approx(
                {each: expected[each] for each in ("bigram_exact", best)}
            )


def test_an_entry_of_the_table_is_all_that_a_new_score_needs(monkeypatch):
    planted = {"label": "p", "unit": "things", "digits": 2, "meaning": "is the number of things"}
    monkeypatch.setitem(METRICS, "five", Metric(**planted, of_logits=lambda _, ids: (ids >= 0) * 5.0))
    monkeypatch.setitem(METRICS, "works", Metric(**planted, of_losses=lambda nats, chars: len(nats) / len(chars)))
    expected = {"five": 5.0, "works": 70.0}
    found = evaluated(models(), text())
    assert expected.items() <= found.table["gpt"]["test"].items() | found.table["gpt"]["val"].items()
    assert expected.items() <= headline(found.table, ["gpt"])["gpt"].items()
    for row in rows_of(found.table, trained_models()):
        if row.key in ("bigram", "gpt", "bigram_exact", found.table["best_counted"]):
            assert expected.items() <= row.metrics.items(), row.key
    header, rows = table(found.table)
    assert header[-2:] == ["p (val)", "p (val)"]
    assert [row[-2:] for row in rows] == [["5.00 things", "70.00 things"]] * 3
    assert table(found.table, everything=True)[1][-3][-2:] == ["", ""]  # a compressor
    assert sentences(found.table).endswith(
        " 5.00 things is the number of things. 70.00 things is the number of things."
    )
    cards = score_cards("Score", 2.0, "", headline(found.table, ["gpt"])["gpt"])
    assert ("P", "70.00 things", "is the number of things", "") in cards


@pytest.mark.parametrize("counts", [False, True])
def test_short_context_means_exactly_that_many_characters_of_the_same_work(counts):
    held_out = text("train", "val")
    all_models = with_memory(held_out.splits["train"]) if counts else models()
    gpt = all_models["gpt"]
    nats = []
    for own, start in own_texts(held_out, "val"):
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
    held_out = text(learnable=False)
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
    assert [*found.table["counted_accuracy"]] == ["bigram_exact"]  # n-grams would take minutes
    whole = "all of val and test is scored; samples suffice for the score on train (112 of 3,999 characters; split.val)"
    of_context = " and the gain from context (72 of 210 of val, 71 of 96 of test)"
    assert sampled(found, text()) == whole + of_context
    assert "context" not in sampled(scores, text())


def test_the_text_of_test_changes_no_score_of_val():
    held_out, other = text(learnable=False), text(learnable=False)
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
        n = len(text.tokenizer)
        gpt, bigram = far_from_zero(GPT(GPTConfig(n, 1, 1, 8, T, 0.0))), far_from_zero(Bigram(BigramConfig(n, T)))
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


def test_bits_are_those_of_all_ids_over_all_characters_and_over_all_their_bytes(texts, of_kinds):
    """The oracle: one forward pass of the bigram, which has no windows."""
    units, compressed = [], []
    for kind, (found, bigram) in of_kinds.items():
        tokenizer, splits = texts[kind].tokenizer, texts[kind].splits
        for split, ids in splits.items():
            text, bits = tokenizer.decode(ids)[1:], 0.0
            for passage in [Passage(0, ids, 1)] if split == "train" else texts[kind].passages(split, 1):
                own = torch.from_numpy(passage.ids.astype(np.int64))
                logits = bigram(own[None, :-1])[0].detach().double()
                bits += float(torch.nn.functional.cross_entropy(logits, own[1:], reduction="sum")) / np.log(2)
            fields = found.table["bigram"][split]
            assert fields["bits_per_char"] == pytest.approx(bits / len(text), rel=1e-5)
            scores, uniform = found.table["baselines"][split], np.log2(len(tokenizer)) * len(ids) / (len(text) + 1)
            if split == "train":
                of_ids = {name: bits * (len(ids) - 1) for name, bits in bits_of_train(ids, len(tokenizer)).items()}
                assert scores == pytest.approx({name: bits / len(text) for name, bits in of_ids.items()})
            else:
                assert fields["bits_per_byte"] == pytest.approx(bits / len(text.encode()), rel=1e-5), kind
                assert scores["uniform"] == pytest.approx(uniform)
                assert {len(nats[split]) for nats in found.nats.values()} == {len(text)}
        units.append(found.table["window"]["unit"])
        scores = found.table["baselines"]
        compressed.append([scores[split][name] for split in ("val", "test") for name in COMPRESSORS])
    assert units == ["character", "byte", "token"]
    assert compressed[0] == compressed[1] == compressed[2]  # they do not depend on the tokenizer
