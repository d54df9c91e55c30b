"""Every model is found by its name and built from its config."""

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


@pytest.mark.parametrize("name", MODELS)
def test_an_empty_model_has_names_and_shapes_without_memory(name):
    config = CONFIGS[name]
    empty, whole = (made.state_dict() for made in (build_empty(config), build(config)))
    assert list(empty) == list(whole)
    assert all(tensor.is_meta and tensor.shape == whole[name].shape for name, tensor in empty.items())
    assert count_parameters(BigramConfig(2**24, T)) == 2**48  # larger than any memory


def test_the_logits_of_a_bigram_are_the_row_of_the_last_character():
    model, ids = build(CONFIGS["bigram"]), torch.tensor([[1, 2, 3], [12, 0, 3]])
    assert torch.equal(model(ids), model.table.weight[ids])
    assert (model.hidden_matrices(), model.new_cache()) == ({}, None)
