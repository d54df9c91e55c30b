"""The encoder-decoder reads a whole text and writes another one: here, the same backwards."""

import dataclasses

import pytest
import torch
import torch.nn.functional as F

from bukva.models.attention import attention_scores, attention_weights
from bukva.models.encoder_decoder import EncoderDecoder
from bukva.models.transformer import TransformerConfig

V, B, T, S = 12, 2, 5, 7
START = V - 1  # opens every target, and is not a letter
CONFIG = TransformerConfig(vocab_size=V, n_layer=1, n_head=2, n_embd=32, block_size=S, dropout=0.0)

one_option = pytest.mark.parametrize(
    "options",
    [{}, {"positions": "rotary"}, {"positions": "none"}, {"norm": "rmsnorm"}, {"activation": "relu2"}, {"bias": True}],
    ids=str,
)


def untrained(**options):
    """A model in float64 whose weights are far enough from 0 that faults show."""
    model = EncoderDecoder(dataclasses.replace(CONFIG, n_layer=2, **options)).double().eval()
    generator = torch.Generator().manual_seed(5)
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.3, generator=generator)
    return model


def ids(*shape, seed=6):
    return torch.randint(START, shape, generator=torch.Generator().manual_seed(seed))


def translate_without_caches(model, source, n_chars):
    """The likeliest character one by one; each time all characters written so far are read again."""
    written = torch.full((len(source), 1), START)
    for _ in range(n_chars):
        written = torch.cat([written, model(source, written)[:, -1:].argmax(-1)], dim=1)
    return written[:, 1:]


# ---- learning


@pytest.fixture(scope="module")
def reverser():
    """A model trained on 10,000 random strings of seven letters (of 19 million), each with the same backwards."""
    torch.manual_seed(3)
    model, steps = EncoderDecoder(CONFIG), 200
    rng = torch.Generator().manual_seed(3)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2, betas=(0.9, 0.99))
    for step in range(steps):
        for group in optimizer.param_groups:
            group["lr"] = 1e-2 * min((step + 1) / 20, 1.25 * (1 - step / steps))
        source = torch.randint(START, (50, S), generator=rng)
        target = source.flip(1)
        so_far = torch.cat([torch.full((50, 1), START), target[:, :-1]], dim=1)
        nats = F.cross_entropy(model(source, so_far).flatten(0, 1), target.flatten())
        optimizer.zero_grad()
        nats.backward()
        optimizer.step()
    return model.eval()


def test_it_learns_to_reverse_strings_that_it_was_not_trained_on(reverser):
    source = ids(64, S)
    assert reverser.translate(source, START, S).tolist() == source.flip(1).tolist()


def test_its_attention_is_on_the_character_that_it_copies(reverser):
    """To write character t it attends to character S - 1 - t, and hardly to any other."""
    source, block, normed = ids(20, S), reverser.decoder.blocks[0], []
    so_far = torch.cat([torch.full((20, 1), START), source.flip(1)[:, :-1]], dim=1)
    hook = block.ln_cross.register_forward_hook(lambda _, __, y: normed.append(y))
    reverser(source, so_far)
    hook.remove()
    q, k, _ = map(block.cross.split_heads, block.cross.project(normed[0], reverser.encoder.encode(source)))
    weights = attention_weights(attention_scores(q, k)).mean(0).amax(0)  # (T, S), of the head with the greatest weight
    assert (weights.flip(1).diagonal() > 0.5).all()


# ---- which positions depend on which


@one_option
def test_the_decoder_does_not_see_the_future(options):
    model, source, target = untrained(**options), ids(B, S), ids(B, T, seed=7)
    before = model(source, target)
    for t in range(T):
        changed = target.clone()
        changed[:, t] = (target[:, t] + 1) % START
        differs = (model(source, changed) != before).any(-1).any(0)
        assert differs.tolist() == [False] * t + [True] * (T - t)


@one_option
def test_the_encoder_depends_on_all_positions(options):
    model, source = untrained(**options), ids(B, S)
    before = model.encoder.encode(source)
    for s in range(S):
        changed = source.clone()
        changed[:, s] = (source[:, s] + 1) % START
        assert (model.encoder.encode(changed) != before).any(-1).all()


@one_option
def test_each_written_character_depends_on_every_character_read(options):
    model, source, target = untrained(**options), ids(B, S), ids(B, T, seed=7)
    before = model(source, target)
    for s in range(S):
        changed = source.clone()
        changed[:, s] = (source[:, s] + 1) % START
        assert ((model(changed, target) - before).abs().amax(-1) > 1e-6).all()


def test_elements_of_a_batch_are_independent():
    model, source, target = untrained(), ids(B, S), ids(B, T, seed=7)
    before = model(source, target)
    source[1], target[1] = 0, 0
    torch.testing.assert_close(model(source, target)[0], before[0], rtol=0, atol=0)


# ---- lengths


@pytest.mark.parametrize(("n_source", "n_target"), [(S, T), (T, S), (1, S), (S, 1), (3, 3)])
def test_source_and_target_may_have_different_lengths(n_source, n_target):
    logits = untrained()(ids(B, n_source), ids(B, n_target, seed=7))
    assert logits.shape == (B, n_target, V)


def test_more_characters_than_block_size_are_an_error_on_both_sides():
    model = untrained()
    for n_source, n_target in [(S + 1, T), (T, S + 1)]:
        with pytest.raises(ValueError, match="8 characters do not fit block_size 7"):
            model(ids(B, n_source), ids(B, n_target))


# ---- translating


@one_option
@pytest.mark.parametrize("n_source", [S, 3])
def test_translating_with_caches_equals_translating_without(options, n_source):
    model, source = untrained(**options), ids(B, n_source)
    assert model.translate(source, START, T).tolist() == translate_without_caches(model, source, T).tolist()


def test_a_trained_model_translates_with_caches_as_without(reverser):
    source = ids(8, 4)  # a length that it was not trained on
    assert reverser.translate(source, START, S).tolist() == translate_without_caches(reverser, source, S).tolist()


def test_a_text_is_translated_alike_alone_and_in_a_batch():
    model, source = untrained(), ids(3, S)
    together = model.translate(source, START, T)
    assert together.tolist() == [model.translate(row[None], START, T)[0].tolist() for row in source]


def test_at_most_block_size_characters_are_written():
    model, source = untrained(), ids(B, S)
    assert model.translate(source, START, S).shape == (B, S)
    with pytest.raises(ValueError, match="8 characters do not fit block_size 7"):
        model.translate(source, START, S + 1)
