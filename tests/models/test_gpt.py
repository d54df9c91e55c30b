"""The GPT: equal to a GPT with loops, equal with and without a cache, and its initial weights."""

import dataclasses
import subprocess
import sys
from collections import UserDict

import pytest
import torch
import torch.nn.functional as F
from lecture import attend_by_loop, rotate_by_complex_numbers
from tiny import far_from_zero

from bukva.models.gpt import ACTIVATIONS, GPT, NORMS, GPTConfig
from bukva.models.registry import count_parameters

V, T, B, nh, hs = 23, 5, 2, 3, 4
CONFIG = GPTConfig(vocab_size=V, n_layer=2, n_head=nh, n_embd=nh * hs, block_size=T, dropout=0.0)

MODERN = {"positions": "rotary", "norm": "rmsnorm", "activation": "relu2", "qk_norm": True}
SHAPES = [
    {},
    {"positions": "rotary"},
    {"positions": "none"},
    *({"norm": name} for name in NORMS),
    *({"activation": name} for name in ACTIVATIONS),
    {"qk_norm": True},
    {"bias": True},
    {"tie_weights": True},
    {"short_convolution": True},
    {"hashed_ngrams": (2, 3)},
    MODERN,
    MODERN | {"bias": True, "tie_weights": True, "hashed_ngrams": (4,)},
]
every_option = pytest.mark.parametrize("options", SHAPES, ids=str)


def gpt(**options):
    return far_from_zero(GPT(dataclasses.replace(CONFIG, **options)).double())


def ids(*shape):
    return torch.randint(V, shape, generator=torch.Generator().manual_seed(6))


def close(a, b, atol=1e-12):
    torch.testing.assert_close(a, b, rtol=0, atol=atol)


def row_of(ngram):
    """Return the row of an n-gram in its table: the upper 14 bits of a hash of 64 bits, the last id first."""
    code = 0
    for symbol in reversed(ngram):
        code = code * 6364136223846793005 + symbol + 1
    return code * 2862933555777941757 % 2**64 >> 50


def gpt_by_loop(weights, config, x):
    """Return (B, T, V) logits of (B, T) ids, computed with the loops of the lecture notes and no module."""

    def linear(h, name):
        return h @ weights[f"{name}.weight"].mT + weights.get(f"{name}.bias", 0)

    def norm(h, name):
        if config.norm == "rmsnorm":
            epsilon = torch.finfo(torch.float64).eps
            return h / (h.square().mean(-1, keepdim=True) + epsilon).sqrt() * weights[f"{name}.weight"]
        return F.layer_norm(h, (config.n_embd,), weights[f"{name}.weight"], weights[f"{name}.bias"])

    def heads(h):
        return torch.stack(h.split(config.head_size, dim=-1), dim=1)  # (B, nh, T, hs)

    def activate(h):
        return {"gelu": F.gelu(h), "relu": h.clamp(min=0), "relu2": h.clamp(min=0) ** 2}[config.activation]

    h = weights["wte.weight"][x]
    if config.positions == "learned":
        h = h + weights["wpe.weight"][: x.shape[1]]
    for i, n in enumerate(config.hashed_ngrams):
        padded = F.pad(x, (n - 1, 0), value=-1)
        rows = [[row_of(window) for window in text.unfold(0, n, 1).tolist()] for text in padded]
        table, proj = weights[f"hashed_ngrams.tables.{i}.weight"], weights["hashed_ngrams.proj.weight"]
        h = h + table[torch.tensor(rows)] @ proj[:, 32 * i : 32 * (i + 1)].mT
    for i in range(config.n_layer):
        name = f"blocks.{i}"
        if config.short_convolution:
            of_3, of_2, of_1 = weights[f"convolutions.{i}.weight"].split(config.n_embd)
            before = F.pad(h, (0, 0, 3, 0))
            h = h + of_1 * before[:, 2:-1] + of_2 * before[:, 1:-2] + of_3 * before[:, :-3]
        q, k, v = map(heads, linear(norm(h, f"{name}.ln_1"), f"{name}.attention.qkv").split(config.n_embd, dim=-1))
        if config.qk_norm:
            q, k = (vectors / vectors.square().mean(-1, keepdim=True).sqrt() for vectors in (q, k))
        if config.positions == "rotary":
            q, k = (rotate_by_complex_numbers(vectors, range(x.shape[1])) for vectors in (q, k))
        y = torch.cat(attend_by_loop(q, k, v, causal=True).unbind(dim=1), dim=-1)
        h = h + linear(y, f"{name}.attention.proj")
        h = h + linear(activate(linear(norm(h, f"{name}.ln_2"), f"{name}.mlp.fc")), f"{name}.mlp.proj")
    return norm(h, "ln_f") @ weights["wte.weight" if config.tie_weights else "lm_head.weight"].mT


