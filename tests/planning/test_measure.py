"""Measuring runs the training loop for a moment, under a stopwatch."""

import numpy as np
import pytest
import torch
from plans import RAW

from bukva.config.load import parse_params
from bukva.models.device import Machine
from bukva.models.registry import count_parameters
from bukva.models.window_rule import nats_of, stride_of
from bukva.planning import measure
from bukva.planning.measure import Measuring, Stopwatch
from bukva.planning.plan import Size, Speed
from bukva.text.tokenizers.char import CharTokenizer
from bukva.training.parallel import ALONE
from bukva.training.run import run_training, start

BLOCK_SIZE, VOCABULARY = 11, "абвгдеё"


@pytest.fixture
def measuring():
    """A tiny text on the CPU of this machine."""
    raw = RAW | {"model": RAW["model"] | {"block_size": BLOCK_SIZE}}
    splits = {split: (np.arange(n) % len(VOCABULARY)).astype(np.uint8) for split, n in (("train", 307), ("val", 101))}
    machine = Machine(torch.device("cpu"), torch.float32)
    return Measuring(raw, parse_params(raw, "test"), splits, CharTokenizer.train([VOCABULARY]), machine)


def timed(measuring, readings):
    """A training under a stopwatch whose clock gives these readings, step -> times; returns state and stopwatch."""
    left = {step: list(times) for step, times in readings.items()}
    _, task = measuring._task(Size(1, 32), 3)
    state = start(task)
    stopwatch = Stopwatch(lambda: left[state.step].pop(0))
    run_training(task, state, [stopwatch])
    assert not any(left.values())
    return state, stopwatch


def test_the_stopwatch_times_the_scoring_and_rounds_of_updates_after_the_warm_up_until_a_second_is_over(measuring):
    """Scoring takes 5 s, and two updates 90 s; then 3 take 0.2 s, 9 take 0.9 s and 21 take 2.1 s."""
    readings = {0: [100.0, 105.0], 2: [195.0], 5: [195.2], 11: [195.9], 23: [197.1]}
    state, stopwatch = timed(measuring, readings)
    assert (stopwatch.seconds_per_scoring, stopwatch.seconds_per_update) == (5.0, pytest.approx(0.1))
    assert state.step == 23
    assert timed(measuring, {0: [0.0, 0.0], 2: [5.0], 5: [6.0]})[0].step == 5  # exactly a second is enough


def test_a_size_is_measured_with_its_batch_and_a_sample_of_val_whose_time_is_that_of_the_whole(measuring, monkeypatch):
    """50 of the 100 characters take 3 s; three updates of 5 windows take 6 s."""
    monkeypatch.setattr(measure, "SCORED_IDS", 50)
    readings = iter([0.0, 3.0, 3.0, 9.0])
    monkeypatch.setattr(Measuring, "_now", lambda _: next(readings))
    config, task = measuring._task(Size(2, 32), 5)
    assert (config.n_layer, config.n_head, config.n_embd, config.vocab_size) == (2, 1, 32, len(VOCABULARY))
    expected = Speed(Size(2, 32), count_parameters(config), 5, 5 * BLOCK_SIZE, 2.0, 6.0)
    assert measuring.speed(Size(2, 32), 5) == expected
    model = start(task).model
    nats = nats_of(model, measuring.splits["val"][:51], BLOCK_SIZE, stride_of(BLOCK_SIZE))
    assert task.score_val(model, ALONE) == pytest.approx(nats.mean(), rel=1e-6)
