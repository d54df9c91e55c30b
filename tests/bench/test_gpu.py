"""The row of a GPU, which also runs as a script: on a CPU with tiny sizes, and with a card that is made up."""

import math
import os

import pytest
import torch
from typer.testing import CliRunner

from bench import gpu
from bench.plain import nanogpt
from bukva.core.errors import BukvaError
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
    """An H100 on which every training gives these values; returns them, and the arguments of each training."""
    values, calls = {"ms": 2.0, "chars_per_second": 1e6, "tflops": 0.35 * 989, "digest": "a"}, []

    class Card(gpu.Bench):
        def __init__(self, *arguments, **options):
            super().__init__(*arguments, **options)
            self.card, self.peak = "NVIDIA H100 80GB HBM3", 989.0

        def train(self, shape, _first, last, **options):
            calls.append({"shape": shape, "last": last, **options})
            return dict(values)

    monkeypatch.setattr(gpu, "Bench", Card)
    return values, calls


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


def test_requirements_hold_on_an_h100_only(card, here):
    values, _ = card
    bench = gpu.Bench(here, "auto", quick=False)
    lines = {line.what: line for line in gpu.updates(bench)}
    share = "percentage of the card's bf16 peak of 989 TFLOPS: 346 TFLOPS"  # of 85M, the last
    assert lines[share].ours == pytest.approx([35.0])
    assert lines[share].required == 35.0
    before = "an update of model default, 20.4 ms at commit 1796985"
    assert (lines[before].required, lines[before].met) == (pytest.approx(2.04), True)
    values["ms"] = 2.1
    assert {line.what: line for line in gpu.updates(bench)}[before].met is False
    bench.card, bench.peak = "NVIDIA L4", 121.0
    assert all(line.required is None for line in gpu.updates(bench))


def test_a_training_that_differs_is_reported(card, here, monkeypatch):
    _, trainings = card
    assert [line.met for line in gpu.equal(gpu.Bench(here, "auto", quick=False))] == [True] * 4
    assert [each["resume_at"] for each in trainings] == [0, 0, 50] * 2
    assert {each["last"] for each in trainings} == {100}
    monkeypatch.setattr(gpu.Bench, "train", lambda *_, resume_at, **__: {"digest": str(resume_at)})
    assert [line.met for line in gpu.equal(gpu.Bench(here, "auto", quick=False))] == [True, False] * 2


def test_nanogpt_is_compiled_and_the_updates_that_compile_are_not_timed(card, here, monkeypatch):
    """A checkout whose programs print what nanoGPT's print: 900 ms while it compiles, then 16 and 17 ms in turn."""
    checkout = here / "nanoGPT"
    data = checkout / "data" / "shakespeare_char"
    data.mkdir(parents=True)
    (data / "prepare.py").write_text("")
    (checkout / "train.py").write_text(
        "import sys\nassert '--compile=True' in sys.argv and '--device=cuda' in sys.argv\n"
        "for i in range(151): print(f'iter {i}: loss 4.1, time {900 if i <= 20 else 16 + i % 2:.2f}ms, mfu 1.00%')\n"
    )
    monkeypatch.setenv("BUKVA_NANOGPT", str(checkout))
    line = next(gpu.updates(gpu.Bench(here, "auto", quick=False)))  # first, in case that time ends
    assert (line.plain, line.required) == ([16.5], 2.2)
    assert math.isclose(line.ratio, 16.5 / 2.0)
    monkeypatch.delenv("BUKVA_NANOGPT")
    assert nanogpt.prepared(here / "raw" / TEXT, here / "none") is None


def test_a_text_that_cannot_be_downloaded_skips_one_part(card, here, monkeypatch):
    def refuse(*_):
        raise BukvaError("a.txt: no connection.")

    monkeypatch.setattr(gpu, "fetched", refuse)
    done = CliRunner().invoke(gpu.app, ["race", "equal"])
    assert done.stderr == "race: not measured: a.txt: no connection.\n"
    assert done.stdout.count("equal | ") == 4
    done = CliRunner().invoke(gpu.app, ["speed"])
    assert str(done.exception) == "bench.gpu: unknown part speed. Use equal, race, updates."
