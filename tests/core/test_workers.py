"""Several processes or threads give what one gives, with the same errors; and no process outlives its parent."""

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest
import torch

from bukva.core.errors import BukvaError
from bukva.core.machine import open_idle_teams
from bukva.core.workers import applied

pytestmark = pytest.mark.slow  # each process imports what the tests import

SRC = Path(__file__).parents[2] / "src"


def squared(n):
    """The first items take longest, so that the last ones are ready first."""
    time.sleep(0.02 * max(0, 3 - n))
    return n * n, os.getpid()


def divided(n):
    if n == 7:
        raise BukvaError("seven is refused.")
    return 1 / (n - 11)


def ended(n):
    os.kill(os.getpid(), signal.SIGKILL if n else 0)


@pytest.mark.parametrize("processes", [1, 2])
def test_results_come_in_the_order_of_the_items(processes):
    with applied(squared, processes) as apply:
        results, pids = zip(*apply(range(37)), strict=True)
    assert list(results) == [n * n for n in range(37)]
    assert (os.getpid() in pids) == (processes == 1)
    assert len(set(pids)) <= processes


@pytest.mark.parametrize("processes", [1, 2])
def test_an_error_comes_in_its_turn_and_keeps_its_sentence(processes):
    with applied(divided, processes) as apply:
        results = apply([13, 12, 7, 11])
        assert [next(results), next(results)] == [1 / 2, 1.0]
        with pytest.raises(BukvaError, match=r"^seven is refused\.$"):
            next(results)
    with applied(divided, 2) as apply, pytest.raises(ZeroDivisionError) as error:
        list(apply([11]))
    assert "return 1 / (n - 11)" in str(error.value.__cause__)  # of a bug


def test_a_worker_that_is_ended_from_outside_is_a_sentence_and_not_for_ever():
    with applied(ended, 2) as apply, pytest.raises(BukvaError, match=r"was ended from outside; .* the same command"):
        list(apply([0, 1, 0]))


def test_after_the_block_no_worker_is_left_even_in_an_expression_that_never_ends():
    children = psutil.Process().children
    before = set(children())
    with applied(re.compile("(x+)+$").match, 3) as apply:
        next(apply(["y", "x" * 60 + "y"]))
        started = set(children()) - before
        assert len([process for process in started if "spawn_main" in "".join(process.cmdline())]) == 2
    assert not [process for process in started if process.is_running() and "spawn_main" in "".join(process.cmdline())]


PARENT = """
import os, re, signal, sys
from bukva.core.workers import applied
if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell starts what runs in the background without it
    with applied(re.compile("(x+)+$").match, 3) as apply:
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # as a stage does
        results = apply(["y", *["x" * 60 + "y"] * 2])
        next(results)
        print("one", flush=True)
        next(results)  # never
"""


@pytest.fixture
def parent(tmp_path):
    """A process with three workers, one idle and two in an expression that never ends; and the workers."""
    script = tmp_path / "parent.py"
    script.write_text(PARENT)
    process = subprocess.Popen(
        [sys.executable, str(script)], env={"PYTHONPATH": str(SRC)}, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True,
    )  # fmt: skip
    assert process.stdout.readline() == "one\n"
    children = psutil.Process(process.pid).children()
    while len(busy := [child for child in children if child.cpu_times().user > 0.7]) < 2:
        time.sleep(0.1)
    yield process, children
    for child in children:
        if child.is_running():
            child.kill()
    process.communicate()
    assert len(busy) == 2


@pytest.mark.parametrize(
    ("number", "kill"),
    [(signal.SIGKILL, os.kill), (signal.SIGINT, os.killpg), (signal.SIGTERM, os.kill)],
    ids=["the process is killed", "Ctrl-C reaches its group", "the process is terminated"],
)
def test_a_parent_that_is_ended_leaves_no_worker_and_no_traceback_of_one(parent, number, kill):
    process, children = parent
    kill(process.pid, number)
    _, alive = psutil.wait_procs(children, timeout=10)
    assert not alive
    assert process.communicate()[1].count("Traceback") == (number == signal.SIGINT)


def test_a_surplus_of_threads_changes_no_bit_of_a_sum():
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    x = torch.randn(997, 1009, generator=torch.Generator().manual_seed(5))
    alone = (x @ x.T).softmax(-1).sum()
    over = open_idle_teams()
    crowded = (x @ x.T).softmax(-1).sum()
    over.set()
    torch.set_num_threads(before)
    assert torch.equal(alone, crowded)
