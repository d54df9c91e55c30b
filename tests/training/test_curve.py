"""The curve is a table with one row for each scoring."""

import csv

import pytest
from tiny import Call, run, task

from bukva.training.curve import COLUMNS, CurveFile
from bukva.training.run import run_training


def rows(path):
    return list(csv.DictReader(path.read_text().splitlines()))


def test_the_curve_has_a_row_for_each_scoring(tmp_path):
    state, _ = run(task(), callbacks=[CurveFile(tmp_path / "curve.csv")])
    table = rows(tmp_path / "curve.csv")
    assert tuple(table[0]) == COLUMNS
    assert [int(row["step"]) for row in table] == [0, 4, 8, 10]
    assert [int(row["chars_seen"]) for row in table] == [0, 60, 120, 150]
    assert table[0]["train_nats_per_char"] == ""
    for name in ("train_nats_per_char", "val_nats_per_char", "learning_rate"):
        assert float(table[3][name]) == getattr(state.curve[3], name)


def test_the_curve_is_written_at_each_scoring(tmp_path):
    found = []
    look = Call(6, lambda *_: found.extend(int(row["step"]) for row in rows(tmp_path / "curve.csv")))
    run(task(), callbacks=[CurveFile(tmp_path / "curve.csv"), look])
    assert found == [0, 4]


@pytest.mark.parametrize("step", [5, 10])
def test_a_resumed_training_writes_the_curve_of_a_whole_one(tmp_path, step):
    run(task(), callbacks=[CurveFile(tmp_path / "whole.csv")])

    def stop(state, progress):
        state.stop_requested = True

    state, _ = run(task(), callbacks=[Call(step, stop)])
    state.stop_requested = False
    run_training(task(), state, [CurveFile(tmp_path / "resumed.csv")])
    assert (tmp_path / "resumed.csv").read_bytes() == (tmp_path / "whole.csv").read_bytes()
