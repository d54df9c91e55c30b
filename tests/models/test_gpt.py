"""The GPT: causal, of the size the formula says, able to learn."""

import dataclasses
import math

import pytest
import torch
import torch.nn.functional as F

from bukva.models.gpt import GPT, GPTConfig

V, T, B = 23, 7, 3
CONFIG = GPTConfig(vocab_size=V, n_layer=2, n_head=3, n_embd=33, block_size=T, dropout=0.0)


def gpt(config=CONFIG):
    torch.manual_seed(5)
    return GPT(config)


def ids(*shape):
    return torch.randint(V, shape, generator=torch.Generator().manual_seed(6))


@pytest.mark.parametrize(("n_layer", "n_head", "n_embd", "block_size"), [(1, 1, 5, 2), (2, 3, 33, 7), (5, 2, 14, 31)])
def test_the_parameter_count_equals_the_formula(n_layer, n_head, n_embd, block_size):
    config = GPTConfig(V, n_layer, n_head, n_embd, block_size, dropout=0.1)
    assert sum(parameter.numel() for parameter in GPT(config).parameters()) == config.n_parameters


def test_an_untrained_gpt_knows_nothing():
    x = ids(64, T + 1)
    nats = F.cross_entropy(gpt()(x[:, :-1]).flatten(0, 1), x[:, 1:].flatten())
    assert nats.item() == pytest.approx(math.log(V), abs=0.05)


@pytest.mark.parametrize("t", range(T))
def test_the_future_is_invisible(t):
    model, x = gpt().double(), ids(B, T)
    before = model(x)
    x[:, t + 1 :] = (x[:, t + 1 :] + 1) % V
    torch.testing.assert_close(model(x)[:, : t + 1], before[:, : t + 1], rtol=0, atol=1e-12)


def test_order_matters_through_positions_only():
    # one layer: with two, the mask alone already tells the second which characters came first
    model, x = gpt(dataclasses.replace(CONFIG, n_layer=1)).double(), ids(B, T)
    swapped = x[:, [1, 0, *range(2, T)]]
    assert (model(x) - model(swapped))[:, -1].abs().max() > 1e-6
    torch.nn.init.zeros_(model.wpe.weight)
    torch.testing.assert_close(model(x)[:, -1], model(swapped)[:, -1])


def test_more_characters_than_the_block_holds_are_refused():
    with pytest.raises(ValueError, match="do not fit block_size 7"):
        gpt()(ids(1, T + 1))


def test_heads_must_share_the_channels():
    with pytest.raises(ValueError, match="n_head 4 does not divide n_embd 33"):
        GPTConfig(V, 2, 4, 33, T, 0.0)


def test_it_learns_one_window_by_heart():
    model, x = gpt(), ids(2, T + 1)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    for _ in range(120):
        nats = F.cross_entropy(model(x[:, :-1]).flatten(0, 1), x[:, 1:].flatten())
        optimizer.zero_grad()
        nats.backward()
        optimizer.step()
    assert nats.item() < 0.05


def test_dropout_acts_on_every_path_in_training_only():
    model, x = gpt(GPTConfig(V, 2, 3, 33, T, dropout=0.5)), ids(B, T)
    assert not torch.equal(model.train()(x), model(x))
    assert torch.equal(model.eval()(x), model(x))
