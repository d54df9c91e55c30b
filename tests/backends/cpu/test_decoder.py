"""The compiled decoder of single positions agrees with the layers of torch."""

import copy
import dataclasses
import itertools

import pytest
import torch

from bukva.backends.cpu import decoder
from bukva.backends.cpu.backend import CPUStack
from bukva.models.attention import attend_fused
from bukva.models.gpt import ACTIVATIONS, GPT, NORMS, GPTConfig, Stack

V, T, C = 11, 7, 12
CONFIG = GPTConfig(V, n_layer=2, n_head=3, n_embd=C, block_size=T, dropout=0.3)


def gpt(**changes):
    """Return a GPT in evaluation mode with random parameters, including gains and biases."""
    torch.manual_seed(1)
    model = GPT(dataclasses.replace(CONFIG, **changes)).eval()
    model.blocks = CPUStack(model.blocks)
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.5)
    return model


def ids():
    return torch.randint(V, (1, T), generator=torch.Generator().manual_seed(2))


@torch.inference_mode()
def one_by_one(model, ids, n_first=1):
    """Return the logits of (1, T) ids: the first `n_first` are computed together, the others one by one."""
    caches, stops = model.new_cache(), [0, *range(n_first, ids.shape[1] + 1)]
    each = [model(ids[:, start:stop], caches) for start, stop in itertools.pairwise(stops)]
    return torch.cat(each, dim=1)


@pytest.fixture
def seen(monkeypatch):
    """Record the positions that the compiled blocks compute."""
    seen, compute = [], decoder.compute
    monkeypatch.setattr(decoder, "compute", lambda *args: seen.append(args[3]) or compute(*args))
    return seen


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"norm": "rmsnorm"},
        {"activation": "relu"},
        {"activation": "relu2"},
        {"positions": "none", "qk_norm": True},
        {"positions": "rotary", "n_embd": 18},
        {"positions": "rotary", "qk_norm": True, "n_embd": 18, "norm": "rmsnorm"},
        {"bias": True},
        {"n_layer": 1, "n_head": 1, "n_embd": 2},
    ],
    ids=str,
)
def test_positions_one_by_one_are_the_positions_together(changes, seen):
    model, x = gpt(**changes), ids()
    with torch.inference_mode():
        together = model(x)
    assert not seen
    for n_first, first_alone in ((1, 0), (3, 3)):
        torch.testing.assert_close(one_by_one(model, x, n_first), together, rtol=1e-4, atol=1e-5)
        assert seen == list(range(first_alone, T))
        seen.clear()


@torch.inference_mode()
def test_positions_follow_each_other_alone_and_together_and_anew_after_the_caches_are_cleared(seen):
    model, x = gpt(positions="rotary", n_embd=18), ids()
    whole, caches = model(x), model.new_cache()
    for lengths in ([1, 3, 1, 2], [2, 1, 4], [T], [1] * T):
        pieces = torch.cat([model(piece, caches) for piece in x.split(lengths, dim=1)], dim=1)
        torch.testing.assert_close(pieces, whole, rtol=1e-4, atol=1e-5)
        caches.clear()
    assert seen == [0, 4, 2, *range(T)]


def test_a_matrix_in_bf16_is_read_exactly():
    model = gpt(bias=True)
    for layers in model.hidden_layers():
        for layer in layers.layers:
            layer.to(torch.bfloat16)
    rounded = gpt(bias=True)
    rounded.load_state_dict(model.state_dict())  # in float32, but rounded to bf16
    torch.testing.assert_close(one_by_one(model, ids()), one_by_one(rounded, ids()), rtol=1e-5, atol=1e-6)


@torch.inference_mode()
def test_other_positions_are_computed_by_the_layers(seen):
    double, training, replaced, x = gpt().double(), gpt(dropout=0.0).train(), gpt(), ids()
    for block in replaced.blocks:
        block.attention.attend = lambda *args, **options: attend_fused(*args, **options)
    for model, texts in ((double, x), (training, x), (replaced, x), (gpt(), x.expand(2, -1))):
        torch.testing.assert_close(one_by_one(model, texts), model(texts))
    assert not seen


def test_an_activation_that_the_loops_do_not_have_is_computed_by_torch(seen, monkeypatch):
    monkeypatch.setitem(ACTIVATIONS, "tanh", torch.tanh)
    model = gpt(activation="tanh")
    with torch.inference_mode():
        torch.testing.assert_close(one_by_one(model, ids()), model(ids()))
    assert not seen


class HalfNorm(torch.nn.RMSNorm):
    """A norm that no compiled loop computes."""

    def forward(self, x):
        return super().forward(x) / 2


class HalfNormOfAnotherClass(torch.nn.Module):
    """The same norm, with the attributes that the compiled loops would read."""

    def __init__(self, *args):
        super().__init__()
        self.norm = HalfNorm(*args)
        self.weight, self.eps = self.norm.weight, self.norm.eps

    def forward(self, x):
        return self.norm(x)


@pytest.mark.parametrize("norm", [HalfNorm, HalfNormOfAnotherClass])
@pytest.mark.parametrize("place", ["all", "ln_1", "ln_2"])
def test_a_norm_that_the_loops_do_not_have_is_computed_by_torch(norm, place, seen, monkeypatch):
    if place == "all":
        monkeypatch.setitem(NORMS, "half", norm)
        model = gpt(norm="half")
    else:  # only one norm of the last block
        model = gpt(norm="rmsnorm")
        setattr(model.blocks[-1], place, norm(C))
    plain = copy.deepcopy(model)
    plain.blocks = Stack(plain.blocks)
    torch.testing.assert_close(model(ids()), plain(ids()))  # with gradients, so the fused sublayers could compute it
    with torch.inference_mode():
        torch.testing.assert_close(one_by_one(model, ids()), plain(ids()))
    assert not seen


def test_blocks_with_two_kinds_of_norms_are_computed_by_torch(seen):
    model = gpt()
    model.blocks[-1].ln_2 = torch.nn.RMSNorm(C)
    with torch.inference_mode():
        torch.testing.assert_close(one_by_one(model, ids()), model(ids()))
    assert not seen


def test_a_position_with_a_gradient_is_computed_by_the_layers():
    model = gpt()
    model(ids()[:, :1], model.new_cache()).sum().backward()
    assert all(parameter.grad is not None for parameter in model.parameters() if parameter is not model.wpe.weight)


def test_the_epsilon_of_a_norm_without_one_is_that_of_torch():
    x = torch.full((1, C), 1e-4)
    torch.testing.assert_close(torch.nn.RMSNorm(C)(x), x * (x.square().mean() + decoder.EPSILON) ** -0.5)
