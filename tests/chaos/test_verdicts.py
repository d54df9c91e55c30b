"""How the faults are judged is tested, too."""

import re
import signal
import subprocess

import pytest

from chaos.__main__ import PAGE, ROWS, TABLE
from chaos.setup import Row
from tests.support.running import ended_by

SHELLS = "/bin/sh", "/bin/bash"


def printed_by_dvc(shell, number):
    """What DVC prints when a signal kills a stage that it started through a shell."""
    program = f"X=1 python3 -c 'import os; os.kill(os.getpid(), {number})'"
    done = subprocess.run([shell, "-c", program], stderr=subprocess.DEVNULL)
    return f"ERROR: failed to reproduce 'clean': failed to run: {program}, exited with {done.returncode}\n"


@pytest.mark.parametrize("shell", SHELLS)
def test_the_signal_that_ended_a_stage_is_recognised_and_not_mistaken_for_another(shell):
    for number in signal.SIGKILL, signal.SIGTERM, signal.SIGUSR1:
        others = set(signal.Signals) - {number}
        assert ended_by(printed_by_dvc(shell, number), number)
        assert not ended_by(printed_by_dvc(shell, number), *others)
    assert not ended_by("exited with 1\n", *signal.Signals)


@pytest.mark.parametrize(("tries", "happened", "lost"), [(3, 2, 1), (3, 3, 0), (3, 5, 0), (1, 0, 1)])
def test_a_fault_that_did_not_happen_counts_as_lost(tries, happened, lost):
    def series(*_):
        yield from [""] * happened

    row = Row(series, tries)
    assert row.verdicts(None) == [""] * happened + ["the fault did not happen"] * lost


def test_every_row_has_its_own_name_and_the_page_has_its_fault_and_its_method():
    assert len({row.name for row in ROWS}) == len(ROWS)
    table = TABLE.search(PAGE.read_text(encoding="utf-8"))[0]
    shown = re.findall(r"^\| (.+?) \| (.+?) \|", table, re.MULTILINE)
    assert shown[2:] == [tuple(row.paragraphs) for row in ROWS]  # below the header
