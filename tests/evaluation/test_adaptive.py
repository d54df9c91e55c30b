"""Scores that adapt, of whole splits: which works know what, and that pieces are the windows of the whole."""

import dataclasses

import numpy as np
import pytest
import torch

from bukva.baselines.scores import compress
from bukva.baselines.scores import score as score_baselines
from bukva.config.schema import Evaluate
from bukva.evaluation import adaptive
from bukva.evaluation.rows import STREAM, WITHIN, rows_of
from bukva.evaluation.scores import evaluate, headline
from bukva.models.bigram import Bigram, BigramConfig
from bukva.models.gpt import GPT, GPTConfig
from bukva.models.ngrams.kneser_ney import KneserNey
from bukva.models.window_rule import context_of, nats_of_passages, split_passage, stride_of
from bukva.project.stages import trained_models
from bukva.text.held_out import HeldOut, Passage
from bukva.text.tokenizers.char import CharTokenizer

V, T = 5, 6
SHAPE = GPTConfig(V, 1, 1, 8, T, 0.0, ngram_orders=(2, 4))
KINDS = [SHAPE, dataclasses.replace(SHAPE, ngrams="input")]
LENGTHS = {"train": [503, 311, 9], "val": [61, 0, 1], "test": [59, 31, 41]}
PARAMS = Evaluate(
    adaptive=True, short_context=2, context_chars=500, attention_sentence="", attention_windows=3, leak_steps=2
)


def text(lengths=LENGTHS, changed=None):
    rng = np.random.default_rng(5)
    splits = {name: rng.integers(V, size=sum(works)).astype(np.uint8) for name, works in lengths.items()}
    if changed is not None:
        splits["test"][changed] = (splits["test"][changed] + 1) % V
    return HeldOut(splits, {name: np.array(works) for name, works in lengths.items()}, CharTokenizer(list("абвгд")))


def model(config, train):
    torch.manual_seed(1)
    gpt = GPT(config).eval()
    torch.nn.init.normal_(gpt.lm_head.weight)
    gpt.count(train)
    return gpt


@pytest.fixture(scope="module", params=KINDS, ids=["plain", "with n-grams"])
def gpt(request):
    return model(request.param, text().splits["train"])


def by_work(nats):
    return np.split(nats, np.cumsum(np.array(LENGTHS["test"]) - [1, 0, 0])[:-1])  # the first id of a split has no score


def test_works_are_independent_within_each_work_and_not_in_one_stream(gpt):
    before, after = (adaptive.score_adaptively(gpt, changed, "test") for changed in (text(), text(changed=7)))
    for row, same in ((WITHIN, True), (STREAM, False)):
        ours, theirs = by_work(before[row]), by_work(after[row])
        np.testing.assert_array_equal(ours[0][:6], theirs[0][:6])
        assert not np.array_equal(ours[0], theirs[0])
        assert np.array_equal(ours[1], theirs[1]) == np.array_equal(ours[2], theirs[2]) == same
    np.testing.assert_array_equal(by_work(before[WITHIN])[0], by_work(before[STREAM])[0])


def test_before_anything_is_learned_a_gpt_with_n_grams_scores_as_it_does_without_learning():
    whole = text()
    gpt = model(KINDS[1], whole.splits["train"])
    passages = whole.passages("test", context_of(gpt, T, stride_of(T)))
    static = by_work(nats_of_passages(gpt, passages, T, stride_of(T)))
    [reader] = adaptive.readers_of(gpt, whole.splits["train"], 1)
    for passage, nats in zip(passages, static, strict=True):
        reader.start(passage.ids[:0])
        reader.seek(passage.ids[: passage.n_context])  # without n-grams of the work
        network, exponents = adaptive.mixture_inputs(gpt, passage)
        assert reader.log_probs(network[0], exponents[0])[passage.scored[0]] == pytest.approx(-nats[0], abs=1e-5)


@pytest.mark.parametrize("n_context", [1, 3, 40])
def test_the_parts_of_a_passage_in_pieces_are_those_of_the_whole(gpt, n_context):
    ids = np.random.default_rng(2).integers(V, size=n_context + 101)
    whole, stride = Passage(0, ids, n_context), stride_of(T)
    cut = split_passage(whole, T, stride, gpt.config.n_before, 17)
    assert len(cut) > 3
    np.testing.assert_array_equal(np.concatenate([piece.scored for piece in cut]), whole.scored)
    expected = adaptive.mixture_inputs(gpt, whole)
    for found, array in zip(
        zip(*(adaptive.mixture_inputs(gpt, piece) for piece in cut), strict=True), expected, strict=True
    ):
        np.testing.assert_allclose(np.concatenate(found), array, atol=1e-5)
    network = gpt.without_ngrams()
    followed = -nats_of_passages(network, [whole], T, stride)
    if not gpt.config.counts:  # otherwise the network also sees what was counted, and has learned exponents
        np.testing.assert_array_equal(expected[1], np.tile([0, 0.5, 0.5], (101, 1)))
        np.testing.assert_allclose(expected[0][np.arange(101), whole.scored], followed, atol=1e-5)


def test_both_rows_are_scored_and_the_nats_of_one_stream_are_not_kept_for_comparisons(gpt):
    whole = text()
    models = {"bigram": Bigram(BigramConfig(V, 8)), "gpt": gpt}
    ngrams = KneserNey.count(whole.splits["train"], V, 4)
    scores = evaluate(models, whole, PARAMS, score_baselines(whole, ngrams, [3, 4], compress(whole)))
    read = adaptive.score_adaptively(gpt, whole, "test")
    for row in (WITHIN, STREAM):
        assert scores.table[row]["test"]["bits_per_char"] == pytest.approx(read[row].mean() / np.log(2), rel=1e-5)
        assert "train" not in scores.table[row]
    np.testing.assert_allclose(scores.nats[WITHIN]["test"], read[WITHIN], rtol=1e-6)
    assert STREAM not in scores.nats
    assert {"gpt", WITHIN, STREAM, "counted"} <= headline(scores.table, ["gpt"]).keys()
    labels = [row.label for row in rows_of(scores.table, trained_models())]
    assert labels[-2:] == ["GPT, learning on within each work", "GPT, learning on, all works as one stream"]
