"""What a training shows while it runs, which metrics it logs, and its curve: one row for each scoring."""

import csv

import pytest
from tiny import Call, run, task

from bukva.base import progress as line
from bukva.models.bigram import Bigram, BigramConfig
from bukva.training import progress as module
from bukva.training.curve import COLUMNS, CurveFile
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
    return TrainState(Bigram(BigramConfig(3, 5)), Optimizers([]))


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


def followed(state, progress):
    """Train with the line; returns the metrics that are logged."""
    metrics, shown = [], ProgressLine("train-gpt", 10)
    train(state, [shown, LogMetrics(lambda values, step: metrics.append((step, values)), shown)], progress)
    return metrics


def test_a_training_is_logged_and_shown_in_bits_with_the_speed_of_the_updates_alone(state, clock, capsys):
    state.samples, state.best_step, state.best_val = ["проба"], 3, 2.5
    before, (step, values) = followed(state, updates(clock))
    assert before == (
        0, {"chars_seen": 0, "learning_rate": 0.0, "val_nats_per_char": 4.5, "best_val_nats_per_char": 4.5}
    )  # fmt: skip
    assert (step, values["train_nats_per_char"], values["gradient_norm"]) == (5, 2.5, 0.375)
    assert values["chars_per_second"] == pytest.approx(500)  # four updates of 1,000 characters in 2 s each
    first, *_, last, early, kept = capsys.readouterr().err.splitlines()
    assert first == "train-gpt  0/10:             val 6.492 bits | проба"
    # 5 steps in 41 s, and 5 more; 2.5 and 2.75 nats
    assert last == "train-gpt  5/10: train 3.607 val 3.967 bits | 41 s left | 500 chars/s | проба"
    assert early == "train-gpt: stopped early at step 5: no improvement on val (patience)"
    assert kept == "train-gpt: kept the weights of step 3, the best on val (3.607 bits)"


def test_a_resumed_training_logs_the_scorings_before_the_interruption_first(state, clock):
    state.curve = [Progress(0, 0, 0.0, None, 4.5, 4.5), Progress(3, 3000, 0.1, 2.75, 3.25, 3.0)]
    points = followed(state, [Progress(4, 4000, 0.1), Progress(5, 5000, 0.1, 2.5, 2.75, 2.75)])
    assert [(step, values["val_nats_per_char"]) for step, values in points] == [(0, 4.5), (3, 3.25), (5, 2.75)]


# ---- the curve


def rows(path):
    return list(csv.DictReader(path.read_text().splitlines()))


def test_the_curve_is_written_at_each_scoring_with_the_values_of_the_state(tmp_path):
    found = []
    look = Call(6, lambda *_: found.extend(int(row["step"]) for row in rows(tmp_path / "curve.csv")))
    state, _ = run(task(), callbacks=[CurveFile(tmp_path / "curve.csv"), look])
    table = rows(tmp_path / "curve.csv")
    assert tuple(table[0]) == COLUMNS
    assert found == [0, 4]
    assert [int(row["step"]) for row in table] == [0, 4, 8, 10]
    assert [int(row["chars_seen"]) for row in table] == [0, 60, 120, 150]
    assert table[0]["train_nats_per_char"] == ""
    for name in ("train_nats_per_char", "val_nats_per_char", "learning_rate"):
        assert float(table[3][name]) == getattr(state.curve[3], name)


@pytest.mark.parametrize("step", [5, 10])
def test_a_resumed_training_writes_the_curve_of_a_whole_one(tmp_path, step):
    run(task(), callbacks=[CurveFile(tmp_path / "whole.csv")])
    state, _ = run(task(), callbacks=[Call(step, lambda state, _: setattr(state, "stop_requested", True))])
    state.stop_requested = False
    run(task(), state, [CurveFile(tmp_path / "resumed.csv")])
    assert (tmp_path / "resumed.csv").read_bytes() == (tmp_path / "whole.csv").read_bytes()
