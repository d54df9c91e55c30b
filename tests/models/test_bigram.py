"""The bigram depends on one character."""

import math

import pytest
import torch
import torch.nn.functional as F

from bukva.models.bigram import Bigram, BigramConfig
from bukva.models.registry import count_parameters

V = 13


def test_the_logits_are_the_row_of_the_last_character():
    model, ids = Bigram(BigramConfig(V, block_size=8)), torch.tensor([[1, 2, 3], [12, 0, 3]])
    assert torch.equal(model(ids), model.table.weight[ids])


def test_the_logits_depend_on_the_last_character_only():
    model = Bigram(BigramConfig(V, block_size=8))
    assert torch.equal(model(torch.tensor([[1, 2, 3]]))[0, -1], model(torch.tensor([[9, 9, 3]]))[0, -1])


def test_it_has_one_parameter_for_each_pair():
    assert count_parameters(BigramConfig(V, block_size=8)) == V**2


@pytest.mark.parametrize("field", ["vocab_size", "block_size"])
@pytest.mark.parametrize("value", [0, -1, 1.5, "13", True, None])
def test_an_invalid_size_is_an_error_that_names_the_field(field, value):
    with pytest.raises(ValueError, match=rf"^{field} cannot be "):
        BigramConfig(**({"vocab_size": V, "block_size": 8} | {field: value}))


def test_a_table_of_zeros_scores_as_the_uniform_distribution():
    model = Bigram(BigramConfig(V, block_size=8))
    torch.nn.init.zeros_(model.table.weight)
    x = torch.arange(V)[None]
    nats = F.cross_entropy(model(x[:, :-1]).flatten(0, 1), x[:, 1:].flatten())
    assert nats.item() == pytest.approx(math.log(V))
