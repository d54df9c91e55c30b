"""Every backend computes what the plain model computes: logits, losses, gradients and whole trainings."""

import dataclasses

import pytest
import torch
from tiny import TOKENIZER, WITH_MEMORY, V, recipe, splits

from bukva.backends import attach, backend_of
from bukva.backends.base import Backend
from bukva.backends.cpu.sublayers import CPUBlock
from bukva.backends.device import Machine
from bukva.models.bigram import Bigram, BigramConfig
from bukva.models.gpt import GPT, Block, GPTConfig
from bukva.training.run import Task, run_training, start

AUTO = Machine(torch.device("cpu"), torch.float32)
PLAIN = dataclasses.replace(AUTO, is_plain=True)
LECTURE = GPTConfig(V, n_layer=2, n_head=3, n_embd=12, block_size=5, dropout=0.0)
DEFAULT = dataclasses.replace(LECTURE, positions="rotary", activation="relu2", qk_norm=True, tie_weights=True)
COUNTED = dataclasses.replace(WITH_MEMORY, dropout=0.0, n_layer=2)
SHAPES = pytest.mark.parametrize("shape", [LECTURE, DEFAULT, COUNTED], ids=["lecture", "default", "ngrams"])


def job(shape, machine, **changes):
    return Task.of(shape, splits(), TOKENIZER, recipe(batch_size=12, **changes), machine)


def computed(shape, machine):
    """Return logits, the loss and the gradients for a batch. Large weights make faults visible."""
    task = job(shape, machine)
    model = start(task).model.train()
    generator = torch.Generator().manual_seed(1)
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, mean=float(parameter.dim() == 1), std=0.2, generator=generator)
    [batch] = task.windows.batch(1, ngrams=model.ngrams)
    loss = model.loss(*batch)
    loss.backward()
    return [model(batch[0]), loss, *(parameter.grad for parameter in model.parameters())]


@SHAPES
def test_logits_losses_and_gradients_are_those_of_the_plain_model(shape):
    for ours, plain in zip(computed(shape, AUTO), computed(shape, PLAIN), strict=True):
        torch.testing.assert_close(ours, plain, rtol=1e-5, atol=1e-5)


@SHAPES
def test_fifty_updates_end_where_fifty_plain_updates_end(shape):
    states = []
    for machine in (AUTO, PLAIN):
        task = job(shape, machine, n_steps=50, eval_every=25, optimizer="muon")
        states.append(start(task))
        run_training(task, states[-1])
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


def test_a_model_without_blocks_stays_as_it_is():
    model = Bigram(BigramConfig(V, 5))
    attach(model, AUTO)
    assert list(dict(model.named_modules())) == ["", "table"]
