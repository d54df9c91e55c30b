"""The encoder-decoder reads a whole text and writes another one."""

import dataclasses

import pytest
import torch

from bukva.models.encoder_decoder import EncoderDecoder
from bukva.models.transformer import TransformerConfig

V, B, T, S = 12, 2, 5, 7
START = V - 1  # opens every target, and is not a letter
CONFIG = TransformerConfig(vocab_size=V, n_layer=1, n_head=2, n_embd=32, block_size=S, dropout=0.0)

one_option = pytest.mark.parametrize(
    "options",
    [{}, {"positions": "rotary", "norm": "rmsnorm", "qk_norm": True, "bias": True}],
    ids=["plain", "modern"],
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


def test_more_characters_than_block_size_are_an_error_on_both_sides():
    model = untrained()
    for n_source, n_target in [(S + 1, T), (T, S + 1)]:
        with pytest.raises(ValueError, match="8 characters do not fit block_size 7"):
            model(ids(B, n_source), ids(B, n_target))


# ---- translating


@one_option
def test_translating_with_caches_equals_translating_without(options):
    model = untrained(**options)
    for n_source in (S, 3):
        source = ids(B, n_source)
        assert model.translate(source, START, T).tolist() == translate_without_caches(model, source, T).tolist()
