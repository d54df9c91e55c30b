"""The count of looks at test scores."""

import subprocess
import sys

import pytest
from imports import ROOT

from bukva.experiments.looks import count_look, looks

PROCESSES, LOOKS = 2, 7


@pytest.fixture
def project(tmp_path, monkeypatch):
    monkeypatch.setenv("DVC_ROOT", str(tmp_path))
    return tmp_path


def test_each_text_has_its_own_count(project):
    assert looks("a") == 0
    assert [count_look("a"), count_look("a"), count_look("b")] == [1, 2, 1]
    assert (looks("a"), looks("b"), looks("c")) == (2, 1, 0)


def test_processes_that_look_at_the_same_time_are_all_counted(project):
    program = f"from bukva.experiments.looks import count_look\nfor _ in range({LOOKS}): count_look('a')"
    environment = {"DVC_ROOT": str(project), "PYTHONPATH": str(ROOT / "src")}
    running = [subprocess.Popen([sys.executable, "-c", program], env=environment) for _ in range(PROCESSES)]
    assert [process.wait() for process in running] == [0] * PROCESSES
    assert looks("a") == PROCESSES * LOOKS
