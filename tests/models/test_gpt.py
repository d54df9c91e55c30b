"""The GPT: equal to one written with loops, causal, of the size of the formula, able to learn."""

import dataclasses
import itertools
import math

import pytest
import torch
import torch.nn.functional as F
from lecture import attend_by_loop, rotate_by_complex_numbers

from bukva.models.gpt import GPT, GPTConfig
from bukva.models.registry import count_parameters
from bukva.models.transformer import TransformerConfig

V, T, B, nh, hs = 23, 5, 2, 3, 4
CONFIG = GPTConfig(vocab_size=V, n_layer=2, n_head=nh, n_embd=nh * hs, block_size=T, dropout=0.0)

OPTIONS = {
    "positions": ["learned", "rotary", "none"],
    "norm": ["layernorm", "rmsnorm"],
    "activation": ["gelu", "relu", "relu2"],
    "bias": [False, True],
    "tie_weights": [False, True],
}
ALL = [dict(zip(OPTIONS, values, strict=True)) for values in itertools.product(*OPTIONS.values())]
PLAIN = ALL[0]
ONE_CHANGED = [PLAIN] + [PLAIN | {name: value} for name, values in OPTIONS.items() for value in values[1:]]

every_option = pytest.mark.parametrize("options", ALL, ids=lambda options: "-".join(map(str, options.values())))
one_option = pytest.mark.parametrize("options", ONE_CHANGED, ids=lambda options: "-".join(map(str, options.values())))


def gpt(*, causal=True, **options):
    """A GPT in float64 whose weights are far enough from 0 that faults show."""
    model = GPT(dataclasses.replace(CONFIG, **options), causal=causal).double().eval()
    generator = torch.Generator().manual_seed(5)
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.3, generator=generator)
    return model


def ids(*shape):
    return torch.randint(V, shape, generator=torch.Generator().manual_seed(6))


def close(a, b, atol=1e-12):
    torch.testing.assert_close(a, b, rtol=0, atol=atol)


def gpt_by_loop(weights, config, x):
    """(B, T) ids -> (B, T, V) logits, with the loops of the lecture notes and no module."""

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
    for i in range(config.n_layer):
        name = f"blocks.{i}"
        q, k, v = map(heads, linear(norm(h, f"{name}.ln_1"), f"{name}.attention.qkv").split(config.n_embd, dim=-1))
        if config.positions == "rotary":
            q, k = (rotate_by_complex_numbers(vectors, range(x.shape[1])) for vectors in (q, k))
        y = torch.cat(attend_by_loop(q, k, v, causal=True).unbind(dim=1), dim=-1)
        h = h + linear(y, f"{name}.attention.proj")
        h = h + linear(activate(linear(norm(h, f"{name}.ln_2"), f"{name}.mlp.fc")), f"{name}.mlp.proj")
    return norm(h, "ln_f") @ weights["wte.weight" if config.tie_weights else "lm_head.weight"].mT


@every_option
def test_it_equals_a_gpt_written_with_loops(options):
    model, x = gpt(**options), ids(B, T)
    with torch.no_grad():  # the angles of rotary positions are float32
        atol = 1e-5 if options["positions"] == "rotary" else 1e-10
        close(model(x), gpt_by_loop(model.state_dict(), model.config, x), atol)


# ---- its size


def formula(config):
    """Embeddings, blocks (4 C^2 of attention, 8 C^2 of the MLP, two norms), the last norm, the head."""
    V, C = config.vocab_size, config.n_embd
    norm = 2 * C if config.norm == "layernorm" else C
    block = 12 * C**2 + 2 * norm + (9 * C if config.bias else 0)  # biases: 3 C + C of attention, 4 C + C of the MLP
    positions = config.block_size * C if config.positions == "learned" else 0
    head = 0 if config.tie_weights else V * C
    return V * C + positions + config.n_layer * block + norm + head


@every_option
def test_the_parameter_count_equals_the_formula(options):
    config = dataclasses.replace(CONFIG, **options)
    assert count_parameters(config) == formula(config)


@pytest.mark.parametrize(("n_layer", "n_head", "n_embd", "block_size"), [(1, 1, 5, 2), (2, 3, 33, 7), (5, 2, 14, 31)])
def test_the_formula_holds_for_other_sizes(n_layer, n_head, n_embd, block_size):
    config = GPTConfig(V, n_layer, n_head, n_embd, block_size, dropout=0.1)
    assert sum(parameter.numel() for parameter in GPT(config).parameters()) == formula(config)
    assert count_parameters(config) == formula(config)


def test_the_default_options_are_those_of_the_lecture_notes():
    assert GPTConfig(V, 2, nh, nh * hs, T, 0.0) == dataclasses.replace(CONFIG, **PLAIN)


@pytest.mark.parametrize("field", [field.name for field in dataclasses.fields(GPTConfig)])
def test_an_invalid_value_is_an_error_that_names_the_field(field):
    assert issubclass(GPTConfig, TransformerConfig)
    with pytest.raises(ValueError, match=rf"^{field} cannot be -1$"):
        dataclasses.replace(CONFIG, **{field: -1})


