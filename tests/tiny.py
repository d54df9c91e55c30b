"""A training that takes milliseconds: a narrow GPT on 300 characters, of which each is followed by one of two."""

import dataclasses

import numpy as np
import torch

from bukva.backends.device import Machine
from bukva.core.params import read_params
from bukva.models.gpt import GPTConfig
from bukva.text.tokenizers import CharTokenizer
from bukva.training.run import Task, run_training, start
from tests.support.imports import SHIPPED

V, T = 7, 5
CPU = Machine(torch.device("cpu"), torch.float32)
SHAPE = GPTConfig(V, n_layer=1, n_head=1, n_embd=8, block_size=T, dropout=0.2)
TAUGHT = dataclasses.replace(SHAPE, ngrams="targets", ngram_orders=(2, 4))
WITH_MEMORY = dataclasses.replace(SHAPE, ngrams="input", ngram_orders=(2, 4))
TOKENIZER = CharTokenizer(list("абвгдеж"))
RECIPE = {
    "optimizer": "adamw",
    "n_steps": 10,
    "eval_every": 4,
    "batch_size": 3,
    "learning_rate": 0.01,
    "warmup_steps": 2,
}


def recipe(**changes):
    """Section train_gpt of params.yaml, made tiny, with changes."""
    return read_params(SHIPPED).train_gpt.model_copy(update=RECIPE | changes)


def splits():
    ids = (np.random.default_rng(1).integers(2, size=300).cumsum() % V).astype(np.uint8)
    return {"train": ids[:200], "val": ids[200:]}


def task(config=SHAPE, machine=CPU, tokenizer=TOKENIZER, **changes):
    return Task.of(config, splits(), tokenizer, recipe(**changes), machine)


def far_from_zero(model, std=0.3):
    """Draw all weights again, so that a fault in the use of any of them changes the output; returns the model."""
    generator = torch.Generator().manual_seed(5)
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=std, generator=generator)
    return model.eval()


class Record:
    """A callback that keeps what the training loop calls it with."""

    def __init__(self):
        self.calls, self.progress = [], []

    def on_start(self, state):
        self.calls.append(("on_start", state.step))

    def on_update(self, state, progress):
        self.calls.append(("on_update", state.step))
        self.progress.append(progress)

    def on_end(self, state):
        self.calls.append(("on_end", state.step))


class Call(Record):
    """A callback that also calls a function of state and progress after one step."""

    def __init__(self, step, function):
        super().__init__()
        self.step, self.function = step, function

    def on_update(self, state, progress):
        super().on_update(state, progress)
        if progress.step == self.step:
            self.function(state, progress)


def run(task, state=None, callbacks=()):
    """Train to the end; returns the state and the progress of every update."""
    record = Record()
    state = state or start(task)
    run_training(task, state, [*callbacks, record])
    return state, record.progress
