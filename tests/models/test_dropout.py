"""Dropout zeroes a share of the elements, by random numbers that are those of SplitMix64."""

import pytest
import torch

from bukva.models.kernels import Dropout, dropout

WORD = 2**64 - 1


def split_mix_64(seed, i):
    """Number i after a seed, as in the paper's listing, with Python's integers."""
    z = (seed + i * 0x9E3779B97F4A7C15) & WORD
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & WORD
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & WORD
    return z ^ (z >> 31)


@pytest.mark.parametrize("n", [3, 1009])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
def test_an_element_is_zero_if_its_16_bits_are_below_the_threshold(n, dtype):
    p = 0.3
    torch.manual_seed(5)
    seed = torch.empty((), dtype=torch.int64).random_().item()
    expected = [
        0.0 if split_mix_64(seed, i // 4) >> 16 * (i % 4) & 0xFFFF < round(p * 2**16) else 1 / (1 - p) for i in range(n)
    ]
    torch.manual_seed(5)
    assert torch.equal(dropout(torch.ones(n, dtype=dtype), p), torch.tensor(expected, dtype=dtype))


def test_the_first_numbers_of_the_listing_are_those_that_others_publish():
    # the test vector of SplitMix64 for seed 1234567 (Vigna's splitmix64.c; Rosetta Code)
    published = [6457827717110365317, 3203168211198807973, 9817491932198370423]
    assert [split_mix_64(1234567, i) for i in (1, 2, 3)] == published


def test_dropout_zeroes_a_share_and_keeps_the_mean():
    p = 0.2
    torch.manual_seed(1)
    x = torch.full((1009, 211), 3.0, requires_grad=True)
    y = dropout(x, p)
    y.sum().backward()
    torch.testing.assert_close(3 * x.grad, y.detach())
    n, zeros = y.numel(), int((y == 0).sum())
    assert abs(zeros / n - p) < 5 * (p * (1 - p) / n) ** 0.5  # five standard errors
    assert y.unique().tolist() == pytest.approx([0.0, 3 / (1 - p)])


def test_dropout_is_repeated_by_its_seed_and_off_in_evaluation():
    layer, x = Dropout(0.5), torch.ones(1009)
    one, another, again = (torch.manual_seed(seed) and layer(x) for seed in (1, 2, 1))
    assert torch.equal(one, again)
    assert not torch.equal(one, another)
    assert layer.eval()(x) is x
    assert dropout(x, 0.0) is x
