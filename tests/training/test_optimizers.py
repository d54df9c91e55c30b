"""Muon against the singular value decomposition; who is stepped by what."""

import pytest
import torch

from bukva.config.load import read_params
from bukva.models.bigram import Bigram, BigramConfig
from bukva.models.gpt import GPT, GPTConfig
from bukva.training.optimizers import build_optimizer
from bukva.training.optimizers.muon import ADAMW_SIZE, MOMENTUM, Muon, orthogonalise

SHAPE = GPTConfig(13, n_layer=2, n_head=1, n_embd=8, block_size=5, dropout=0.0)


def recipe(**changes):
    return read_params().train_gpt.model_copy(update={"optimizer": "muon"} | changes)


def matrices(n, rows, columns):
    x = torch.randn(n, rows, columns, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    return x / x.norm(dim=(-2, -1), keepdim=True)


def gpt():
    torch.manual_seed(2)
    return GPT(SHAPE)


@pytest.mark.parametrize(("rows", "columns"), [(7, 7), (5, 11), (11, 5)])
def test_singular_values_come_near_one_and_singular_vectors_stay(rows, columns):
    x = matrices(3, rows, columns)
    y = orthogonalise(x)
    u, _, v = torch.linalg.svd(x, full_matrices=False)
    middle = u.mT @ y @ v.mT  # diagonal, if the vectors stayed
    values = torch.diagonal(middle, dim1=-2, dim2=-1)
    torch.testing.assert_close(middle, torch.diag_embed(values), rtol=0, atol=1e-10)
    assert values.max() < 1.25
    assert values[:, : min(rows, columns) - 1].min() > 0.6  # all but the least, which may have been nearly nothing


def test_a_step_is_as_large_as_one_of_adamw_and_goes_against_the_gradient():
    weight = torch.nn.Parameter(torch.zeros(16, 32))
    weight.grad = matrices(1, 16, 32)[0].float()
    Muon([{"params": [weight]}], lr=0.1, weight_decay=0.0, dtype=torch.float32).step()
    assert weight.pow(2).mean().sqrt().item() == pytest.approx(0.1 * ADAMW_SIZE, rel=0.15)
    assert (weight * weight.grad).sum() < 0


def test_stacked_matrices_are_orthogonalised_each_for_itself():
    stacked = torch.nn.Parameter(torch.zeros(15, 5))
    apart = [torch.nn.Parameter(torch.zeros(5, 5)) for _ in range(3)]
    gradient = matrices(1, 15, 5)[0].float()
    stacked.grad = gradient.clone()
    for part, piece in zip(apart, gradient.split(5), strict=True):
        part.grad = piece.clone()
    Muon([{"params": [stacked], "parts": 3}], lr=0.1, weight_decay=0.0, dtype=torch.float32).step()
    Muon([{"params": apart}], lr=0.1, weight_decay=0.0, dtype=torch.float32).step()
    torch.testing.assert_close(stacked, torch.cat(apart))


def test_momentum_looks_ahead_and_weights_decay():
    weight = torch.nn.Parameter(torch.ones(5, 5))
    first, second = matrices(2, 5, 5).float()
    optimizer = Muon([{"params": [weight]}], lr=0.1, weight_decay=0.5, dtype=torch.float32)
    for gradient in (first, second):
        weight.grad = gradient.clone()
        before = weight.detach().clone()
        optimizer.step()
    momentum = MOMENTUM * (1 - MOMENTUM) * first + (1 - MOMENTUM) * second
    ahead = (1 - MOMENTUM) * second + MOMENTUM * momentum
    update = orthogonalise((ahead / ahead.norm())[None])[0] * ADAMW_SIZE * 5**0.5
    torch.testing.assert_close(weight.detach(), before * (1 - 0.1 * 0.5) - 0.1 * update, rtol=0, atol=1e-5)


def test_muon_steps_the_matrices_of_the_blocks_and_adamw_the_rest():
    model = gpt()
    muon, adamw = build_optimizer(model, recipe()).optimizers
    names = {id(parameter): name for name, parameter in model.named_parameters()}
    stepped = {names[id(parameter)]: group["parts"] for group in muon.param_groups for parameter in group["params"]}
    assert stepped == {
        f"blocks.{i}.{layer}.weight": parts
        for i in range(2)
        for layer, parts in [("attention.qkv", 3), ("attention.proj", 1), ("mlp.fc", 1), ("mlp.proj", 1)]
    }
    rest = {names[id(parameter)] for group in adamw.param_groups for parameter in group["params"]}
    assert rest == set(names.values()) - set(stepped)
    assert {"wte.weight", "lm_head.weight", "ln_f.weight"} <= rest


@pytest.mark.parametrize("model", [gpt(), Bigram(BigramConfig(13, 5))])
def test_adamw_alone_steps_everything(model):
    (adamw,) = build_optimizer(model, recipe(optimizer="adamw")).optimizers
    assert sum(len(group["params"]) for group in adamw.param_groups) == len(list(model.parameters()))
