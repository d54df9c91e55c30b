"""A training with a backend ends where the training of the plain model ends."""

import dataclasses

import pytest
import torch
from tiny import WITH_MEMORY, V, run, task

from bukva.backends import attach, backend_of
from bukva.backends.base import Backend
from bukva.backends.cpu.sublayers import CPUBlock
from bukva.backends.device import Machine
from bukva.models.bigram import Bigram, BigramConfig
from bukva.models.gpt import GPT, Block, GPTConfig

AUTO = Machine(torch.device("cpu"), torch.float32)
PLAIN = dataclasses.replace(AUTO, is_plain=True)
LECTURE = GPTConfig(V, n_layer=2, n_head=3, n_embd=12, block_size=5, dropout=0.0)
DEFAULT = dataclasses.replace(LECTURE, positions="rotary", activation="relu2", qk_norm=True, tie_weights=True)
COUNTED = dataclasses.replace(WITH_MEMORY, dropout=0.0, n_layer=2)


@pytest.mark.parametrize("shape", [LECTURE, DEFAULT, COUNTED], ids=["lecture", "default", "ngrams"])
def test_fifty_updates_end_where_fifty_plain_updates_end(shape):
    states = []
    for machine in (AUTO, PLAIN):
        states.append(run(task(shape, machine, batch_size=12, n_steps=50, eval_every=25, optimizer="muon"))[0])
    for name, weight in states[0].weights().items():
        torch.testing.assert_close(weight, states[1].weights()[name], rtol=1e-3, atol=1e-4)
    for ours, plain in zip(states[0].curve, states[1].curve, strict=True):
        assert ours.val_nats_per_char == pytest.approx(plain.val_nats_per_char, rel=1e-4)


def test_the_plain_backend_replaces_nothing():
    assert type(backend_of(PLAIN)) is Backend
    assert type(backend_of(Machine(torch.device("meta"), torch.float32))) is Backend
    model = GPT(LECTURE)
    names = list(model.state_dict())
    attach(model, AUTO)
    assert {type(block) for block in model.blocks} == {CPUBlock}
    attach(model, PLAIN)
    assert {type(block) for block in model.blocks} == {Block}
    assert list(model.state_dict()) == names
    bigram = Bigram(BigramConfig(V, 5))  # a model without blocks
    attach(bigram, AUTO)
    assert list(dict(bigram.named_modules())) == ["", "table"]