class Weights(UserDict):
    """The parameters of a model by name. `read` has the names that were looked up."""

    def __init__(self, model):
        super().__init__(model.named_parameters())
        self.read = set()

    def __getitem__(self, name):
        self.read |= {name} & self.data.keys()
        return self.data[name]


@every_option
def test_it_equals_a_gpt_written_with_loops_that_reads_each_of_its_parameters(options):
    model, x = gpt(**options), ids(B, T)
    weights = Weights(model)
    with torch.no_grad():  # the angles of rotary positions are float32
        atol = 1e-5 if model.config.positions == "rotary" else 1e-10
        close(model(x), gpt_by_loop(weights, model.config, x), atol)
    assert weights.read == weights.keys()
    assert count_parameters(model.config) == sum(weight.numel() for weight in weights.values())


@every_option
def test_a_text_in_pieces_has_the_same_logits(options):
    model, x = gpt(**options), ids(B, T)
    whole = model(x)
    for lengths in [[T], [1] * T, [2, 3], [3, 1, 1]]:
        caches = model.new_cache()
        close(torch.cat([model(piece, caches) for piece in x.split(lengths, dim=1)], dim=1), whole, atol=1e-9)


def test_more_characters_than_block_size_are_an_error_with_caches_and_without():
    model = gpt()
    cache = model.new_cache()
    model(ids(1, T), cache)
    for n, cached in ((T + 1, None), (1, cache)):
        with pytest.raises(ValueError, match="have 6 positions, but `block_size` is 5"):
            model(ids(1, n), cached)


def drops_a_quarter(whole, dropped):
    left = dropped != 0
    close(dropped[left], whole[left] / 0.75, 1e-6)  # the factor is float32
    assert left.double().mean().item() == pytest.approx(0.75, abs=0.03)


def test_embeddings_and_the_outputs_of_attention_and_mlp_are_dropped_in_training_only():
    model, x = gpt(dropout=0.25), ids(40, T)
    whole, block, given = model.embed(x, 0)[0], model.blocks[0], []
    drops_a_quarter(whole, model.train().embed(x, 0)[0])
    block.attention.attend = lambda *qkv, dropout, **_: given.append(dropout) or qkv[2]
    for layer in (block.attention, block.mlp):
        drops_a_quarter(layer.eval()(whole), layer.train()(whole))
    assert given == [0.0, 0.25]  # of the weights, which a kernel drops


def fresh(**options):
    torch.manual_seed(7)
    return GPT(dataclasses.replace(CONFIG, n_embd=96, **options))


@pytest.mark.parametrize("n_layer", [1, 8])
@pytest.mark.parametrize("norm", NORMS)
def test_matrices_start_small_projections_smaller_with_depth_norms_at_one_and_biases_at_zero(n_layer, norm):
    for name, weight in fresh(n_layer=n_layer, norm=norm, bias=True).named_parameters():
        if weight.ndim == 1:
            assert (weight == (1 if name.endswith("weight") else 0)).all(), name
        else:
            std = 0.02 / (2 * n_layer) ** 0.5 if name.endswith("proj.weight") else 0.02
            assert weight.std().item() == pytest.approx(std, rel=0.1), name


def test_projections_can_start_at_zero_and_have_gradients():
    model = fresh(proj_init="zero")
    added = {name: weight for name, weight in model.named_parameters() if name.endswith("proj.weight")}
    assert all(not weight.any() for weight in added.values())
    model(torch.arange(5)[None]).square().sum().backward()
    assert all(weight.grad.any() for weight in added.values())


def test_counting_the_parameters_of_a_model_does_not_import_torchs_compiler():
    program = f"""
import sys
from bukva.models.gpt import GPTConfig
from bukva.models.registry import count_parameters
shape = dict(vocab_size=5, n_layer=1, n_head=2, n_embd=8, block_size=7, dropout=0.0)
for options in {[*SHAPES, {"ngrams": "targets"}, {"ngrams": "input"}]}:
    assert count_parameters(GPTConfig(**shape, **options)) > 0
print("torch._dynamo" in sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"
