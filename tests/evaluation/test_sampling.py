"""Sampling, against given distributions and with caches against without."""

import math

import pytest
import torch

from bukva.evaluation.sampling import draw, generate, keep_likeliest
from bukva.models.gpt import GPT, GPTConfig
from bukva.models.ngram_gpt import NgramGPT

V, T = 7, 5
PROBABILITIES = torch.tensor([[0.05, 0.4, 0.1, 0.3, 0.15]])


def rng(seed=3):
    return torch.Generator().manual_seed(seed)


def gpt(block_size=T, **options):
    """A GPT in float64 with weights so large that every input character changes its output."""
    model = GPT(GPTConfig(V, 2, 2, 12, block_size, 0.0, **options)).double().eval()
    generator = torch.Generator().manual_seed(4)
    for parameter in model.parameters():
        if parameter.ndim == 2:
            torch.nn.init.normal_(parameter, generator=generator)
    return model


def prompt(*shape, seed=5):
    return torch.randint(V, shape, generator=torch.Generator().manual_seed(seed))


def continuation(model, ids, n_chars, *, temperature=1.0, top_k=0, top_p=1.0, seed=3):
    settings = {"temperature": temperature, "top_k": top_k, "top_p": top_p, "rng": rng(seed)}
    return generate(model, ids, n_chars, **settings).tolist()


@pytest.mark.parametrize(
    ("top_k", "top_p", "expected"),
    [(3, 1.0, "134"), (99, 1.0, "01234"), (0, 0.69, "13"), (0, 0.71, "134"), (0, 1e-9, "1"), (3, 0.7, "13")],
)
def test_only_the_likeliest_are_kept(top_k, top_p, expected):
    kept = (keep_likeliest(PROBABILITIES.log(), top_k, top_p)[0] > -math.inf).nonzero().flatten()
    assert "".join(map(str, kept.tolist())) == expected


@pytest.mark.parametrize(
    ("temperature", "top_k", "weights"),
    [
        (1.0, 0, PROBABILITIES),
        (0.5, 0, PROBABILITIES**2),
        (1.0, 3, PROBABILITIES * (PROBABILITIES > 0.12)),
        *((tiny, 0, PROBABILITIES == 0.4) for tiny in (1e-6, 1e-320)),
    ],
)
def test_drawing_follows_the_probabilities_sharpened_by_temperature(temperature, top_k, weights):
    drawn = draw(PROBABILITIES.log().expand(20_000, -1), temperature, top_k, 1.0, rng()).flatten()
    shares = torch.bincount(drawn, minlength=5) / len(drawn)
    torch.testing.assert_close(shares, (weights / weights.sum())[0], rtol=0, atol=0.015)


def window_start_by_loop(stop, block_size):
    """Read one by one; when the block is full, drop half of it."""
    start = 0
    for length in range(1, stop + 1):
        while length - start > block_size:
            start += max(1, block_size // 2)
    return start


@pytest.mark.parametrize("block_size", [T, 8, 1])
@pytest.mark.parametrize("positions", ["learned", "rotary"])
def test_the_same_is_written_with_caches_as_without(block_size, positions):
    model, plain, n_chars = *(gpt(block_size, positions=positions) for _ in range(2)), 4 * block_size + 3
    plain.new_cache = lambda: None
    for n_prompt in (1, T, T + 1):
        ids = prompt(3, n_prompt)
        for how in ({}, {"temperature": 0.3, "top_k": 5, "top_p": 0.9}):
            assert continuation(model, ids, n_chars, **how) == continuation(plain, ids, n_chars, **how)


def test_counts_see_the_text_before_the_window_while_it_grows():
    model = NgramGPT(GPTConfig(V, 1, 1, 8, T, 0.0, ngrams="logits", ngram_orders=(2, 7))).eval()  # looks 6 ids back
    ids = prompt(1, 3 * T)
    model.ngrams.count(ids[0].numpy())
    torch.nn.init.normal_(model.experts.weights.weight)
    for n_prompt in range(1, 3 * T):
        written = ids[:, :n_prompt]
        for _ in range(2 * T):
            start = window_start_by_loop(written.shape[1], T)
            logits = model(written[:, start:], before=written[:, :start])
            written = torch.cat([written, logits[:, -1:].argmax(-1)], dim=1)
        assert continuation(model, ids[:, :n_prompt], 2 * T, temperature=0.0) == written[:, n_prompt:].tolist()
