"""Whoever judges the pipeline is judged first."""

import signal
import subprocess

import pytest

from chaos.rows import Row
from chaos.scene import ended_by

SHELLS = "/bin/sh", "/bin/bash"


def as_dvc_says(shell, number):
    """The end of a stage that a signal kills, through a shell that is to run it."""
    program = f"X=1 python3 -c 'import os; os.kill(os.getpid(), {number})'"
    done = subprocess.run([shell, "-c", program], stderr=subprocess.DEVNULL)
    return f"ERROR: failed to reproduce 'clean': failed to run: {program}, exited with {done.returncode}\n"


@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGUSR1])
def test_the_signal_that_ended_a_stage_is_seen_through_every_shell(shell, number):
    assert ended_by(as_dvc_says(shell, number), number)


@pytest.mark.parametrize("shell", SHELLS)
def test_another_signal_and_an_exit_status_are_no_such_end(shell):
    assert not ended_by(as_dvc_says(shell, signal.SIGTERM), signal.SIGKILL, signal.SIGINT)
    assert not ended_by("exited with 1\n", *signal.Signals)


@pytest.mark.parametrize(("tries", "met", "lost"), [(3, 2, 1), (3, 3, 0), (3, 5, 0), (0, 0, 1), (0, 7, 0)])
def test_a_fault_that_was_not_met_is_lost(tries, met, lost):
    row = Row("name", "what", "how", lambda *_: [""] * met)
    assert row.lost(None, tries) == [""] * met + ["the fault was not met"] * lost
