"""A stage ends when the DVC that runs it does."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from bukva.durability.parent import dvc, end_with_dvc

SRC = Path(__file__).parents[2] / "src"
STAGE = """
import signal, sys, time
from bukva.durability import parent
from bukva.stage import cli
parent.POLL_SECONDS = 0.1
signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
def main() -> None:
    print(parent.dvc().pid, flush=True)
    try:
        time.sleep(60)
    finally:
        print("cleaned up", flush=True)
cli.run(main)
"""


@pytest.mark.slow
def test_the_end_of_dvc_ends_a_stage_behind_a_shell_as_a_signal_does(tmp_path):
    program = tmp_path / "dvc"
    program.write_text(
        f"#!{sys.executable}\nimport subprocess, sys, time; subprocess.Popen(sys.argv[1:]); time.sleep(99)"
    )
    program.chmod(0o755)
    environment = os.environ | {"DVC_STAGE": "clean", "PYTHONPATH": str(SRC)}
    command = [program, "sh", "-c", '"$@"; true', "sh", sys.executable, "-c", STAGE]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
    with subprocess.Popen(command, env=environment, **pipes) as parent:
        assert parent.stdout.readline() == f"{parent.pid}\n"
        time.sleep(0.5)
        assert parent.poll() is None  # DVC and the stage still run
        parent.kill()
        assert parent.stdout.read() == "the DVC that started this stage is gone\ncleaned up\n"


def test_a_process_that_dvc_did_not_start_does_not_wait_for_its_end(monkeypatch):
    monkeypatch.delenv("DVC_STAGE", raising=False)
    assert dvc() is None
    end_with_dvc()