def test_tied_weights_are_one_tensor():
    model, x = gpt(tie_weights=True), ids(B, T)
    untied = gpt(tie_weights=False)
    assert count_parameters(untied.config) - count_parameters(model.config) == V * nh * hs
    model.wte.weight.data[7] = 0  # character 7 is embedded as 0 and has a logit of 0
    assert (model(x)[..., 7] == 0).all()
    untied.wte.weight.data[7] = 0
    assert (untied(x)[..., 7] != 0).all()


def test_the_gradient_of_tied_weights_is_the_sum_of_both():
    gradients = {}
    for tied in (True, False):
        model, x = gpt(tie_weights=tied), ids(B, T)
        if not tied:
            model.load_state_dict(
                gpt(tie_weights=True).state_dict() | {"lm_head.weight": gpt(tie_weights=True).wte.weight}
            )
        model(x).square().sum().backward()
        gradients[tied] = model.wte.weight.grad if tied else model.wte.weight.grad + model.lm_head.weight.grad
    close(gradients[True], gradients[False], atol=1e-9)


# ---- which positions depend on which


@one_option
def test_the_future_is_invisible(options):
    model, x = gpt(**options), ids(B, T)
    before = model(x)
    for t in range(T - 1):
        changed = x.clone()
        changed[:, t + 1 :] = (x[:, t + 1 :] + 1) % V
        torch.testing.assert_close(model(changed)[:, : t + 1], before[:, : t + 1], rtol=0, atol=0)
        assert (model(changed)[:, t + 1 :] != before[:, t + 1 :]).any()


@one_option
def test_without_its_mask_each_position_sees_its_target(options):
    model, x = gpt(causal=False, **options), ids(B, T)
    changed = x.clone()
    changed[:, -1] = (x[:, -1] + 1) % V
    assert ((model(changed) - model(x)).abs().amax(-1) > 1e-6).all()


def test_elements_of_a_batch_are_independent():
    model, x = gpt(), ids(B, T)
    before = model(x)
    x[1] = 0
    torch.testing.assert_close(model(x)[0], before[0], rtol=0, atol=0)


# ---- caches


@one_option
def test_a_text_in_pieces_has_the_same_logits(options):
    model, x = gpt(**options), ids(B, T)
    whole = model(x)
    pieces = [(first, second, T - first - second) for first in range(1, T + 1) for second in range(T - first + 1)]
    for lengths in [*pieces, (1,) * T]:
        caches = model.new_caches()
        lengths = [length for length in lengths if length]
        close(torch.cat([model(piece, caches) for piece in x.split(lengths, dim=1)], dim=1), whole, atol=1e-9)


def test_more_characters_than_block_size_are_an_error_with_caches_and_without():
    model, caches = gpt(), gpt().new_caches()
    with pytest.raises(ValueError, match="6 characters do not fit block_size 5"):
        model(ids(1, T + 1))
    model(ids(1, T), caches)
    with pytest.raises(ValueError, match="6 characters do not fit block_size 5"):
        model(ids(1, 1), caches)


# ---- learning


def cross_entropy(model, x):
    return F.cross_entropy(model(x[:, :-1]).flatten(0, 1), x[:, 1:].flatten())


def test_an_untrained_gpt_scores_as_the_uniform_distribution():
    torch.manual_seed(5)
    model = GPT(GPTConfig(vocab_size=76, n_layer=4, n_head=4, n_embd=128, block_size=64, dropout=0.0))
    x = torch.randint(76, (16, 65), generator=torch.Generator().manual_seed(6))
    assert cross_entropy(model, x).item() == pytest.approx(math.log(76), abs=0.05)


MODERN = {"positions": "rotary", "norm": "rmsnorm", "activation": "relu2", "bias": True, "tie_weights": True}


@pytest.mark.parametrize("options", [PLAIN, MODERN], ids=["plain", "modern"])
def test_it_memorises_two_windows(options):
    torch.manual_seed(5)
    model, x = GPT(dataclasses.replace(CONFIG, n_embd=36, block_size=7, **options)), ids(2, 8)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    for _ in range(100):
        nats = cross_entropy(model, x)
        optimizer.zero_grad()
        nats.backward()
        optimizer.step()
    assert nats.item() < 0.05


@one_option
def test_every_parameter_has_a_gradient(options):
    model = gpt(**options)
    cross_entropy(model, ids(B, T)).backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.abs().max() > 0, name


def test_dropout_acts_in_training_only():
    model, x = gpt(dropout=0.5), ids(B, T)
    assert not torch.equal(model.train()(x), model(x))
    close(model.eval()(x), gpt()(x))


@pytest.mark.parametrize("value", [0, 1, "true", None])
def test_tie_weights_is_a_bool(value):
    with pytest.raises(ValueError, match="tie_weights cannot be"):
        GPTConfig(V, 2, 3, 33, T, 0.0, tie_weights=value)
