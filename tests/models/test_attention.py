"""Attention, compared with the loops of the lecture notes and closed forms."""

import pytest
import torch
from lecture import Head, attend_by_loop, heads_by_loop, rotate_by_complex_numbers
from torch import nn

from bukva.models.attention import ATTEND, Attention, LayerCache, explain, rotary_cos_sin, rotate

B, T, S, nh, hs = 2, 5, 7, 3, 11
C = nh * hs

kernels = pytest.mark.parametrize("kernel", ATTEND)
both_masks = pytest.mark.parametrize("causal", [True, False])


def rand(*shape, seed=1):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def layer(*, n_embd=C, n_head=nh, causal=True, kernel="fused", bias=False):
    """Return a layer in float64. All its parameters and biases are far from 0, so a fault changes the output."""
    attention = Attention(n_embd, n_head, causal=causal, dropout=0.0, bias=bias, kernel=kernel).double().eval()
    for seed, parameter in enumerate(attention.parameters()):
        parameter.data = rand(*parameter.shape, seed=seed) * parameter.shape[-1] ** -0.5
    return attention


def close(a, b, atol=1e-12):
    torch.testing.assert_close(a, b, rtol=0, atol=atol)


@kernels
@pytest.mark.parametrize(
    ("n_queries", "n_keys", "causal"), [(T, T, True), (T, S, True), (1, S, True), (T, T, False), (S, T, False)]
)
def test_a_kernel_equals_the_loops_of_the_lecture_notes(kernel, n_queries, n_keys, causal):
    q, k, v = rand(B, nh, n_queries, hs, seed=1), rand(B, nh, n_keys, hs, seed=2), rand(B, nh, n_keys, hs, seed=3)
    close(ATTEND[kernel](q, k, v, causal=causal, dropout=0.0), attend_by_loop(q, k, v, causal=causal))


@kernels
def test_the_output_of_a_bf16_layer_is_bf16(kernel):
    attention, x = layer(kernel=kernel), rand(B, T, C, seed=9)
    y = layer(kernel=kernel).bfloat16()(x.bfloat16())
    assert y.dtype == torch.bfloat16
    close(y.double(), attention(x), atol=0.05)


@both_masks
def test_explain_returns_the_average_and_its_weights(causal):
    q, k, v = rand(B, nh, T, hs, seed=1), rand(B, nh, S, hs, seed=2), rand(B, nh, S, hs, seed=3)
    y, weights = explain(q, k, v, causal=causal)
    close(explain(q, k, v, causal=causal, dropout=0.5)[1], weights)  # the weights before dropout
    close(weights @ v, y)


def single_heads(attention):
    """Return the heads of a layer as separate modules, each with its rows of the packed weights."""
    n_embd, size = attention.proj.in_features, attention.proj.in_features // attention.n_head

    def rows_of(number, head):
        rows = slice(number * n_embd + head * size, number * n_embd + (head + 1) * size)
        bias = None if attention.qkv.bias is None else attention.qkv.bias[rows]
        return lambda position: nn.functional.linear(position, attention.qkv.weight[rows], bias)

    return [Head(*(rows_of(number, head) for number in range(3))) for head in range(attention.n_head)]


@kernels
@pytest.mark.parametrize(("n_keys", "causal"), [(T, True), (T, False), (S, False)], ids=["causal", "all", "cross"])
@pytest.mark.parametrize(("n_head", "bias"), [(1, False), (nh, True)])
def test_the_layer_equals_its_heads_one_by_one(kernel, n_keys, causal, bias, n_head):
    ours, x = layer(n_head=n_head, causal=causal, kernel=kernel, bias=bias), rand(B, T, C, seed=9)
    memory = x if n_keys == T else rand(B, S, C, seed=10)
    y = ours(x) if memory is x else ours(x, memory)
    close(y, heads_by_loop(x, memory, single_heads(ours), ours.proj, causal=causal))


def test_rotation_equals_complex_multiplication():
    x, positions = rand(B, nh, T, 14), range(40, 40 + T)
    close(rotate(x, rotary_cos_sin(40, 40 + T, 14)), rotate_by_complex_numbers(x, positions), atol=1e-5)


def test_more_positions_than_the_cache_holds_are_an_error_and_change_nothing():
    cache, k, v = LayerCache(T), rand(B, nh, T - 1, hs), rand(B, nh, T - 1, hs, seed=2)
    cache.append(k, v)
    with pytest.raises(ValueError, match=r"^The KV cache is too small for 6 positions. It has room for 5 positions.$"):
        cache.append(k[:, :, :2], v[:, :, :2])
    kept, _ = cache.append(v[:, :, :1], k[:, :, :1])
    close(kept, torch.cat([k, v[:, :, :1]], dim=2), atol=0)


@kernels
@both_masks
def test_dropout_zeroes_weights_and_scales_the_others(kernel, causal):
    q, k, each = rand(300, S, S), rand(300, S, S, seed=2), torch.eye(S, dtype=torch.float64).expand(300, S, S)
    whole = ATTEND[kernel](q, k, each, causal=causal, dropout=0.0)  # the weights themselves
    torch.manual_seed(3)
    dropped = ATTEND[kernel](q, k, each, causal=causal, dropout=0.25)
    left = dropped != 0
    torch.testing.assert_close(dropped[left], whole[left] / 0.75, rtol=1e-7, atol=0)  # the factor is float32
    assert left[whole > 0].double().mean().item() == pytest.approx(0.75, abs=0.02)
