"""The scores of models and baselines: which text is scored, in which unit, and the value of context."""

import math

import numpy as np
import pytest
import torch

from bukva.base.errors import BukvaError
from bukva.baselines.counts import baselines
from bukva.config.schema import Evaluate
from bukva.evaluation.scores import evaluate, value_of_context
from bukva.models.bigram import Bigram, BigramConfig
from bukva.models.folder import load_models, save_model
from bukva.models.gpt import GPT, GPTConfig
from bukva.report.terminal import verdict
from bukva.scoring.window_rule import Score, nats_of
from bukva.tokenizers.char import CharTokenizer

V, T = 5, 6
TOKENIZER = CharTokenizer(list("абвгд"))
PARAMS = Evaluate(short_context=2, context_chars=50, attention_sentence="", attention_windows=3, leak_steps=2)


class PairTokenizer(CharTokenizer):
    """A tokenizer each of whose ids stands for two characters."""

    def chars_of(self, ids):
        return 2 * super().chars_of(ids)


def splits(*names):
    sizes = {"train": 4000, "val": 211, "test": 97}
    return {
        name: np.random.default_rng(i).integers(V, size=sizes[name]).astype(np.uint8) for i, name in enumerate(names)
    }


def models():
    torch.manual_seed(1)
    return {"bigram": Bigram(BigramConfig(V, 8)), "gpt": GPT(GPTConfig(V, 1, 1, 8, T, 0.0)).eval()}


@pytest.fixture(scope="module")
def metrics():
    return evaluate(models(), TOKENIZER, splits("train", "val", "test"), PARAMS)


def test_a_cheap_model_is_scored_on_all_of_train_and_another_on_as_much_as_val_has(metrics):
    assert {split: score["chars"] for split, score in metrics["bigram"].items()} == {
        "train": 3999,
        "val": 210,
        "test": 96,
    }
    gpt = {split: score["chars"] for split, score in metrics["gpt"].items()}
    assert (gpt["val"], gpt["test"]) == (210, 96)
    assert 211 <= gpt["train"] < 300


def test_bits_are_nats_over_ln_2(metrics):
    for model in ("bigram", "gpt"):
        for score in metrics[model].values():
            assert score["bits_per_char"] == pytest.approx(score["nats_per_char"] / math.log(2))


def test_the_window_rule_is_beside_the_scores(metrics):
    assert metrics["window"] == {"length": 6, "stride": 3}


def test_models_with_different_vocabularies_are_rejected(tmp_path):
    for name, chars in (("bigram", "абвгд"), ("gpt", "абвгд"), ("third", "абвгж")):
        config = BigramConfig(V, 8)
        save_model(tmp_path / name, config, CharTokenizer(list(chars)), {"best": Bigram(config).state_dict()})
    folders = {name: tmp_path / name for name in ("bigram", "gpt")}
    assert list(load_models(folders)[0]) == ["bigram", "gpt"]
    with pytest.raises(BukvaError, match=r"third: its vocabulary is not that of .*bigram; rerun the training stage"):
        load_models(folders | {"third": tmp_path / "third"})


def test_a_split_of_fraction_zero_is_absent():
    metrics = evaluate(models(), TOKENIZER, splits("train", "val"), PARAMS)
    assert all("test" not in metrics[key] for key in ("bigram", "gpt", "baselines", "context"))
    assert verdict(metrics).startswith("On val the GPT is ")


def test_a_further_model_is_scored_like_the_others_and_changes_no_score(metrics):
    three = {"copy": models()["gpt"], **models()}
    scored = evaluate(three, TOKENIZER, splits("train", "val", "test"), PARAMS)
    assert list(scored) == ["copy", "bigram", "gpt", "baselines", "window", "context"]
    assert scored.pop("copy") == scored["gpt"]
    assert scored == metrics


def test_ids_that_stand_for_two_characters_halve_the_bits_per_character(metrics):
    pairs = evaluate(models(), PairTokenizer(TOKENIZER.chars), splits("train", "val", "test"), PARAMS)
    for split in ("train", "val", "test"):
        for model in ("bigram", "gpt"):
            assert pairs[model][split]["chars"] == 2 * metrics[model][split]["chars"]
            for unit in ("nats_per_char", "bits_per_char"):
                assert pairs[model][split][unit] == metrics[model][split][unit] / 2
        assert pairs["baselines"][split] == {name: value / 2 for name, value in metrics["baselines"][split].items()}
    for key in ("short_bits_per_char", "full_bits_per_char", "gain_bits_per_char"):
        assert pairs["context"]["val"][key] == metrics["context"]["val"][key] / 2


def test_where_every_id_is_a_character_the_baselines_are_those_counted(metrics):
    assert metrics["baselines"] == baselines(splits("train", "val", "test"), V)


def test_short_context_is_scored_over_the_same_characters(metrics):
    context = metrics["context"]["val"]
    assert context["chars"] >= 50
    assert context["gain_bits_per_char"] == context["short_bits_per_char"] - context["full_bits_per_char"]


def test_a_bigram_gains_nothing_from_context():
    torch.manual_seed(1)
    bigram = Bigram(BigramConfig(V, T))
    metrics = evaluate({"bigram": bigram, "gpt": bigram}, TOKENIZER, splits("train", "val"), PARAMS)
    assert metrics["context"]["val"]["gain_bits_per_char"] == pytest.approx(0, abs=1e-6)
    assert metrics["gpt"]["val"] == metrics["bigram"]["val"]


def test_the_score_of_the_gpt_follows_the_window_rule(metrics):
    nats = nats_of(models()["gpt"], splits("train", "val")["val"], T, 3)
    assert metrics["gpt"]["val"]["nats_per_char"] == Score.of(nats, len(nats)).nats_per_char


def test_short_context_means_exactly_that_many_characters_before_each():
    gpt, ids = models()["gpt"], splits("train", "val")["val"][:40]
    torch.nn.init.normal_(gpt.wpe.weight)  # so that every position matters
    windows = [ids[max(0, i - 2) : i] for i in range(1, len(ids))]
    logits = [gpt(torch.from_numpy(window.astype(np.int64))[None])[0, -1] for window in windows]
    nats = [-logit.log_softmax(-1)[int(target)].item() for logit, target in zip(logits, ids[1:], strict=True)]
    value = value_of_context(gpt, ids, TOKENIZER, 2, 1000)
    assert value["short_bits_per_char"] == pytest.approx(np.mean(nats) / np.log(2), abs=1e-5)
