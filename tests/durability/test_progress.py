"""Tests of the training callbacks that show progress, log metrics and write the loss curve."""

import csv
import dataclasses

import pytest
from tiny import Call, run, task

from bukva.durability import progress as module
from bukva.durability.progress import ProgressReport
from bukva.text.ids import bits
from bukva.training.callback import COLUMNS, CurveFile


@pytest.fixture
def clock(monkeypatch):
    """Replace the clock by one that the test sets."""
    now = [100.0]
    monkeypatch.setattr(module.time, "monotonic", lambda: now[0])
    return now


def scripted():
    """Return a training job with fixed scores on val, whose best weights are not the last."""
    values = iter([4.5, 2.5, 3.0, 2.75])
    return dataclasses.replace(task(), score_val=lambda *_: next(values))


class Journal:
    """A journal that keeps the logged metrics in memory."""

    def __init__(self):
        self.points, self.has_replaced = [], False

    def metrics(self, values, step):
        self.points.append((values, step))

    def replace_finished(self):
        self.has_replaced = True


def test_each_scoring_is_logged_with_the_speed_of_the_updates_alone(clock, capsys):
    journal = Journal()

    def tick(state, progress):
        clock[0] += 30 if progress.val_nats_per_char else 2  # seconds; one update reads 15 characters

    ticks = [Call(step, tick) for step in range(11)]
    state, _ = run(scripted(), callbacks=[*ticks, ProgressReport("train-gpt", task(), journal)])
    assert [step for _, step in journal.points] == [0, 4, 8, 10]
    for (values, step), point in zip(journal.points, state.curve, strict=True):
        known = {name: value for name, value in dataclasses.asdict(point).items() if value is not None}
        speed = {"chars_per_second": pytest.approx(7.5)} if point.step else {}
        assert {"step": step, **values} == known | speed
    assert f"val {bits(4.5):.3f} bits" in capsys.readouterr().err


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
def test_a_resumed_training_logs_and_writes_the_curve_of_a_whole_one(tmp_path, step):
    run(task(), callbacks=[CurveFile(tmp_path / "whole.csv")])
    state, _ = run(task(), callbacks=[Call(step, lambda state, _: setattr(state, "stop_requested", True))])
    state.stop_requested, journal = False, Journal()
    run(task(), state, [CurveFile(tmp_path / "resumed.csv"), ProgressReport("train-gpt", task(), journal)])
    assert journal.has_replaced == (step == 10)  # nothing was left to train
    assert (tmp_path / "resumed.csv").read_bytes() == (tmp_path / "whole.csv").read_bytes()
    assert [step for _, step in journal.points] == [0, 4, 8, 10]
