"""The row of a GPU, which also runs as a script: on a CPU with tiny sizes, and with a card that is made up."""

import os

import pytest
import torch
from typer.testing import CliRunner

from bench import gpu
from bukva.text.collection import TEXT


@pytest.fixture
def here(tmp_path, monkeypatch):
    """A text of a few kilobytes, one thread and no GPU."""
    raw = tmp_path / "raw"
    raw.mkdir()
    (raw / TEXT).write_text("ROMEO:\nBut, soft! what light through yonder window breaks?\n\n" * 100, encoding="utf-8")
    monkeypatch.setattr(gpu, "fetched", lambda *_: raw)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(os, "cpu_count", lambda: 1)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0})
    return tmp_path


@pytest.fixture
def card(here, monkeypatch):
    """An H100 on which every training gives the same values; returns the arguments of each training."""
    values, calls = {"ms": 2.0, "chars_per_second": 1e6, "tflops": 0.35 * 989, "digest": "a"}, []

    class Card(gpu.Bench):
        def __init__(self, *arguments, **options):
            super().__init__(*arguments, **options)
            self.card, self.peak = "NVIDIA H100 80GB HBM3", 989.0

        def train(self, shape, _first, last, **options):
            calls.append({"shape": shape, "last": last, **options})
            return dict(values)

    monkeypatch.setattr(gpu, "Bench", Card)
    return calls


def test_the_row_is_skipped_with_a_sentence_on_a_machine_without_a_gpu(here, capsys):
    assert gpu.gpu(here) == []
    assert capsys.readouterr().out == "    gpu: skipped, because this machine has no usable GPU.\n"


@pytest.mark.slow
def test_the_script_runs_on_a_cpu_with_tiny_sizes_and_trainings_are_equal(here):
    done = CliRunner().invoke(gpu.app, ["updates", "equal", "race", "--device", "cpu", "--quick"])
    assert done.exit_code == 0, done.output
    assert done.stdout.startswith("CPU, torch ")
    lines = [line.split(" | ") for line in done.stdout.splitlines() if " | " in line]
    assert [line[0] for line in lines].count("race") == 3
    same = [line for line in lines if line[0] == "equal"]
    assert [line[-1] for line in same] == ["yes"] * 4
    assert "resumed" in same[1][1]


@pytest.mark.usefixtures("card")
def test_requirements_hold_on_an_h100_only(here):
    bench = gpu.Bench(here, "auto", quick=False)
    lines = {line.what: line for line in gpu.updates(bench)}
    share = "percentage of the card's bf16 peak of 989 TFLOPS: 346 TFLOPS"  # of 85M, the last
    assert lines[share].ours == pytest.approx([35.0])
    assert lines[share].required == 35.0
    bench.card, bench.peak = "NVIDIA L4", 121.0
    assert all(line.required is None for line in gpu.updates(bench))


def test_a_training_that_differs_is_reported(card, here, monkeypatch):
    assert [line.met for line in gpu.equal(gpu.Bench(here, "auto", quick=False))] == [True] * 4
    assert [each["resume_at"] for each in card] == [0, 0, 50] * 2
    assert {each["last"] for each in card} == {100}
    monkeypatch.setattr(gpu.Bench, "train", lambda *_, resume_at, **__: {"digest": str(resume_at)})
    assert [line.met for line in gpu.equal(gpu.Bench(here, "auto", quick=False))] == [True, False] * 2
