"""Muon against the singular value decomposition; which optimizer updates which parameters."""

import dataclasses
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from bukva.config.load import read_params
from bukva.models.bigram import Bigram, BigramConfig
from bukva.models.gpt import GPT, GPTConfig
from bukva.training.optimizers import OPTIMIZERS, build_optimizer, weight_copies
from bukva.training.optimizers.muon import ADAMW_SIZE, MOMENTUM, Muon, orthogonalise

ROOT = Path(__file__).parents[2]
SHAPE = GPTConfig(13, n_layer=2, n_head=1, n_embd=8, block_size=5, dropout=0.0)


def recipe(**changes):
    return read_params().train_gpt.model_copy(update={"optimizer": "muon"} | changes)


def matrices(n, rows, columns):
    x = torch.randn(n, rows, columns, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    return x / x.norm(dim=(-2, -1), keepdim=True)


def gpt(**options):
    torch.manual_seed(2)
    return GPT(dataclasses.replace(SHAPE, **options))


@pytest.mark.parametrize(("rows", "columns"), [(7, 7), (5, 11), (11, 5)])
def test_singular_values_become_nearly_one_and_singular_vectors_stay(rows, columns):
    x = matrices(3, rows, columns)
    y = orthogonalise(x)
    u, _, v = torch.linalg.svd(x, full_matrices=False)
    middle = u.mT @ y @ v.mT  # diagonal if the vectors are the same
    values = torch.diagonal(middle, dim1=-2, dim2=-1)
    torch.testing.assert_close(middle, torch.diag_embed(values), rtol=0, atol=1e-10)
    assert values.max() < 1.25
    assert values[:, : min(rows, columns) - 1].min() > 0.6  # without the least, which may be nearly 0


def test_a_step_is_as_large_as_one_of_adamw_and_against_the_gradient():
    weight = torch.nn.Parameter(torch.zeros(16, 32))
    weight.grad = matrices(1, 16, 32)[0].float()
    Muon([{"params": [weight]}], lr=0.1, weight_decay=0.0, dtype=torch.float32).step()
    assert weight.pow(2).mean().sqrt().item() == pytest.approx(0.1 * ADAMW_SIZE, rel=0.15)
    assert (weight * weight.grad).sum() < 0


def test_stacked_matrices_are_orthogonalised_one_by_one():
    stacked = torch.nn.Parameter(torch.zeros(15, 5))
    separate = [torch.nn.Parameter(torch.zeros(5, 5)) for _ in range(3)]
    gradient = matrices(1, 15, 5)[0].float()
    stacked.grad = gradient.clone()
    for matrix, piece in zip(separate, gradient.split(5), strict=True):
        matrix.grad = piece.clone()
    Muon([{"params": [stacked], "n_stacked": 3}], lr=0.1, weight_decay=0.0, dtype=torch.float32).step()
    Muon([{"params": separate}], lr=0.1, weight_decay=0.0, dtype=torch.float32).step()
    torch.testing.assert_close(stacked, torch.cat(separate))


def test_the_momentum_is_nesterovs_and_weights_decay():
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


# ---- which optimizer updates which parameters


def test_muon_updates_the_matrices_of_the_blocks_and_adamw_the_rest():
    model = gpt()
    muon, adamw = build_optimizer(model, recipe()).optimizers
    names = {id(parameter): name for name, parameter in model.named_parameters()}
    stacked = {names[id(parameter)]: group["n_stacked"] for group in muon.param_groups for parameter in group["params"]}
    assert stacked == {
        f"blocks.{i}.{layer}.weight": n_stacked
        for i in range(2)
        for layer, n_stacked in [("attention.qkv", 3), ("attention.proj", 1), ("mlp.fc", 1), ("mlp.proj", 1)]
    }
    rest = [names[id(parameter)] for group in adamw.param_groups for parameter in group["params"]]
    assert sorted([*rest, *stacked]) == sorted(names.values())  # each once
    assert {"wte.weight", "lm_head.weight", "ln_f.weight"} <= set(rest)


@pytest.mark.parametrize("name", OPTIMIZERS)
@pytest.mark.parametrize("model", [gpt(), gpt(tie_weights=True, bias=True), Bigram(BigramConfig(13, 5))])
def test_every_parameter_is_updated_once(model, name):
    groups = build_optimizer(model, recipe(optimizer=name)).param_groups
    updated = [id(parameter) for group in groups for parameter in group["params"]]
    assert sorted(updated) == sorted(id(parameter) for parameter in model.parameters())


def test_only_matrices_decay():
    (adamw,) = build_optimizer(gpt(bias=True), recipe(optimizer="adamw", weight_decay=0.3)).optimizers
    matrices, vectors = adamw.param_groups
    assert (matrices["weight_decay"], vectors["weight_decay"]) == (0.3, 0.0)
    assert all(parameter.dim() >= 2 for parameter in matrices["params"])
    assert all(parameter.dim() < 2 for parameter in vectors["params"])


def test_the_numbers_of_the_recipe_reach_the_optimizers():
    muon, adamw = build_optimizer(
        gpt(), recipe(learning_rate=0.5, weight_decay=0.3, beta2=0.9), torch.bfloat16
    ).optimizers
    assert muon.dtype == torch.bfloat16
    assert {(group["lr"], group["weight_decay"]) for group in muon.param_groups} == {(0.5, 0.3)}
    assert {(group["lr"], group["betas"]) for group in adamw.param_groups} == {(0.5, (0.9, 0.9))}


def test_the_gradients_are_dropped_in_all_optimizers():
    model = gpt()
    optimizers = build_optimizer(model, recipe())
    model(torch.zeros(1, 3, dtype=torch.int64)).sum().backward()
    optimizers.zero_grad()
    assert all(parameter.grad is None for parameter in model.parameters())


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_the_memory_of_an_optimizer_is_what_it_says(name):
    """Weights, gradients and moments, in tensors of the weights' size."""
    model = GPT(dataclasses.replace(SHAPE, n_embd=64, vocab_size=2))  # nearly all parameters are in the blocks
    optimizers = build_optimizer(model, recipe(optimizer=name))
    model(torch.zeros(1, 3, dtype=torch.int64)).sum().backward()
    optimizers.step()
    held = [value for one in optimizers.optimizers for state in one.state.values() for value in state.values()]
    n_parameters = sum(parameter.numel() for parameter in model.parameters())
    copies = 2 + sum(value.numel() for value in held) / n_parameters
    assert copies == pytest.approx(weight_copies(name), abs=0.05)


def test_training_the_bigram_never_imports_muon():
    program = (
        "import sys\n"
        "from tiny import V, run, task\n"
        "from bukva.models.bigram import BigramConfig\n"
        "import bukva.stage.training, bukva.durability.training, bukva.training.memory\n"
        "run(task(BigramConfig(V, block_size=8), n_steps=2, eval_every=2))\n"
        "print(*(name for name in sys.modules if 'muon' in name and name.startswith('bukva')))"
    )
    path = f"{ROOT / 'src'}:{ROOT / 'tests'}"
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, env=os.environ | {"PYTHONPATH": path}, capture_output=True, text=True
    )
    assert (done.stdout, done.stderr) == ("\n", "")
