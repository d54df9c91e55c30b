"""Measuring runs the training loop for a moment, under a stopwatch."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch
from plans import ALL, BUDGET, RAW

from bukva.config.load import parse_params
from bukva.models.device import Machine
from bukva.models.registry import count_parameters
from bukva.models.window_rule import nats_of, stride_of
from bukva.planning import measure
from bukva.planning.measure import Measuring, Stopwatch
from bukva.planning.plan import Plan, Size
from bukva.text.tokenizers.char import CharTokenizer
from bukva.training.parallel import ALONE
from bukva.training.run import start
from bukva.training.state import Progress

BLOCK_SIZE, VOCABULARY = 11, "абвгдеё"


@pytest.fixture
def measuring():
    """A tiny text on the CPU of this machine."""
    raw = RAW | {"model": RAW["model"] | {"block_size": BLOCK_SIZE}}
    splits = {split: (np.arange(n) % len(VOCABULARY)).astype(np.uint8) for split, n in (("train", 307), ("val", 101))}
    machine = Machine(torch.device("cpu"), torch.float32)
    return Measuring(raw, parse_params(raw, "test"), splits, CharTokenizer.train([VOCABULARY]), machine)


def test_the_stopwatch_times_the_scoring_and_updates_after_the_warm_up_until_a_second_is_over():
    """Scoring takes 5 s, and the warm-up 90 s; then an update takes 0.3 s."""
    readings = iter([100.0, 105.0, 105.0, 150.0, 150.0, 195.0, 195.0, 195.3, 195.6, 195.9, 196.2])
    stopwatch, state = Stopwatch(lambda: next(readings)), SimpleNamespace(stop_requested=False)
    stopwatch.on_start(state)
    for step in range(7):
        assert not state.stop_requested
        stopwatch.on_update(state, Progress(step, 0, 0.0))
    assert state.stop_requested
    assert (stopwatch.seconds_per_scoring, stopwatch.seconds_per_update) == (5.0, pytest.approx(0.3))


def test_a_size_is_measured_with_its_batch_and_a_sample_of_val_whose_time_is_that_of_the_whole(measuring, monkeypatch):
    """50 of the 100 characters take 3 s; an update takes 2 s."""
    monkeypatch.setattr(measure, "SCORED_IDS", 50)
    readings = iter([0.0, 3.0, 3.0, 3.0, 3.0, 3.0, 3.0, 5.0, 7.0, 9.0])
    monkeypatch.setattr(Measuring, "_now", lambda _: next(readings))
    config, task = measuring._task(Size(2, 32), 5)
    assert (config.n_layer, config.n_head, config.n_embd, config.vocab_size) == (2, 1, 32, len(VOCABULARY))
    batch = ALL.train_gpt.batch_size
    expected = Plan(BUDGET, Size(2, 32), count_parameters(config), batch, batch * BLOCK_SIZE, 2.0, 6.0)
    assert measuring.plan(Size(2, 32), BUDGET) == expected
    model = start(task).model
    nats = nats_of(model, measuring.splits["val"][:51], BLOCK_SIZE, stride_of(BLOCK_SIZE))
    assert task.score_val(model, ALONE) == pytest.approx(nats.mean(), rel=1e-6)
