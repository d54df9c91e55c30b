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
