"""Sampling against hand-made distributions."""

import math

import pytest
import torch

from bukva.models.bigram import Bigram, BigramConfig
from bukva.models.gpt import GPT, GPTConfig
from bukva.sampling import draw, generate, keep_likeliest

V, T = 7, 5
PROBABILITIES = torch.tensor([[0.05, 0.4, 0.1, 0.3, 0.15]])
OFF = -math.inf


def rng(seed=3):
    return torch.Generator().manual_seed(seed)


def gpt():
    torch.manual_seed(4)
    return GPT(GPTConfig(V, 1, 1, 8, T, 0.0)).eval()


def kept(top_k, top_p):
    return (keep_likeliest(PROBABILITIES.log(), top_k, top_p)[0] > OFF).nonzero().flatten().tolist()


@pytest.mark.parametrize(
    ("top_k", "top_p", "expected"),
    [
        (0, 1.0, [0, 1, 2, 3, 4]),
        (1, 1.0, [1]),
        (3, 1.0, [1, 3, 4]),
        (99, 1.0, [0, 1, 2, 3, 4]),
        (0, 0.39, [1]),
        (0, 0.69, [1, 3]),
        (0, 0.71, [1, 3, 4]),
        (0, 1e-9, [1]),
        (2, 0.99, [1, 3]),
    ],
)
def test_only_the_likeliest_are_left(top_k, top_p, expected):
    assert kept(top_k, top_p) == expected


def test_what_is_left_keeps_its_logits():
    logits = PROBABILITIES.log()
    assert keep_likeliest(logits, 2, 1.0)[0, [1, 3]].tolist() == logits[0, [1, 3]].tolist()


def test_drawing_follows_the_probabilities():
    drawn = draw(PROBABILITIES.log().expand(20_000, -1), 1.0, 0, 1.0, rng()).flatten()
    shares = torch.bincount(drawn, minlength=5) / len(drawn)
    torch.testing.assert_close(shares, PROBABILITIES[0], rtol=0, atol=0.015)


def test_temperature_sharpens():
    drawn = draw(PROBABILITIES.log().expand(20_000, -1), 0.5, 0, 1.0, rng()).flatten()
    shares = torch.bincount(drawn, minlength=5) / len(drawn)
    torch.testing.assert_close(shares, (PROBABILITIES**2 / (PROBABILITIES**2).sum())[0], rtol=0, atol=0.015)


@pytest.mark.parametrize(("temperature", "top_k"), [(0.0, 0), (1.0, 1)])
def test_temperature_zero_and_top_one_take_the_likeliest(temperature, top_k):
    model, written = gpt(), torch.tensor([[1, 2]])
    for _ in range(9):
        written = torch.cat([written, model(written[:, -T:])[:, -1].argmax(-1, keepdim=True)], dim=1)
    answer = generate(model, torch.tensor([[1, 2]]), 9, temperature=temperature, top_k=top_k, top_p=1.0, rng=rng())
    assert answer.tolist() == written[:, 2:].tolist()


def test_the_same_seed_gives_the_same_text_and_another_seed_another():
    texts = [
        generate(gpt(), torch.tensor([[0]]), 30, temperature=1.0, top_k=0, top_p=1.0, rng=rng(seed)).tolist()
        for seed in (1, 1, 2)
    ]
    assert texts[0] == texts[1] != texts[2]


def test_a_bigram_that_counts_goes_on_counting():
    model = Bigram(BigramConfig(V, 8))
    model.table.weight.data = torch.eye(V).roll(1, dims=1) * 100  # after i comes i + 1
    answer = generate(model, torch.tensor([[5]]), 6, temperature=1.0, top_k=0, top_p=1.0, rng=rng())
    assert answer.tolist() == [[6, 0, 1, 2, 3, 4]]
