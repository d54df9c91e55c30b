"""Training callbacks that show progress, log metrics, write the loss curve, and write a line at each validation."""

import copy
import dataclasses
import time

import pandas as pd
import pytest
import torch
from tiny import SHAPE, TOKENIZER, WITH_MEMORY, Call, run, task

from bukva.durability import progress as module
from bukva.durability.progress import LINE_CHARS, ProgressReport, Samples, on_one_line
from bukva.evaluation.sampling import generate
from bukva.text.ids import bits
from bukva.tracking.record import SAMPLES
from bukva.training.callback import COLUMNS, CurveFile
from bukva.training.run import start
from tests.support.equality import same


class Record:
    """A Recorder without files, of a stage that has always run for 11 seconds."""

    def __init__(self):
        self.points, self.seconds_before = [], 0.0

    def curve(self, points):
        self.points = [{name: value for name, value in point.items() if value is not None} for point in points]

    def seconds(self):
        return self.seconds_before + 11.0


def test_each_scoring_is_logged_with_the_speed_of_the_updates_alone(monkeypatch, capsys):
    record, clock, values = Record(), [100.0], iter([4.5, 2.5, 3.0, 2.75])
    monkeypatch.setattr(module.time, "monotonic", lambda: clock[0])

    def tick(state, progress):
        clock[0] += 30 if progress.val_nats_per_char else 2  # seconds; one update reads 15 characters

    started_at, scripted = time.time() * 1000 - 1, dataclasses.replace(task(), score_val=lambda *_: next(values))
    callbacks = [*(Call(step, tick) for step in range(11)), ProgressReport("train-gpt", task(), record)]
    state, _ = run(scripted, callbacks=callbacks)
    assert [point["step"] for point in record.points] == [0, 4, 8, 10]
    for recorded, point in zip(record.points, state.curve, strict=True):
        known = {name: value for name, value in dataclasses.asdict(point).items() if value is not None}
        assert started_at <= recorded.pop("at") <= time.time() * 1000
        assert recorded == known | ({"chars_per_second": pytest.approx(7.5)} if point.step else {})
    assert f"val {bits(4.5):.3f} bits" in capsys.readouterr().err


def test_the_curve_is_written_at_each_scoring_with_the_values_of_the_state(tmp_path):
    file, found = tmp_path / "curve.csv", []
    look = Call(6, lambda *_: found.extend(pd.read_csv(file)["step"]))
    state, _ = run(task(), callbacks=[CurveFile(file), look])
    table = pd.read_csv(file)
    assert tuple(table) == COLUMNS
    assert found == [0, 4]
    assert table["step"].tolist() == [0, 4, 8, 10]
    assert table["chars_seen"].tolist() == [0, 60, 120, 150]
    assert table["train_nats_per_char"].isna().tolist() == [True, False, False, False]
    for name in ("train_nats_per_char", "val_nats_per_char", "learning_rate"):
        assert table[name].iloc[3] == getattr(state.curve[3], name)


def trained(task, state=None, callbacks=()):
    """Train with the callback `Samples`. Return the state and every saved version of the file."""
    files = []
    samples = Samples(task, TOKENIZER, lambda name, content: files.append((name, content)))
    state, _ = run(task, state, [samples, *callbacks])
    assert {name for name, _ in files} == {SAMPLES}
    return state, [content for _, content in files]


@pytest.mark.parametrize("shape", [SHAPE, pytest.param(WITH_MEMORY, marks=pytest.mark.slow)], ids=["plain", "memory"])
def test_each_scoring_has_a_line_that_its_weights_write_and_lines_change_no_weight_and_no_loss(shape):
    numbers = task(shape, learning_rate=0.5)
    state, _ = trained(numbers)
    ids = torch.tensor([[0]])  # the vocabulary has no newline, so the prompt is its first character
    rng = torch.Generator().manual_seed(numbers.recipe.seed)
    last = generate(state.model.eval(), ids, LINE_CHARS, temperature=0.8, top_k=0, top_p=1.0, rng=rng)
    assert state.samples[-1] == TOKENIZER.decode(last[0].numpy())
    assert len(state.samples) == len(state.curve) == 4
    assert len(set(state.samples)) > 1
    same(state.state_dict() | {"samples": []}, run(numbers)[0].state_dict())


@pytest.mark.parametrize("step", [5, 10])
def test_a_resumed_training_logs_and_writes_the_curve_and_the_lines_of_a_whole_one(tmp_path, step):
    whole, files = trained(task(), callbacks=[CurveFile(tmp_path / "whole.csv")])
    first, _ = trained(task(), callbacks=[Call(step, lambda state, _: setattr(state, "stop_requested", True))])
    first.seconds, record, second = 7.0, Record(), start(task(seed=5))
    second.load_state_dict(copy.deepcopy(first.state_dict()))
    callbacks = [CurveFile(tmp_path / "resumed.csv"), ProgressReport("train-gpt", task(), record)]
    resumed, again = trained(task(), second, callbacks)
    assert (record.seconds_before, resumed.seconds) == (7, 7 if step == 10 else 18)
    assert (tmp_path / "resumed.csv").read_bytes() == (tmp_path / "whole.csv").read_bytes()
    assert [point["step"] for point in record.points] == [0, 4, 8, 10]
    assert resumed.samples == whole.samples
    assert again[0] == files[len(first.samples) - 1]  # saved again before the next update
    assert again[-1] == files[-1]


def test_a_line_holds_nothing_that_a_terminal_obeys():
    assert on_one_line("а\nб\tв\u00a0г\x1b[31mд\u202eе\r") == "а↵б в г[31mде "
