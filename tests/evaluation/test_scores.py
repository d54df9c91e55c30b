"""The verdict: shape, parts, and the worth of context."""

import numpy as np
import pytest
import torch

from bukva.config.schema import Evaluate
from bukva.evaluation.scores import evaluate, worth_of_context
from bukva.models.bigram import Bigram, BigramConfig
from bukva.models.gpt import GPT, GPTConfig
from bukva.report.terminal import table, verdict
from bukva.scoring.window_rule import Score, nats_of

V, T = 5, 6
NUMBERS = Evaluate(short_context=2, context_chars=50, attention_sentence="", attention_windows=3, leak_steps=2)


def parts(*names):
    sizes = {"train": 4000, "val": 211, "test": 97}
    return {
        name: np.random.default_rng(i).integers(V, size=sizes[name]).astype(np.uint8) for i, name in enumerate(names)
    }


@pytest.fixture(scope="module")
def metrics():
    torch.manual_seed(1)
    bigram, gpt = Bigram(BigramConfig(V, 8)), GPT(GPTConfig(V, 1, 1, 8, T, 0.0))
    return evaluate(bigram, gpt, parts("train", "val", "test"), NUMBERS)


def test_each_split_is_scored_as_far_as_promised(metrics):
    assert {part: score["chars"] for part, score in metrics["bigram"].items()} == {
        "train": 3999,
        "val": 210,
        "test": 96,
    }
    gpt = {part: score["chars"] for part, score in metrics["gpt"].items()}
    assert (gpt["val"], gpt["test"]) == (210, 96)
    assert 211 <= gpt["train"] < 300


def test_bits_are_nats_over_ln_2(metrics):
    for model in ("bigram", "gpt"):
        for score in metrics[model].values():
            assert score["bits_per_char"] == pytest.approx(score["nats_per_char"] / 0.6931471805599453)


def test_the_window_rule_stands_beside_the_scores(metrics):
    assert metrics["window"] == {"length": 6, "stride": 3}


def test_a_split_of_fraction_zero_is_absent():
    torch.manual_seed(1)
    bigram, gpt = Bigram(BigramConfig(V, 8)), GPT(GPTConfig(V, 1, 1, 8, T, 0.0))
    metrics = evaluate(bigram, gpt, parts("train", "val"), NUMBERS)
    assert all("test" not in metrics[key] for key in ("bigram", "gpt", "floors", "context"))
    assert "On val the GPT" in verdict(metrics)


def test_short_context_is_scored_over_the_same_characters(metrics):
    context = metrics["context"]["val"]
    assert context["chars"] >= 50
    assert context["gain_bits_per_char"] == context["short_bits_per_char"] - context["full_bits_per_char"]


def test_a_bigram_gains_nothing_from_context():
    torch.manual_seed(1)
    bigram = Bigram(BigramConfig(V, T))
    metrics = evaluate(bigram, bigram, parts("train", "val"), NUMBERS)
    assert metrics["context"]["val"]["gain_bits_per_char"] == pytest.approx(0, abs=1e-6)
    assert metrics["gpt"]["val"] == metrics["bigram"]["val"]


def test_the_gpts_score_is_that_of_the_window_rule():
    torch.manual_seed(1)
    gpt, text = GPT(GPTConfig(V, 1, 1, 8, T, 0.0)), parts("train", "val")
    metrics = evaluate(Bigram(BigramConfig(V, 8)), gpt, text, NUMBERS)
    assert metrics["gpt"]["val"]["nats_per_char"] == Score.of(nats_of(gpt, text["val"], T, 3)).nats_per_char


def test_the_table_has_every_model_and_split(metrics):
    result = table(metrics)
    assert [column.header for column in result.columns] == ["model", "train", "val", "test"]
    assert result.row_count == 5
    assert list(result.columns[3].cells)[-1] == f"{metrics['gpt']['test']['bits_per_char']:.3f}"


def test_short_context_means_exactly_so_many_characters_before_each():
    torch.manual_seed(1)
    gpt, ids = GPT(GPTConfig(V, 1, 1, 8, T, 0.0)).eval(), parts("train", "val")["val"][:40]
    torch.nn.init.normal_(gpt.wpe.weight)  # so that every position tells
    windows = [ids[max(0, i - 2) : i] for i in range(1, len(ids))]
    logits = [gpt(torch.from_numpy(window.astype(np.int64))[None])[0, -1] for window in windows]
    nats = [-logit.log_softmax(-1)[int(target)].item() for logit, target in zip(logits, ids[1:], strict=True)]
    worth = worth_of_context(gpt, ids, 2, 1000)
    assert worth["short_bits_per_char"] == pytest.approx(np.mean(nats) / np.log(2), abs=1e-5)
