"""Tests of the sample lines that a model writes during training."""

import copy

import pytest
import torch
from equality import same
from tiny import SHAPE, TOKENIZER, WITH_MEMORY, Call, run, task

from bukva.durability.progress import LINE_CHARS, SAMPLES, Samples, on_one_line
from bukva.evaluation.sampling import generate
from bukva.training.run import start

memory = pytest.param(WITH_MEMORY, id="memory", marks=pytest.mark.slow)
plain_and_memory = pytest.mark.parametrize("shape", [pytest.param(SHAPE, id="plain"), memory])


def trained(task, state=None, callbacks=()):
    """Train with the callback `Samples`. Return the state and every saved version of the file."""
    files = []

    def keep(name, content):
        assert name == SAMPLES
        files.append(content)

    state, _ = run(task, state, [Samples(task, TOKENIZER, keep), *callbacks])
    return state, files


@plain_and_memory
def test_each_scoring_has_a_line_that_its_weights_write_after_the_opening(shape):
    numbers = task(shape, learning_rate=0.5)
    state, _ = trained(numbers)
    ids = torch.tensor([[0]])  # the vocabulary has no newline, so the prompt is its first character
    rng = torch.Generator().manual_seed(numbers.recipe.seed)
    last = generate(state.model.eval(), ids, LINE_CHARS, temperature=0.8, top_k=0, top_p=1.0, rng=rng)
    assert state.samples[-1] == TOKENIZER.decode(last[0].numpy())
    assert len(state.samples) == len(state.curve) == 4
    assert len(set(state.samples)) > 1


@plain_and_memory
def test_lines_change_no_weight_and_no_loss(shape):
    plain, (watched, _) = run(task(shape))[0], trained(task(shape))
    same(watched.state_dict() | {"samples": []}, plain.state_dict())


def test_a_resumed_training_has_the_lines_of_a_whole_one():
    def stop(state, progress):
        state.stop_requested = True

    whole, files = trained(task())
    first, _ = trained(task(), callbacks=[Call(6, stop)])
    second = start(task(seed=5))
    second.load_state_dict(copy.deepcopy(first.state_dict()))
    resumed, again = trained(task(), state=second)
    assert resumed.samples == whole.samples
    assert again[0] == files[len(first.samples) - 1]  # saved again before the next update
    assert again[-1] == files[-1]


def test_a_line_holds_nothing_that_a_terminal_obeys():
    assert on_one_line("а\nб\tв\u00a0г\x1b[31mд\u202eе\r") == "а↵б в г[31mде "
