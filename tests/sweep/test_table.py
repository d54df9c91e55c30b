"""The table of a sweep is that of its trials, also when its driver has died without a word."""

import subprocess
import sys
from types import SimpleNamespace

import pytest
from filelock import Timeout
from rich.console import Console

from bukva.core.errors import BukvaError
from bukva.sweep import engine
from bukva.sweep.table import Reporter, driver_lock, newest_sweep, table_of


def trial(name, status, setting="", error=None, **last):
    """A trial as Ray Tune describes it."""
    config = {"trial": {"name": name, "settings": [setting] if setting else []}}
    return SimpleNamespace(config=config, status=status, last_result=last, get_error=lambda: error)


TRIALS = [
    trial("a-1", "RUNNING", "download.extensions=[.py]", val=2.5, step=10, hostname="here", time_total_s=8),
    trial("a-2", "ERROR", "model.n_head=7", "Traceback:\n  run()\nBukvaError: n_head must divide it.\n", step=0),
    trial("a-3", "TERMINATED", val=2.25, finished=True),
    trial("a-4", "TERMINATED", val=3.0),
    trial("a-5", "PENDING"),
]
HOLD = """
import sys
from bukva.sweep.table import driver_lock
with driver_lock("a"):
    print("held", flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def driver(project):
    """Another process that holds the lock of sweep a, as its driver does."""
    process = subprocess.Popen([sys.executable, "-c", HOLD], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "held\n"
    yield process
    process.communicate()


def printed(name="a"):
    screen = Console(width=200, markup=False)
    with screen.capture() as captured:
        screen.print(table_of(newest_sweep(name)))
    return captured.get()


def test_a_trial_is_running_while_its_driver_lives_and_interrupted_when_that_was_killed(driver):
    Reporter("a").report(TRIALS, False)
    assert printed().startswith("1 running, 1 failed, 1 finished, 1 stopped, 1 waiting")
    assert "download.extensions=[.py]" in printed()  # no markup of rich
    assert "a-2 model.n_head=7 failed 0 n_head must divide it." in " ".join(printed().split())
    driver.kill()
    driver.wait()
    assert printed().startswith("1 failed, 1 interrupted, 1 finished, 1 stopped, 1 waiting")


def test_a_line_is_printed_when_the_state_of_a_trial_changes(project, capsys):
    reporter = Reporter("a")
    reporter.report(TRIALS, False)
    reporter.report(TRIALS, True)
    lines = [line.partition(" ")[2] for line in capsys.readouterr().out.splitlines()]
    assert lines == [
        "a-1: running 2.500", "a-2: failed n_head must divide it.", "a-3: finished 2.250", "a-4: stopped 3.000",
        "a-1: interrupted 2.500",
    ]  # fmt: skip


def test_the_last_sweep_is_shown_and_an_unknown_one_is_a_sentence(project):
    with pytest.raises(BukvaError, match="This project has no sweep yet"):
        newest_sweep()
    Reporter("a").report([], False)
    assert newest_sweep() == newest_sweep("a") == "a"
    with pytest.raises(BukvaError, match=r"No sweep is named other\. Existing sweeps: a\."):
        newest_sweep("other")


def test_a_second_driver_of_the_same_sweep_is_one_sentence(driver, monkeypatch):
    monkeypatch.setattr(engine, "LOCK_SECONDS", 0.1)
    with pytest.raises(
        BukvaError, match=r"a: another process is running this sweep\. To see its trials, run `bukva sweep status a`"
    ):
        engine._fit("a", None)
    with pytest.raises(Timeout):
        driver_lock("a").acquire(timeout=0)
