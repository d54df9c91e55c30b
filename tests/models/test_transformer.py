"""The stack: its cross-attention, its dropout, its positions and its initial weights; test_gpt.py has the rest."""

import dataclasses

import pytest
import torch

from bukva.models.attention import rotary_cos_sin
from bukva.models.transformer import MLP, NORMS, Block, Transformer, TransformerConfig

V, T, S, B, C = 13, 5, 7, 2, 12
CONFIG = TransformerConfig(vocab_size=V, n_layer=2, n_head=3, n_embd=C, block_size=S, dropout=0.0)


def stack(**options):
    """A stack in float64 whose weights are far enough from 0 that faults show."""
    made = Transformer(dataclasses.replace(CONFIG, **options), causal=True).double().eval()
    generator = torch.Generator().manual_seed(5)
    for parameter in made.parameters():
        torch.nn.init.normal_(parameter, std=0.3, generator=generator)
    return made


def rand(*shape, seed=1):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def ids(*shape):
    return torch.randint(V, shape, generator=torch.Generator().manual_seed(6))


def close(a, b, atol=1e-12):
    torch.testing.assert_close(a, b, rtol=0, atol=atol)


def test_cross_attention_is_between_attention_and_mlp_and_knows_no_positions():
    block, x, memory = Block(CONFIG, causal=True, cross=True).double(), rand(B, T, C), rand(B, S, C, seed=2)
    cos_sin = rotary_cos_sin(0, T, 4)
    y = x + block.attention(block.ln_1(x), cos_sin=cos_sin)
    y = y + block.cross(block.ln_cross(y), memory)
    close(block(x, memory, cos_sin=cos_sin), y + block.mlp(block.ln_2(y)))


def drops_a_quarter(whole, dropped):
    left = dropped != 0
    close(dropped[left], whole[left] / 0.75)
    assert left.double().mean().item() == pytest.approx(0.75, abs=0.03)


def test_the_mlp_drops_a_share_of_its_output_in_training_only():
    mlp, x = MLP(dataclasses.replace(CONFIG, dropout=0.25)).double(), rand(50, T, C)
    drops_a_quarter(mlp.eval()(x), mlp.train()(x))


def test_embeddings_are_dropped_in_training_only():
    made, x = stack(dropout=0.25), ids(40, T)
    made.blocks, made.ln_f = torch.nn.ModuleList(), torch.nn.Identity()
    drops_a_quarter(made.encode(x), made.train().encode(x))


def fresh(**options):
    torch.manual_seed(7)
    return Transformer(dataclasses.replace(CONFIG, n_embd=96, **options), causal=True, cross=True)


@pytest.mark.parametrize("n_layer", [1, 8])
def test_matrices_start_with_a_fiftieth_and_projections_to_the_residual_stream_smaller_with_depth(n_layer):
    deviations = {name: weight.std().item() for name, weight in fresh(n_layer=n_layer).named_parameters()}
    added = [std for name, std in deviations.items() if name.endswith("proj.weight")]
    assert added == [pytest.approx(0.02 / (2 * n_layer) ** 0.5, rel=0.05)] * 3 * n_layer  # attention, cross, MLP
    for name, weight in fresh().named_parameters():
        if weight.ndim == 2 and not name.endswith("proj.weight"):
            assert weight.std().item() == pytest.approx(0.02, rel=0.1), name


def test_projections_can_start_at_zero_and_have_gradients():
    stack = fresh(proj_init="zero")
    added = {name: weight for name, weight in stack.named_parameters() if name.endswith("proj.weight")}
    assert all(not weight.any() for weight in added.values())
    stack.encode(torch.arange(5)[None], torch.randn(1, 3, 96)).square().sum().backward()
    assert all(weight.grad.any() for weight in added.values())


@pytest.mark.parametrize("norm", NORMS)
def test_biases_start_at_zero_and_norms_at_one(norm):
    for name, vector in fresh(norm=norm, bias=True).named_parameters():
        if vector.ndim == 1:
            assert (vector == (1 if name.endswith("weight") else 0)).all(), name
