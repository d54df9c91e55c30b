"""The table of a sweep is that of its trials, also when its driver has died without a word."""

import subprocess
import sys

import pytest
from filelock import Timeout

from bukva.core.errors import BukvaError
from bukva.sweep import engine
from bukva.sweep.table import driver_lock, format_rows, save_rows

ROWS = [
    ["a-1", "download.extensions=[.py]", "running", "10", "2.500", "8 s", "here"],
    ["a-2", "", "waiting", "", "", "0 s", ""],
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


def test_a_trial_is_running_while_its_driver_lives_and_interrupted_when_that_was_killed(driver):
    assert format_rows("a") == "a: no trial has started yet."
    save_rows("a", ROWS)
    assert format_rows("a").startswith("1 running, 1 waiting")
    assert "download.extensions=[.py]" in format_rows("a")  # no markup of rich
    driver.kill()
    driver.wait()
    assert format_rows("a").startswith("1 interrupted, 1 waiting")


def test_a_second_driver_of_the_same_sweep_is_one_sentence(driver, monkeypatch):
    monkeypatch.setattr(engine, "LOCK_SECONDS", 0.1)
    with pytest.raises(
        BukvaError, match=r"a: another process is running this sweep\. To see its trials, run `bukva sweep status a`"
    ):
        engine._fit("a", None)
    with pytest.raises(Timeout):
        driver_lock("a").acquire(timeout=0)
