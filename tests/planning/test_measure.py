"""Measuring a size runs the training loop for a short time with a stopwatch."""

import time
from types import SimpleNamespace

import pytest
from plans import ALL, BLOCK_SIZE, VOCABULARY, write_project

from bukva.backends.group import ALONE
from bukva.config.load import read_params
from bukva.models.registry import count_parameters
from bukva.models.window_rule import nats_of, stride_of
from bukva.planning import plan as plans
from bukva.planning.plan import Plan, Planner, Size, Stopwatch
from bukva.training.run import start
from bukva.training.state import Progress


def test_the_stopwatch_times_the_scoring_and_updates_after_the_first_ones_until_a_second_is_over():
    """Scoring takes 5 s and the first two updates take 90 s. Every later update takes 0.3 s."""
    readings = iter([100.0, 105.0, 105.0, 150.0, 150.0, 195.0, 195.0, 195.3, 195.6, 195.9, 196.2])
    stopwatch, state = Stopwatch(lambda: next(readings)), SimpleNamespace(stop_requested=False)
    for step in range(7):
        assert not state.stop_requested
        stopwatch.on_update(state, Progress(step, 0, 0.0))
    assert state.stop_requested
    assert (stopwatch.seconds_per_scoring, stopwatch.seconds_per_update) == (5.0, pytest.approx(0.3))


def test_a_gpu_has_more_updates_that_are_not_timed():
    readings = iter(range(100))
    stopwatch, state = Stopwatch(lambda: next(readings), untimed=20), SimpleNamespace(stop_requested=False)
    steps = iter(range(100))
    while not state.stop_requested:
        stopwatch.on_update(state, Progress(step := next(steps), 0, 0.0))
    assert (step, stopwatch.seconds_per_update) == (23, 1.0)


def test_a_size_is_measured_with_its_batch_and_a_sample_of_val_whose_time_is_that_of_the_whole(tmp_path, monkeypatch):
    """Scoring 50 of the 100 characters takes 3 s, and an update takes 2 s."""
    write_project(tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(plans, "SCORED_IDS", 50)
    planner = Planner(read_params(), 1000, time.perf_counter())
    assert 900 < planner.seconds < 950
    readings = iter([0.0, 3.0, 3.0, 3.0, 3.0, 3.0, 3.0, 5.0, 7.0, 9.0])
    monkeypatch.setattr(Planner, "now", lambda _: next(readings))
    config, task = planner.task(Size(2, 32), 5)
    assert (config.n_layer, config.n_head, config.n_embd, config.vocab_size) == (2, 1, 32, len(VOCABULARY))
    batch, n = ALL.train_gpt.batch_size, count_parameters(config)
    expected = Plan(planner.seconds, 307, Size(2, 32), n, batch, batch * BLOCK_SIZE, 2.0, 6.0)
    assert planner.plan(Size(2, 32)) == expected
    model = start(task).model
    nats = nats_of(model, planner.splits["val"][:51], BLOCK_SIZE, stride_of(BLOCK_SIZE))
    assert task.score_val(model, ALONE) == pytest.approx(nats.mean(), rel=1e-6)
