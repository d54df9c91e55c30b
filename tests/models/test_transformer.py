"""The stack: valid shapes, its parts, which positions depend on which, and the initial weights."""

import dataclasses

import pytest
import torch

from bukva.models.transformer import MLP, NORMS, Block, Transformer, TransformerConfig

V, T, S, B, C = 13, 5, 7, 2, 12
CONFIG = TransformerConfig(vocab_size=V, n_layer=2, n_head=3, n_embd=C, block_size=S, dropout=0.0)

positions = pytest.mark.parametrize("positions", ["learned", "rotary", "none"])


def stack(*, causal=True, cross=False, **options):
    made = Transformer(dataclasses.replace(CONFIG, **options), causal=causal, cross=cross).double().eval()
    generator = torch.Generator().manual_seed(5)
    for parameter in made.parameters():
        torch.nn.init.normal_(parameter, std=0.3, generator=generator)  # far enough from 0 that faults show
    return made


def rand(*shape, seed=1):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def ids(*shape, seed=6):
    return torch.randint(V, shape, generator=torch.Generator().manual_seed(seed))


def close(a, b, atol=1e-12):
    torch.testing.assert_close(a, b, rtol=0, atol=atol)


# ---- valid shapes


@pytest.mark.parametrize("field", ["vocab_size", "n_layer", "n_head", "n_embd", "block_size"])
@pytest.mark.parametrize("value", [0, -1, 1.5, 12.0, "12", True, None, [12], float("nan")])
def test_an_invalid_size_is_an_error_that_names_the_field(field, value):
    with pytest.raises(ValueError, match=rf"^{field} cannot be "):
        dataclasses.replace(CONFIG, **{field: value})


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("n_layer", 1001),
        ("n_layer", 10**12),
        *[("dropout", value) for value in (1.0, 1, -0.1, float("nan"), float("inf"), True, "0.1", None)],
        *[("positions", value) for value in ("sinus", "Learned", "", None, 0, ["learned"], {})],
        *[("norm", value) for value in ("batchnorm", None, True, ["layernorm"])],
        *[("activation", value) for value in ("swish", None, 1, ["gelu"])],
        *[("bias", value) for value in (0, 1, "true", None, [])],
    ],
)
def test_an_invalid_value_is_an_error_that_names_the_field(field, value):
    with pytest.raises(ValueError, match=rf"^{field} cannot be "):
        dataclasses.replace(CONFIG, **{field: value})


def test_the_error_shows_the_value():
    with pytest.raises(ValueError, match=r"^positions cannot be 'sinus'$"):
        dataclasses.replace(CONFIG, positions="sinus")


@pytest.mark.parametrize(("n_embd", "n_head"), [(12, 5), (3, 4)])
def test_heads_have_equal_shares_of_the_channels(n_embd, n_head):
    with pytest.raises(ValueError, match=f"^n_head {n_head} does not divide n_embd {n_embd}$"):
        dataclasses.replace(CONFIG, n_embd=n_embd, n_head=n_head)


def test_rotary_positions_need_pairs_of_channels():
    with pytest.raises(ValueError, match=r"^rotary positions rotate pairs of channels, but a head has 3$"):
        dataclasses.replace(CONFIG, n_head=4, positions="rotary")
    assert dataclasses.replace(CONFIG, n_head=4).head_size == 3


@pytest.mark.parametrize("dropout", [0, 0.0, 0.999])
def test_dropout_may_be_zero_and_nearly_one(dropout):
    assert dataclasses.replace(CONFIG, dropout=dropout).dropout == dropout


def test_a_shape_cannot_be_changed():
    with pytest.raises(dataclasses.FrozenInstanceError):
        CONFIG.n_layer = 3


# ---- the parts in closed form


FORMULAS = {
    "relu": lambda x: x.clamp(min=0),
    "relu2": lambda x: x.clamp(min=0) ** 2,
    "gelu": lambda x: x * 0.5 * (1 + torch.erf(x / 2**0.5)),
}


@pytest.mark.parametrize("activation", FORMULAS)
@pytest.mark.parametrize("bias", [True, False])
def test_the_mlp_has_a_hidden_layer_of_four_times_the_channels(activation, bias):
    mlp, x = MLP(dataclasses.replace(CONFIG, activation=activation, bias=bias)).double(), rand(B, T, C)
    assert mlp.fc.weight.shape == (4 * C, C)
    fc_bias, proj_bias = (layer.bias if bias else torch.zeros(()) for layer in (mlp.fc, mlp.proj))
    close(mlp(x), FORMULAS[activation](x @ mlp.fc.weight.mT + fc_bias) @ mlp.proj.weight.mT + proj_bias)


