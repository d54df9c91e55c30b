"""Muon, compared with the singular value decomposition; and the parameters that each optimizer updates."""

import dataclasses
import math
import subprocess
import sys

import pytest
import torch

from bukva.core.params import read_params
from bukva.core.schema import OPTIMIZERS
from bukva.models.bigram import Bigram, BigramConfig
from bukva.models.gpt import GPT, GPTConfig
from bukva.training.optimizers import build_optimizer
from bukva.training.optimizers.muon import Muon, orthogonalize
from tests.support.imports import SHIPPED

SHAPE = GPTConfig(13, n_layer=2, n_head=1, n_embd=8, block_size=5, dropout=0.0)


def recipe(**changes):
    return read_params(SHIPPED).train_gpt.model_copy(update={"optimizer": "muon"} | changes)


def matrices(n, rows, columns):
    x = torch.randn(n, rows, columns, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    return x / x.norm(dim=(-2, -1), keepdim=True)


def gpt(**options):
    torch.manual_seed(2)
    return GPT(dataclasses.replace(SHAPE, **options))


@pytest.mark.parametrize(("rows", "columns"), [(7, 7), (5, 11), (11, 5)])
def test_singular_values_become_nearly_one_and_singular_vectors_stay(rows, columns):
    u, _, v = torch.linalg.svd(matrices(3, rows, columns), full_matrices=False)
    before = torch.logspace(0, math.log10(0.004), min(rows, columns), dtype=torch.float64)
    middle = u.mT @ orthogonalize(u * before @ v) @ v.mT  # diagonal if the singular vectors are the same
    values = torch.diagonal(middle, dim1=-2, dim2=-1)
    torch.testing.assert_close(middle, torch.diag_embed(values), rtol=0, atol=1e-10)
    assert values.max() < 1.13
    assert values.min() > 0.85


@pytest.mark.parametrize("n_stacked", [1, 3])
def test_an_update_is_nesterovs_momentum_with_equal_rows_as_large_as_one_of_adamw_and_weights_decay(n_stacked):
    weight = torch.nn.Parameter(torch.ones(5 * n_stacked, 11))
    first, second = matrices(2, 5 * n_stacked, 11).float()
    optimizer = Muon([{"params": [weight], "n_stacked": n_stacked}], lr=0.1, weight_decay=0.5, dtype=torch.float32)
    for gradient in (first, second):
        weight.grad = gradient.clone()
        before = weight.detach().clone()
        optimizer.step()
    momentum = 0.95 * 0.05 * first + 0.05 * second
    for piece, ahead, old in zip(
        *(each.split(5) for each in (weight.detach(), 0.05 * second + 0.95 * momentum, before)), strict=True
    ):
        rows = ahead / ahead.norm(dim=1, keepdim=True)
        update = orthogonalize((rows / rows.norm())[None])[0] * 0.2 * 11**0.5
        assert update.pow(2).mean().sqrt().item() == pytest.approx(0.2, rel=0.25)
        torch.testing.assert_close(piece, old * (1 - 0.1 * 0.5) - 0.1 * update, rtol=0, atol=1e-5)


def test_muon_updates_the_matrices_of_the_blocks_and_adamw_the_rest_by_the_numbers_of_the_recipe():
    model = gpt()
    changes = {"learning_rate": 0.5, "weight_decay": 0.3, "beta2": 0.9}
    muon, adamw = build_optimizer(model, recipe(**changes), torch.bfloat16).optimizers
    names = {id(parameter): name for name, parameter in model.named_parameters()}
    stacked = {names[id(parameter)]: group["n_stacked"] for group in muon.param_groups for parameter in group["params"]}
    assert stacked == {
        f"blocks.{i}.{layer}.weight": n_stacked
        for i in range(2)
        for layer, n_stacked in [("attention.qkv", 3), ("attention.proj", 1), ("mlp.fc", 1), ("mlp.proj", 1)]
    }
    rest = [names[id(parameter)] for group in adamw.param_groups for parameter in group["params"]]
    assert sorted([*rest, *stacked]) == sorted(names.values())  # each parameter once
    assert muon.dtype == torch.bfloat16
    assert {(group["lr"], group["weight_decay"]) for group in muon.param_groups} == {(0.5, 0.3)}
    assert {(group["lr"], group["betas"]) for group in adamw.param_groups} == {(0.5, (0.9, 0.9))}


def test_each_optimizer_is_compared_with_its_formula():
    assert OPTIMIZERS == ["adamw", "muon"], "compare a step of the new one with its paper (adamw: test_run.py)"


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_every_parameter_is_updated_once_and_only_matrices_decay(name):
    for model in (gpt(), gpt(tie_weights=True, bias=True), Bigram(BigramConfig(13, 5))):
        optimizers = build_optimizer(model, recipe(optimizer=name, weight_decay=0.3))
        decays = {id(p): group["weight_decay"] for group in optimizers.param_groups for p in group["params"]}
        assert decays == {id(p): 0.3 if p.dim() >= 2 else 0.0 for p in model.parameters()}
        assert sum(len(group["params"]) for group in optimizers.param_groups) == len(decays)


def test_an_optimizer_does_not_import_torchs_compiler():
    program = """
import sys, torch
from bukva.training.optimizers.adamw import AdamW
from bukva.training.optimizers.muon import Muon
weight = torch.nn.Parameter(torch.ones(5, 3))
weight.grad = torch.ones(5, 3)
for optimizer in (AdamW([weight], fused=True), Muon([{"params": [weight]}], 0.1, 0.0, torch.float32)):
    optimizer.step()
    optimizer.load_state_dict(optimizer.state_dict())
print(float(weight.mean()) < 1, "torch._dynamo" in sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "True False\n"
