"""What counting and learning contribute, against enumeration, the window rule and searches in the text."""

import itertools
import math

import numpy as np
import pandas as pd
import pytest
import torch
from studies.remembering import LENGTHS, ORDERS, SPLITS, TRAIN, remembering
from studies.small import TOKENIZER, B, T, V, random_ids

from bukva.models.ngrams.kneser_ney import KneserNey
from bukva.models.window_rule import nats_of_passages, stride_of
from bukva.studies.counting_study import experts_on, gains, record_experts, shares, summary
from bukva.studies.heads import AFTER, BETWEEN, positions_in_words
from bukva.text.held_out import HeldOut

N = 17
UNIFORM = math.log(V)


def experts(counted, learned, together):
    return pd.DataFrame({"counted": counted, "learned": learned, "together": together, "uniform": UNIFORM}, range(N))


def random_experts():
    return experts(*np.random.default_rng(7).uniform(0, 2 * UNIFORM, (3, N)))


def texts(share=1):
    return HeldOut(SPLITS, LENGTHS, TOKENIZER).passages("val", T - stride_of(T) + 1, share)


def test_gains_are_what_each_adds_averaged_over_who_comes_first():
    found = random_experts()
    value = {
        frozenset(): np.zeros(N),
        frozenset({0}): UNIFORM - found.counted,
        frozenset({1}): UNIFORM - found.learned,
        frozenset({0, 1}): UNIFORM - found.together,
    }
    for player, gained in enumerate(gains(found)):
        added = [
            value[frozenset(order[: order.index(player) + 1])] - value[frozenset(order[: order.index(player)])]
            for order in itertools.permutations((0, 1))
        ]
        np.testing.assert_allclose(gained, np.mean(added, axis=0), atol=1e-12)


@pytest.mark.parametrize(
    ("counted", "learned", "together", "share"),
    [
        (0.5, UNIFORM, 0.5, 1),  # the network knows nothing
        (UNIFORM, 0.5, 0.5, 0),  # counting knows nothing
        (0.7, 0.7, 0.5, 0.5),
        (0.7, 0.7, UNIFORM + 1, np.nan),  # together they are worse than a guess
        (0.2, 3 * UNIFORM, 0.5, 1),  # the network by itself misleads
    ],
)
def test_the_share_is_one_for_counting_only_and_zero_for_learning_only(counted, learned, together, share):
    np.testing.assert_allclose(shares(experts(counted, learned, together)), share)


def test_a_summary_divides_the_gain_into_three_parts():
    nats = np.random.default_rng(7).uniform(0, 1, (3, N))
    found = summary(experts(*nats))
    parts = found["only_counting"] + found["only_learning"] + found["common"]
    assert parts == pytest.approx(math.log2(V) - found["together"])
    counting = found["only_counting"] + found["common"] / 2
    assert found["share"] == pytest.approx(counting / parts)


def test_each_predictor_has_the_nats_of_the_window_rule_and_the_mode_of_the_model_is_restored():
    model = remembering().train()
    found = experts_on(model, texts())
    assert model.training
    model.eval()
    rule = T, stride_of(T)
    np.testing.assert_allclose(found.together, nats_of_passages(model, texts(), *rule), rtol=1e-4)
    np.testing.assert_allclose(found.learned, nats_of_passages(model.without_ngrams(), texts(), *rule), rtol=1e-4)
    counts = KneserNey.count(TRAIN, V, ORDERS[-1])
    counted = [counts.nats(text.ids, ORDERS[-1])[text.n_context :] for text in texts()]
    np.testing.assert_allclose(found.counted, np.concatenate(counted), rtol=1e-4)
    assert np.abs(found.together - found.learned).max() > 0.1


def test_the_context_is_the_longest_that_train_continues():
    found = experts_on(remembering(), texts()).context
    continued = {tuple(TRAIN[i - n : i]) for n in range(ORDERS[-1]) for i in range(n, len(TRAIN))}
    expected = [
        max(n for n in range(min(i, ORDERS[-1] - 1) + 1) if tuple(text.ids[i - n : i]) in continued)
        for text in texts()
        for i in range(text.n_context, len(text.ids))
    ]
    assert found.tolist() == expected
    assert {0, ORDERS[-1] - 1} <= set(expected)


def test_the_recorded_experts_multiply_to_the_prediction():
    model, ids = remembering("logits"), random_ids(B, T)
    with torch.inference_mode():
        network = model.without_ngrams()(ids).log_softmax(-1).flatten(0, 1)
        before = random_ids(B, 3)
        whole = model(ids, before=before).flatten(0, 1)
        logits, exponents, lookup = record_experts(model, ids, before, torch.ones(B, T, dtype=torch.bool))
    product = exponents[:, -1:] * network + (exponents[:, :-1, None] * lookup.probabilities.log()).sum(-2)
    torch.testing.assert_close(logits, whole)
    torch.testing.assert_close(product.log_softmax(-1), whole.log_softmax(-1), rtol=1e-4, atol=1e-4)
    assert not model.experts._forward_hooks


def test_positions_count_the_letters_of_words_in_what_a_tokenizer_makes_of_them():
    assert positions_in_words("аб, в\nга!") == [1, 2, AFTER, BETWEEN, 1, AFTER, 1, 2, AFTER]
    assert positions_in_words(["а", "", "б", "", ",", " ", "", "в"]) == [1, 2, 3, 4, AFTER, BETWEEN, BETWEEN, 1]
    assert positions_in_words(["Ми", "р", " и", " во", "йна", "."]) == [1, 2, 1, 1, 2, AFTER]
