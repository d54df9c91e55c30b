"""Attention, compared with the loops of the lecture notes, torch's own layer and closed forms."""

import pytest
import torch
from lecture import Head, attend_by_loop, heads_by_loop, rotate_by_complex_numbers
from torch import nn

from bukva.models.attention import (
    ATTEND,
    Attention,
    LayerCache,
    attention_scores,
    attention_weights,
    causal_mask,
    explain,
    rotary_cos_sin,
    rotate,
)

B, T, S, nh, hs = 2, 5, 7, 3, 11
C = nh * hs

kernels = pytest.mark.parametrize("kernel", ATTEND)
both_masks = pytest.mark.parametrize("causal", [True, False])
with_and_without_bias = pytest.mark.parametrize("bias", [True, False])


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


def same(a, b):
    torch.testing.assert_close(a, b, rtol=0, atol=0)


# ---- the kernels


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
    close(weights, attention_weights(attention_scores(q, k), causal_mask(T, S) if causal else None))
    close(weights @ v, y)
    close(y, attend_by_loop(q, k, v, causal=causal))


# ---- the layer against the lecture notes and against torch


def single_heads(attention):
    """Return the heads of a layer as separate modules, each with its rows of the packed weights."""
    n_embd, size = attention.proj.in_features, attention.proj.in_features // attention.n_head

    def rows_of(number, head):
        rows = slice(number * n_embd + head * size, number * n_embd + (head + 1) * size)
        bias = None if attention.qkv.bias is None else attention.qkv.bias[rows]
        return lambda position: nn.functional.linear(position, attention.qkv.weight[rows], bias)

    return [Head(*(rows_of(number, head) for number in range(3))) for head in range(attention.n_head)]


@kernels
@both_masks
@pytest.mark.parametrize(("n_head", "bias"), [(1, False), (nh, True)])
def test_the_layer_equals_its_heads_one_by_one(kernel, causal, bias, n_head):
    ours, x = layer(n_head=n_head, causal=causal, kernel=kernel, bias=bias), rand(B, T, C, seed=9)
    close(ours(x), heads_by_loop(x, x, single_heads(ours), ours.proj, causal=causal))


def torch_layer(ours, *, bias):
    theirs = nn.MultiheadAttention(C, nh, bias=bias, batch_first=True, dtype=torch.float64).eval()
    weights = {"in_proj_weight": ours.qkv.weight, "out_proj.weight": ours.proj.weight}
    biases = {"in_proj_bias": ours.qkv.bias, "out_proj.bias": ours.proj.bias} if bias else {}
    theirs.load_state_dict({name: tensor.detach() for name, tensor in (weights | biases).items()})
    return theirs


@kernels
@both_masks
@with_and_without_bias
def test_the_layer_equals_that_of_torch_with_the_same_weights(kernel, causal, bias):
    ours, x = layer(causal=causal, kernel=kernel, bias=bias), rand(B, T, C, seed=9)
    future = torch.ones(T, T, dtype=torch.bool).triu(1) if causal else None
    close(ours(x), torch_layer(ours, bias=bias)(x, x, x, attn_mask=future, need_weights=False)[0])


@kernels
@with_and_without_bias
def test_cross_attention_equals_that_of_torch_with_the_same_weights(kernel, bias):
    ours, x, memory = layer(causal=False, kernel=kernel, bias=bias), rand(B, T, C, seed=9), rand(B, S, C, seed=10)
    close(ours(x, memory), torch_layer(ours, bias=bias)(x, memory, memory, need_weights=False)[0])


def influence(attention):
    """Return (T, T): how much the output at t changes with the input at s."""
    slopes = torch.autograd.functional.jacobian(
        lambda x: attention(x).sum(-1)[0], rand(1, T, C, seed=9)
    )  # (T, 1, T, C)
    return slopes[:, 0].abs().sum(-1)


@kernels
def test_each_position_depends_on_itself_and_those_before_it_and_no_others(kernel):
    assert torch.equal(influence(layer(kernel=kernel)) > 0, causal_mask(T, T))
    assert (influence(layer(kernel=kernel, causal=False)) > 1e-6).all()


def test_rotation_equals_complex_multiplication():
    x, positions = rand(B, nh, T, 14), range(40, 40 + T)
    close(rotate(x, rotary_cos_sin(40, 40 + T, 14)), rotate_by_complex_numbers(x, positions), atol=1e-5)


@kernels
@pytest.mark.parametrize("rotary", [False, True])
def test_a_sequence_in_pieces_has_the_same_output(kernel, rotary):
    attention, x = layer(n_embd=24, kernel=kernel), rand(B, T, 24, seed=9)
    cos_sin = rotary_cos_sin(0, T, 8) if rotary else None
    whole = attention(x, cos_sin=cos_sin)
    for lengths in ([T], [1] * T, [2, 3], [3, 1, 1]):
        cache = LayerCache(T)
        pieces = []
        for piece in x.split(lengths, dim=1):
            start, stop = cache.length, cache.length + piece.shape[1]
            pieces.append(attention(piece, cos_sin=rotary_cos_sin(start, stop, 8) if rotary else None, cache=cache))
        close(torch.cat(pieces, dim=1), whole)
        assert cache.length == T


def test_more_positions_than_the_cache_holds_are_an_error_and_change_nothing():
    cache, k, v = LayerCache(T), rand(B, nh, T - 1, hs), rand(B, nh, T - 1, hs, seed=2)
    cache.append(k, v)
    with pytest.raises(ValueError, match=r"^The KV cache is too small for 6 positions. It has room for 5 positions.$"):
        cache.append(k[:, :, :2], v[:, :, :2])
    kept, _ = cache.append(v[:, :, :1], k[:, :, :1])
    same(kept, torch.cat([k, v[:, :, :1]], dim=2))


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
