"""The fused sublayers of a CPU agree with the plain layers, in the forward and the backward pass."""

import ast
import inspect

import pytest
import torch

from bukva.backends.cpu import loops, sublayers
from bukva.backends.cpu.sublayers import CPUBlock, add_attention, add_mlp
from bukva.models.attention import (
    LayerCache,
    attend_fused,
    attention_scores,
    attention_weights,
    causal_mask,
    rotary_cos_sin,
)
from bukva.models.gpt import Block, GPTConfig
from bukva.training.optimizers.muon import Muon

B, T, NH, HS = 3, 37, 2, 10  # rows of attention weights are shorter and longer than COLUMNS
C = NH * HS
DEFAULT = {"positions": "rotary", "qk_norm": True, "activation": "relu2"}
LECTURE = {"positions": "learned", "activation": "gelu"}


def block(n_head=NH, dropout=0.0, *, causal=True, **options):
    """Return a block with large weights, which make faults visible."""
    made = CPUBlock(GPTConfig(7, 1, n_head, C, T, dropout, **options), causal=causal).train()
    generator = torch.Generator().manual_seed(1)
    for parameter in made.parameters():
        torch.nn.init.normal_(parameter, mean=float(parameter.dim() == 1), std=0.4, generator=generator)
    return made


def drawn(*shape, seed=0):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def plain(made, x, angles, of_weights=1.0, of_attention=1.0, of_mlp=1.0):
    """Compute the block with the functions of the lecture notes. Dropout is given as factors, one argument each."""
    layer = made.attention
    q, k, v = layer.split_heads(layer.qkv(made.ln_1(x))).split(NH, dim=1)
    weights = attention_weights(
        attention_scores(layer.norm_and_rotate(q, angles), layer.norm_and_rotate(k, angles)), causal_mask(T, T)
    )
    x = x + layer.proj(layer.join_heads(weights * of_weights @ v)) * of_attention
    return x + made.mlp.proj(made.mlp.activate(made.mlp.fc(made.ln_2(x)))) * of_mlp


def fused(made, x, angles):
    return add_mlp(made, add_attention(made, x, angles))


def with_gradients(function, made, x, *rest):
    x = x.clone().requires_grad_()
    y = function(made, x, *rest)
    return [y, *torch.autograd.grad(y, [x, *made.parameters()], drawn(*y.shape, seed=9))]


def close(actual, expected, tolerance):
    for one, other in zip(actual, expected, strict=True):
        assert (one - other).norm() <= tolerance * other.norm()


@pytest.mark.parametrize("options", [DEFAULT, LECTURE], ids=str)
def test_a_block_equals_the_plain_one_and_in_bf16_it_is_as_near_to_it_as_autocast_is(options):
    made, x = block(**options), drawn(B, T, C)
    angles = rotary_cos_sin(0, T, HS) if options["positions"] == "rotary" else None
    expected = with_gradients(plain, made, x, angles)
    close(with_gradients(fused, made, x, angles), expected, 2e-6)
    with torch.autocast("cpu", torch.bfloat16):
        ours, autocast = with_gradients(fused, made, x, angles), with_gradients(plain, made, x, angles)
    for one, other, exact in zip(ours, autocast, expected, strict=True):
        assert one.dtype == torch.float32
        assert (one - exact).norm() <= 1.5 * (other - exact).norm() + 1e-3 * exact.norm()


def test_dropout_multiplies_the_weights_and_both_outputs_and_the_gradient_sees_the_same_elements():
    p, x, angles = 0.3, drawn(B, T, C), rotary_cos_sin(0, T, HS)
    made = block(dropout=p, **DEFAULT)
    torch.manual_seed(5)
    actual = with_gradients(fused, made, x, angles)
    torch.manual_seed(5)
    factors = [sublayers._dropout(p)(torch.ones(shape)) for shape in ((B, NH, T, T), (B, T, C), (B, T, C))]
    for factor in factors:
        kept = factor > 0
        assert kept.double().mean().item() == pytest.approx(1 - p, abs=0.03)
        torch.testing.assert_close(factor[kept], torch.full_like(factor[kept], 1 / (1 - p)))
    close(actual, with_gradients(plain, made, x, angles, *factors), 2e-6)
    with torch.autocast("cpu", torch.bfloat16):
        torch.manual_seed(5)
        close(with_gradients(fused, made, x, angles), actual, 0.05)
    assert torch.equal(fused(made.eval(), x, angles), fused(block(**DEFAULT), x, angles))