def test_the_mlp_drops_a_share_of_its_output_in_training_only():
    mlp, x = MLP(dataclasses.replace(CONFIG, dropout=0.25)).double(), rand(50, T, C)
    whole, dropped = mlp.eval()(x), mlp.train()(x)
    left = dropped != 0
    close(dropped[left], whole[left] / 0.75)
    assert left.double().mean().item() == pytest.approx(0.75, abs=0.03)


def test_layernorm_removes_mean_and_variance_and_rmsnorm_the_root_mean_square():
    x = 3 * rand(B, T, C) + 2
    centred = x - x.mean(-1, keepdim=True)
    close(NORMS["layernorm"](C).double()(x), centred / centred.square().mean(-1, keepdim=True).sqrt(), atol=1e-5)
    close(NORMS["rmsnorm"](C).double()(x), x / x.square().mean(-1, keepdim=True).sqrt(), atol=1e-5)


def test_a_block_adds_attention_and_then_the_mlp_each_after_a_norm():
    block, x = Block(CONFIG, causal=True).double(), rand(B, T, C)
    y = x + block.attention(block.ln_1(x))
    close(block(x), y + block.mlp(block.ln_2(y)))


def test_cross_attention_is_between_attention_and_mlp():
    block, x, memory = Block(CONFIG, causal=True, cross=True).double(), rand(B, T, C), rand(B, S, C, seed=2)
    y = x + block.attention(block.ln_1(x))
    y = y + block.cross(block.ln_cross(y), memory)
    close(block(x, memory), y + block.mlp(block.ln_2(y)))


def test_a_stack_with_projections_of_zero_only_embeds():
    made, x = stack(positions="learned"), ids(B, T)
    for name, parameter in made.named_parameters():
        if name.endswith("proj.weight"):
            torch.nn.init.zeros_(parameter)
    close(made.encode(x), made.ln_f(made.wte(x) + made.wpe.weight[:T]))


def test_embeddings_are_dropped_in_training_only():
    made, x = stack(dropout=0.25), ids(40, T)
    made.blocks, made.ln_f = torch.nn.ModuleList(), torch.nn.Identity()
    whole, dropped = made.encode(x), made.train().encode(x)
    left = dropped != 0
    close(dropped[left], whole[left] / 0.75)
    assert left.double().mean().item() == pytest.approx(0.75, abs=0.03)


# ---- which positions depend on which


def dependence(made, x, memory=None):
    """(T, T), whether the output at position t changes with the character at s."""
    before, columns = made.encode(x, memory), []
    for s in range(x.shape[1]):
        changed = x.clone()
        changed[:, s] = (x[:, s] + 1) % V
        columns.append((made.encode(changed, memory) != before).any(-1).any(0))
    return torch.stack(columns, dim=1)


@positions
def test_a_causal_stack_depends_on_the_past_only(positions):
    assert torch.equal(dependence(stack(positions=positions), ids(B, T)), torch.ones(T, T).tril().bool())


@positions
def test_a_stack_without_a_mask_depends_on_all_positions(positions):
    assert dependence(stack(causal=False, positions=positions), ids(B, T)).all()


def test_a_causal_stack_with_a_memory_depends_on_the_past_only():
    made = stack(cross=True)
    assert torch.equal(dependence(made, ids(B, T), rand(B, S, C)), torch.ones(T, T).tril().bool())


@pytest.mark.parametrize("s", range(S))
def test_every_position_depends_on_all_of_the_memory(s):
    made, x, memory = stack(cross=True), ids(B, T), rand(B, S, C)
    before = made.encode(x, memory)
    memory[:, s] += rand(C, seed=2)
    assert ((made.encode(x, memory) - before).abs().amax(-1) > 1e-6).all()


def test_the_order_of_the_memory_does_not_matter():
    made, x, memory = stack(cross=True), ids(B, T), rand(B, S, C)
    close(made.encode(x, memory), made.encode(x, memory.flip(1)))


def test_each_element_of_a_batch_depends_on_its_own_memory():
    made, x, memory = stack(cross=True), ids(B, T), rand(B, S, C)
    before = made.encode(x, memory)
    memory[1] = 7
    torch.testing.assert_close(made.encode(x, memory)[0], before[0], rtol=0, atol=0)


# ---- positions


@pytest.mark.parametrize(("positions", "matters"), [("learned", True), ("rotary", True), ("none", False)])
def test_order_matters_through_positions_only(positions, matters):
    # one layer: with two, the mask alone shows the second which characters came first
    made, x = stack(positions=positions, n_layer=1), ids(B, T)
    swapped = x[:, [1, 0, *range(2, T)]]
    difference = (made.encode(x) - made.encode(swapped))[:, -1].abs().amax()
    assert difference > 1e-3 if matters else difference < 1e-12


