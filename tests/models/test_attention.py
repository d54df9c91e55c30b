"""Attention against the lecture's loops, torch's own layer and closed forms."""

import pytest
import torch
from lecture import attend_by_loop, average_by_loop
from torch import nn

from bukva.models.attention import ATTEND, Attention, attention_weights, causal_mask

B, T, S, nh, hs = 2, 5, 7, 3, 11
C = nh * hs


def rand(*shape, seed=1):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def layer(*, causal=True, kernel="fused", dropout=0.0):
    torch.manual_seed(2)
    return Attention(C, nh, causal=causal, dropout=dropout, kernel=kernel).double().eval()


def close(a, b):
    torch.testing.assert_close(a, b, rtol=0, atol=1e-12)


@pytest.mark.parametrize("kernel", ATTEND)
@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize(("n_queries", "n_keys"), [(T, T), (T, S), (1, S), (1, 1)])
def test_both_kernels_equal_the_lectures_loops(kernel, causal, n_queries, n_keys):
    q, k, v = rand(B, nh, n_queries, hs, seed=1), rand(B, nh, n_keys, hs, seed=2), rand(B, nh, n_keys, hs, seed=3)
    close(ATTEND[kernel](q, k, v, causal=causal, dropout=0.0), attend_by_loop(q, k, v, causal=causal))


@pytest.mark.parametrize("causal", [True, False])
def test_the_layer_equals_torchs_with_the_same_weights(causal):
    ours, x = layer(causal=causal), rand(B, T, C)
    theirs = nn.MultiheadAttention(C, nh, bias=False, batch_first=True, dtype=torch.float64)
    theirs.load_state_dict({"in_proj_weight": ours.qkv.weight.detach(), "out_proj.weight": ours.proj.weight.detach()})
    hidden = torch.ones(T, T, dtype=torch.bool).triu(1) if causal else None
    close(ours(x), theirs(x, x, x, attn_mask=hidden, need_weights=False)[0])


@pytest.mark.parametrize("kernel", ATTEND)
@pytest.mark.parametrize("t", range(T))
def test_the_future_is_invisible(kernel, t):
    attention, x = layer(kernel=kernel), rand(B, T, C)
    before = attention(x)
    x[:, t + 1 :] = 1e3
    close(attention(x)[:, : t + 1], before[:, : t + 1])


def test_without_the_mask_the_future_is_visible():
    attention, x = layer(causal=False), rand(B, T, C)
    before = attention(x)
    x[:, -1] += 1
    assert (attention(x)[:, 0] - before[:, 0]).abs().min() > 1e-6


@pytest.mark.parametrize("kernel", ATTEND)
def test_batch_elements_never_talk(kernel):
    attention, x = layer(kernel=kernel), rand(B, T, C)
    before = attention(x)
    x[1] = 1e3
    close(attention(x)[0], before[0])


def test_rows_of_weights_sum_to_one_and_the_first_looks_at_itself_only():
    weights = attention_weights(rand(B, nh, T, hs), rand(B, nh, T, hs, seed=2), causal_mask(T, T))
    close(weights.sum(-1), torch.ones(B, nh, T, dtype=torch.float64))
    close(weights[..., 0, :], torch.eye(T, dtype=torch.float64)[0].expand(B, nh, T))


def test_the_queries_are_the_last_of_the_positions():
    assert causal_mask(2, 4).tolist() == [[True, True, True, False], [True, True, True, True]]


def test_equal_scores_average_the_past():
    x = rand(B, T, C)
    same = torch.zeros(B, T, hs, dtype=torch.float64)
    close(attention_weights(same, same, causal_mask(T, T)) @ x, average_by_loop(x))


def test_scores_are_scaled_by_the_head_size():
    q = torch.full((1, 16), 0.5, dtype=torch.float64)
    k = torch.stack([torch.zeros(16), torch.ones(16)]).double()
    close(attention_weights(q, k), torch.tensor([[0.0, 0.5 * 16 / 4]], dtype=torch.float64).softmax(-1))


def test_the_scale_keeps_the_variance_of_scores_near_one():
    q, k = rand(64, 64, 16), rand(64, 64, 16, seed=2)
    raw = q @ k.mT
    assert raw.var().item() == pytest.approx(16, rel=0.05)
    assert (raw * 16**-0.5).var().item() == pytest.approx(1, rel=0.05)


@pytest.mark.parametrize("kernel", ATTEND)
def test_dropout_acts_in_training_only(kernel):
    attention, x = layer(kernel=kernel, dropout=0.5), rand(B, T, C)
    close(attention(x), layer(kernel=kernel)(x))
    assert not torch.allclose(attention.train()(x), attention.eval()(x))


def test_kernels_agree_in_bf16_within_its_precision():
    q, k, v = (rand(B, nh, T, hs, seed=seed).bfloat16() for seed in (1, 2, 3))
    explicit, fused = (ATTEND[kernel](q, k, v, causal=True, dropout=0.0).float() for kernel in ("explicit", "fused"))
    torch.testing.assert_close(explicit, fused, rtol=0, atol=0.05)