def test_scores_that_are_far_apart_or_far_below_zero_keep_their_weights():
    for shift in (-3e4, 0.0, 3e4):
        scores = 40 * drawn(2, T, T) + shift
        expected = scores.masked_fill(~causal_mask(T, T), float("-inf")).softmax(-1)
        weights = scores.clone()
        loops.softmax(weights.numpy())
        torch.testing.assert_close(weights, expected, rtol=1e-5, atol=1e-30)


def test_a_nan_stays_a_nan():
    made, x = block(**DEFAULT), drawn(B, T, C)
    x[1, 5, 3] = float("nan")
    y = fused(made, x, rotary_cos_sin(0, T, HS))
    assert y[1, 5:].isnan().all()
    assert not y[0].isnan().any()


def test_a_block_uses_them_where_gradients_are_computed_in_float32_and_by_the_kernel_of_a_decoder(monkeypatch):
    used = []
    monkeypatch.setattr(sublayers, "add_mlp", lambda block, x: used.append(block) or add_mlp(block, x))
    made, x, angles = block(**DEFAULT), drawn(B, T, C), rotary_cos_sin(0, T, HS)
    made(x, angles)
    assert used == [made]
    with torch.no_grad():
        made(x, angles)
    made(x, angles, LayerCache(T))
    block(causal=False)(x)
    made.attention.attend = lambda *args, **options: attend_fused(*args, **options)
    made(x, angles)
    made.double()(x.double(), angles)
    assert used == [made]


@pytest.mark.parametrize("changes", [{"bias": True}, {"norm": "rmsnorm"}, {"n_head": 4}], ids=str)
def test_other_blocks_run_in_plain_torch(changes, monkeypatch):
    monkeypatch.setattr(sublayers, "add_mlp", None)
    made, x = block(**LECTURE | changes), drawn(B, T, C)  # four heads have an odd number of channels
    assert torch.equal(made(x), Block.forward(made, x))


@pytest.mark.parametrize("shape", [(7, 13), (13, 7)], ids=["wide", "tall"])
def test_muon_moves_as_in_plain_torch(shape):
    rows, columns = shape
    weights, gradients, momenta = (
        [drawn(3 * rows, columns, seed=s), drawn(rows, columns, seed=s + 1)] for s in (1, 3, 5)
    )
    gradients[0][2] = momenta[0][2] = 0  # a row without a gradient does not move
    for dtype, tolerance in ((torch.float32, 1e-5), (torch.bfloat16, 1e-2)):
        ends = []
        for directions, move in ((Muon.directions, Muon.move), (loops.muon_directions, loops.muon_move)):
            moved, kept = ([each.clone() for each in given] for given in (weights, momenta))
            matrices = directions(gradients, kept, shape, 0.95, dtype)
            move(moved, matrices.reshape(-1, columns), 0.9, 0.1)
            ends.append([*kept, *moved])
            assert matrices.shape == (4, *shape)
        close(ends[1], ends[0], tolerance)
        assert torch.equal(ends[1][2][2], 0.9 * weights[0][2])


def test_no_loop_both_adds_to_a_sum_and_writes_an_array():
    # otherwise the order of additions in compiled code depends on the addresses of the arrays (`compiled_sums`)
    found = [node for node in ast.walk(ast.parse(inspect.getsource(loops))) if isinstance(node, ast.For)]
    mixed_loops = []
    for loop in found:
        inside = [node for statement in loop.body for node in ast.walk(statement)]
        if not any(isinstance(node, ast.For) for node in inside):
            sums = [n for n in inside if isinstance(n, ast.AugAssign) and isinstance(n.target, ast.Name)]
            written = [n for n in inside if isinstance(n, ast.Subscript) and isinstance(n.ctx, ast.Store)]
            mixed_loops += [loop.lineno] if sums and written else []
    assert len(found) > 7
    assert mixed_loops == []
