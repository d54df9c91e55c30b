"""Every model is found by its name, built from its config, and gives its hidden layers to optimizers."""

import pytest
import torch

from bukva.models.bigram import BigramConfig
from bukva.models.gpt import GPTConfig
from bukva.models.registry import MODELS, build, build_empty, count_parameters

V, T = 13, 5
CONFIGS = {
    "bigram": BigramConfig(V, T),
    "gpt": GPTConfig(V, n_layer=3, n_head=2, n_embd=8, block_size=T, dropout=0.1, bias=True),
}

every_model = pytest.mark.parametrize("name", MODELS)


@every_model
def test_a_model_is_built_by_its_config(name):
    config = CONFIGS[name]
    assert (MODELS[name], config.name) == (type(config), name)
    model = build(config)
    assert (model.config, model.block_size) == (config, T)
    assert model(torch.zeros(2, 3, dtype=torch.int64)).shape == (2, 3, V)


@every_model
def test_an_empty_model_has_names_and_shapes_without_memory(name):
    config = CONFIGS[name]
    empty, whole = (made.state_dict() for made in (build_empty(config), build(config)))
    assert list(empty) == list(whole)
    assert all(tensor.is_meta and tensor.shape == whole[name].shape for name, tensor in empty.items())
    assert count_parameters(BigramConfig(2**24, T)) == 2**48  # larger than any memory


@every_model
def test_a_model_is_initialised_from_the_global_generator(name):
    weights = []
    for seed in (1, 1, 2):
        torch.manual_seed(seed)
        weights.append(torch.cat([parameter.flatten() for parameter in build(CONFIGS[name]).parameters()]))
    assert torch.equal(weights[0], weights[1])
    assert not torch.equal(weights[0], weights[2])


def test_the_logits_of_a_bigram_are_the_row_of_the_last_character():
    model, ids = build(CONFIGS["bigram"]), torch.tensor([[1, 2, 3], [12, 0, 3]])
    assert torch.equal(model(ids), model.table.weight[ids])
    assert (model.hidden_matrices(), model.new_cache()) == ({}, None)
