"""What a training shows while it runs, and which metrics it logs."""

import os

import pytest

from bukva.base import progress as line
from bukva.models.bigram import Bigram, BigramConfig
from bukva.training import progress as module
from bukva.training.optimizers.several import Optimizers
from bukva.training.progress import LogMetrics, ProgressLine
from bukva.training.state import Progress, TrainState


@pytest.fixture
def clock(monkeypatch):
    """A clock that the test sets."""
    now = [100.0]
    for imported in (module, line):
        monkeypatch.setattr(imported.time, "monotonic", lambda: now[0])
    return now


@pytest.fixture
def state():
    """One whose last weights are the best."""
    state = TrainState(Bigram(BigramConfig(3, 5)), Optimizers([]))
    state.best_step = 5
    return state


def updates(clock):
    """Five updates of 1,000 characters in 2 s each; scoring val takes 3 s before the first and 28 s at the last."""
    clock[0] += 3
    yield Progress(0, 0, 0.0, None, 4.5, 4.5)
    for step in range(1, 5):
        clock[0] += 2
        yield Progress(step, step * 1000, 0.1)
    clock[0] += 30
    yield Progress(5, 5000, 0.1, 2.5, 2.75, 2.75, 0.375)


def train(state, callbacks, progress):
    """Call the callbacks as the training loop does."""
    for callback in callbacks:
        callback.on_start(state)
    for point in progress:
        state.step = point.step
        for callback in callbacks:
            callback.on_update(state, point)
    for callback in callbacks:
        callback.on_end(state)


def logged(state, clock, progress):
    metrics, shown = [], ProgressLine("train-gpt", 5)
    train(state, [shown, LogMetrics(lambda values, step: metrics.append((step, values)), shown)], progress)
    return metrics


def test_each_scoring_is_logged_with_the_speed_of_the_updates_alone(state, clock):
    first, last = logged(state, clock, updates(clock))
    assert first == (
        0, {"chars_seen": 0, "learning_rate": 0.0, "val_nats_per_char": 4.5, "best_val_nats_per_char": 4.5}
    )  # fmt: skip
    step, values = last
    assert (step, values["train_nats_per_char"], values["gradient_norm"]) == (5, 2.5, 0.375)
    assert values["chars_per_second"] == pytest.approx(500)  # four updates of 1,000 characters in 2 s each


def test_a_resumed_training_logs_the_scorings_before_the_interruption_first(state, clock):
    state.curve = [Progress(0, 0, 0.0, None, 4.5, 4.5), Progress(3, 3000, 0.1, 2.75, 3.25, 3.0)]
    points = logged(state, clock, [Progress(4, 4000, 0.1), Progress(5, 5000, 0.1, 2.5, 2.75, 2.75)])
    assert [step for step, _ in points] == [0, 3, 5]
    assert points[1][1]["val_nats_per_char"] == 3.25
    assert "chars_per_second" not in points[1][1]


def test_in_a_log_the_line_shows_losses_time_left_speed_and_a_sample(state, clock, capsys):
    state.samples = ["проба"]
    train(state, [ProgressLine("train-gpt", 10)], updates(clock))
    lines = capsys.readouterr().err.splitlines()
    assert lines[0] == "train-gpt  0/10:             val 6.492 bits | проба"
    # 5 steps in 41 s, and 5 more; 2.5 and 2.75 nats
    assert lines[-2] == "train-gpt  5/10: train 3.607 val 3.967 bits | 41 s left | 500 chars/s | проба"


def test_on_a_terminal_the_line_stays_at_a_scoring_with_a_sample(state, clock, capsys, monkeypatch):
    monkeypatch.setattr(line.shutil, "get_terminal_size", lambda *_, **__: os.terminal_size((61, 24)))
    state.samples, shown = ["проба пера"], ProgressLine("train-gpt", 10)
    shown.line.screen = True
    train(state, [shown], updates(clock))
    first, *_, passing, last, early = [text.strip() for text in capsys.readouterr().err.split("\r") if text.strip()]
    assert first == "train-gpt  0/10:             val 6.492 bits | проба пера"
    assert passing == "train-gpt  4/10:             val 6.492 bits | 16 s left | 50"  # cut at the width
    assert last == "train-gpt  5/10: train 3.607 val 3.967 bits | проба пера"
    assert early.startswith("train-gpt: stopped early")


def test_the_line_of_a_resumed_training_starts_with_its_last_losses(state, clock, capsys):
    state.curve = [Progress(3, 3000, 0.1, 2.75, 3.25, 3.0)]
    train(state, [ProgressLine("train-gpt", 4)], [Progress(4, 4000, 0.1)])
    assert capsys.readouterr().err == "train-gpt 4/4: train 3.967 val 4.689 bits\n"


def test_the_last_line_names_the_weights_that_are_kept_unless_they_are_the_last(state, clock, capsys):
    state.best_step, state.best_val = 3, 2.5
    train(state, [ProgressLine("train-gpt", 5)], updates(clock))
    assert capsys.readouterr().err.endswith("train-gpt: kept the weights of step 3, the best on val (3.607 bits)\n")
    state.best_step = 5
    train(state, [ProgressLine("train-gpt", 5)], updates(clock))
    assert "kept" not in capsys.readouterr().err


@pytest.mark.parametrize(("n_steps", "reported"), [(5, False), (10, True)])
def test_a_training_that_stops_early_is_reported(state, clock, capsys, n_steps, reported):
    train(state, [ProgressLine("train-gpt", n_steps)], updates(clock))
    last = capsys.readouterr().err.splitlines()[-1]
    assert (last == "train-gpt: stopped early at step 5: no improvement on val (patience)") is reported
