"""Each kernel equals a plain function, forward and backward."""

import pytest
import torch
import torch.nn.functional as F

from bukva.models import kernels
from bukva.models.attention import attend_explicit, attention_weights, causal_mask
from bukva.models.kernels import kept, relu_squared, tiled_attention, unit_mean_square


def drawn(*shape, seed=0):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).requires_grad_()


def gradients(y, inputs):
    dy = torch.randn(y.shape, generator=torch.Generator().manual_seed(9), dtype=y.dtype)
    return torch.autograd.grad(y, inputs, dy)


def test_relu_squared_is_relu_squared():
    x = drawn(7, 5)
    assert torch.equal(relu_squared(x), F.relu(x) ** 2)
    assert torch.autograd.gradcheck(relu_squared, (x,))


def test_unit_mean_square_is_rms_norm_without_a_gain():
    x = drawn(3, 5, 7)
    torch.testing.assert_close(unit_mean_square(x), F.rms_norm(x, (7,)), rtol=1e-6, atol=0)
    y = unit_mean_square(x.float())
    torch.testing.assert_close(y.square().mean(-1), torch.ones(3, 5))
    (ours,), (theirs,) = gradients(unit_mean_square(x), [x]), gradients(F.rms_norm(x, (7,)), [x])
    torch.testing.assert_close(ours, theirs, rtol=1e-6, atol=1e-6)
    assert torch.equal(unit_mean_square(0 * x), 0 * x)


@pytest.fixture(params=[(128, 2**19), (3, 1), (2, 40), (5, 61)])
def tiles(request, monkeypatch):
    queries, weights = request.param
    monkeypatch.setattr(kernels, "QUERIES", queries)
    monkeypatch.setattr(kernels, "WEIGHTS", weights)


@pytest.mark.parametrize(
    ("T", "S", "causal"), [(7, 7, True), (7, 7, False), (3, 11, True), (5, 2, False), (1, 7, True)]
)
def test_tiled_attention_is_attention(tiles, T, S, causal):
    q, k, v = drawn(2, 3, T, 5, seed=1), drawn(2, 3, S, 5, seed=2), drawn(2, 3, S, 5, seed=3)
    y, plain = tiled_attention(q, k, v, causal=causal, dropout=0.0), attend_explicit(q, k, v, causal=causal)
    torch.testing.assert_close(y, plain)
    # keys and values are summed in float32
    torch.testing.assert_close(gradients(y, [q, k, v]), gradients(plain, [q, k, v]), rtol=1e-5, atol=1e-6)


def test_tiled_attention_drops_weights(tiles, monkeypatch):
    T = 7
    factors = kept(torch.Size([6, T, T]), 0.4, torch.empty(0, dtype=torch.float64))

    def known(shape, p, like):  # tiles come in the order of _tiles
        assert p == 0.4
        heads, queries, keys = next(order)
        return factors[heads, queries, keys]

    monkeypatch.setattr(kernels, "kept", known)
    q, k, v = (drawn(2, 3, T, 5, seed=seed) for seed in (1, 2, 3))
    order = iter(kernels._tiles(q.flatten(0, 1), k.flatten(0, 1), True))
    y = tiled_attention(q, k, v, causal=True, dropout=0.4)
    weights = attention_weights(q @ k.mT * 5**-0.5, causal_mask(T, T))
    plain = weights * factors.view(2, 3, T, T) @ v
    torch.testing.assert_close(y, plain)
    torch.testing.assert_close(gradients(y, [q, k, v]), gradients(plain, [q, k, v]), rtol=1e-5, atol=1e-6)


def test_tiled_attention_in_bf16_follows_float32():
    q, k, v = (drawn(2, 3, 67, 16, seed=seed).detach().float() for seed in (1, 2, 3))
    exact = [x.clone().requires_grad_() for x in (q, k, v)]
    rounded = [x.bfloat16().requires_grad_() for x in (q, k, v)]
    y, plain = tiled_attention(*rounded, causal=True, dropout=0.0), attend_explicit(*exact, causal=True)
    torch.testing.assert_close(y.float(), plain, atol=0.03, rtol=0)
    for ours, theirs in zip(gradients(y, rounded), gradients(plain, exact), strict=True):
        assert (ours.float() - theirs).norm() < 0.02 * theirs.norm()
