"""A training that is asked to end, by a signal or by the end of DVC."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from bukva.training.interruption import Interruption, dvc

SRC = Path(__file__).parents[2] / "src"


@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_is_noted_and_a_second_one_ends_at_once(number, status):
    reached = []
    with pytest.raises(SystemExit) as exit_, Interruption().heard() as asked:
        assert asked.signal == 0
        os.kill(os.getpid(), number)
        assert asked.signal == number
        reached.append("the first")
        os.kill(os.getpid(), number)
        reached.append("the second")
    assert exit_.value.code == status
    assert reached == ["the first"]


def test_a_block_that_comes_to_its_end_all_the_same_ends_as_interrupted():
    with pytest.raises(SystemExit) as exit_, Interruption().heard():
        os.kill(os.getpid(), signal.SIGINT)
    assert exit_.value.code == 130


def test_signals_are_put_back():
    before = signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)
    with Interruption().heard():
        pass
    assert (signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)) == before


def test_a_process_that_dvc_did_not_start_has_nobody_to_lose(monkeypatch):
    monkeypatch.delenv("DVC_STAGE", raising=False)
    assert dvc() is None
    assert Interruption().signal == 0


STAGE = """
import time
from bukva.training import interruption
interruption.LOOK_SECONDS = 0.1
asked = interruption.Interruption()
print(interruption.dvc().pid, flush=True)
while not asked.signal:
    time.sleep(0.05)
print("ends by", asked.signal, flush=True)
"""
DVC = """
import subprocess, sys, time
subprocess.Popen(sys.argv[1:])
time.sleep(100)
"""


@pytest.mark.parametrize("between", [[], ["sh", "-c", '"$@"; true', "sh"]], ids=["nothing", "a shell"])
def test_the_end_of_dvc_asks_a_stage_to_end(tmp_path, between):
    program = tmp_path / "dvc"
    program.write_text(f"#!{sys.executable}\n{DVC}")
    program.chmod(0o755)
    environment = os.environ | {"DVC_STAGE": "train-gpt", "PYTHONPATH": str(SRC)}
    command = [str(program), *between, sys.executable, "-c", STAGE]
    with subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as parent:
        assert parent.stdout.readline() == f"{parent.pid}\n"
        time.sleep(0.5)  # it is not gone yet
        parent.kill()
        assert parent.stdout.read() == "DVC, which started this training, is gone\nends by 15\n"