def test_two_layers_know_the_order_by_the_mask_alone():
    made, x = stack(positions="none"), ids(B, T)
    assert (made.encode(x) - made.encode(x[:, [1, 0, *range(2, T)]]))[:, -1].abs().amax() > 1e-3


@positions
@pytest.mark.parametrize("held", [0, 1, 4])
def test_more_characters_than_block_size_are_an_error(positions, held):
    made = stack(positions=positions)
    caches = made.new_caches()
    if held:
        made.encode(ids(B, held), caches=caches)
    with pytest.raises(ValueError, match=rf"^{S + 1} characters do not fit block_size {S}$"):
        made.encode(ids(B, S + 1 - held), caches=caches)
    assert [cache.length for cache in caches.layers] == [held, held]


def test_every_layer_has_a_cache_of_its_own_for_the_whole_block():
    made = stack(n_layer=3)
    caches = made.new_caches()
    assert [(cache.size, cache.length) for cache in caches.layers] == [(S, 0)] * 3
    made.encode(ids(B, T), caches=caches)
    assert [cache.length for cache in caches.layers] == [T] * 3


@positions
@pytest.mark.parametrize("cross", [False, True])
def test_with_caches_the_stack_continues_a_text(positions, cross):
    made, x, memory = stack(positions=positions, cross=cross), ids(B, T), rand(B, S, C) if cross else None
    whole = made.encode(x, memory)
    for lengths in [(T,), (1,) * T, (2, 3), (3, 1, 1)]:
        caches = made.new_caches()
        pieces = [made.encode(piece, memory, caches=caches) for piece in x.split(list(lengths), dim=1)]
        close(torch.cat(pieces, dim=1), whole, atol=1e-9)


# ---- initial weights


def fresh(**options):
    torch.manual_seed(7)
    return Transformer(dataclasses.replace(CONFIG, n_embd=96, **options), causal=True, cross=True)


@pytest.mark.parametrize("n_layer", [1, 8])
def test_projections_to_the_residual_stream_start_smaller_with_depth(n_layer):
    weights = {name: weight.std().item() for name, weight in fresh(n_layer=n_layer).named_parameters()}
    added = [std for name, std in weights.items() if name.endswith("proj.weight")]
    assert len(added) == 3 * n_layer  # attention, cross-attention and MLP
    assert added == [pytest.approx(0.02 / (2 * n_layer) ** 0.5, rel=0.05)] * len(added)


def test_projections_can_start_at_zero_and_have_gradients():
    stack = fresh(proj_init="zero")
    added = {name: weight for name, weight in stack.named_parameters() if name.endswith("proj.weight")}
    assert all(not weight.any() for weight in added.values())
    stack.encode(torch.arange(5)[None], torch.randn(1, 3, 96)).square().sum().backward()
    assert all(weight.grad.any() for weight in added.values())


def test_all_other_matrices_start_with_a_standard_deviation_of_a_fiftieth():
    for name, weight in fresh().named_parameters():
        if weight.ndim == 2 and not name.endswith("proj.weight"):
            assert weight.std().item() == pytest.approx(0.02, rel=0.1), name


@pytest.mark.parametrize("norm", NORMS)
def test_biases_start_at_zero_and_norms_at_one(norm):
    for name, vector in fresh(norm=norm, bias=True).named_parameters():
        if vector.ndim == 1:
            assert (vector == (1 if name.endswith("weight") else 0)).all(), name


@pytest.mark.parametrize(
    ("options", "absent"), [({"positions": "rotary"}, "wpe"), ({"positions": "none"}, "wpe"), ({"bias": False}, "bias")]
)
def test_parameters_that_are_not_used_do_not_exist(options, absent):
    names = [name for name, _ in fresh(norm="rmsnorm", **options).named_parameters()]
    assert not [name for name in names if absent in name]


def test_the_variance_of_a_fresh_residual_stream_hardly_grows_with_depth():
    growth = []
    for n_layer in (1, 16):
        made = fresh(n_layer=n_layer, positions="none").eval()
        made.ln_f = torch.nn.Identity()
        x = ids(B, T)
        growth.append((made.encode(x, torch.randn(B, S, 96)) - made.wte(x)).square().mean().item())
    assert growth[1] < 2 * growth[0]


def test_dropout_is_off_in_evaluation():
    made, x, memory = stack(cross=True, dropout=0.5), ids(B, T), rand(B, S, C)
    close(made.encode(x, memory), stack(cross=True).encode(x, memory))
    assert not torch.allclose(made.train().encode(x, memory), made.encode(x, memory))
