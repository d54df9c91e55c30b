"""A stage ends with its DVC, also if DVC ends before the stage has found it."""

import subprocess
import sys
import time

import psutil
import pytest

STAGE = """
import time
time.sleep({seconds})  # the imports of a stage
from bukva.core.processes import end_with_dvc
end_with_dvc()
print("started", flush=True)
time.sleep(60)
"""
DVC = """
import os, subprocess, sys, time
stage = subprocess.Popen([sys.executable, "-c", sys.argv[1]], env=os.environ | {"DVC_STAGE": "clean"})
print(stage.pid, flush=True)
stage.wait()
"""


@pytest.fixture
def run(tmp_path):
    """Start a program with this name in its own session, which starts a stage; return both processes."""
    started = []

    def run(name, seconds):
        program = tmp_path / name
        program.write_text(DVC)
        command = [sys.executable, str(program), STAGE.format(seconds=seconds)]
        dvc = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, start_new_session=True
        )
        stage = psutil.Process(int(dvc.stdout.readline()))
        started.extend([dvc, stage])
        return dvc, stage

    yield run
    for process in started:
        if psutil.pid_exists(process.pid):
            process.kill()
    for process in started[::2]:
        process.communicate()


@pytest.mark.parametrize("name", ["dvc", "notebook.py"])
def test_a_stage_ends_soon_after_its_dvc(run, name):
    dvc, stage = run(name, 0)
    assert dvc.stdout.readline() == "started\n"
    time.sleep(0.5)
    assert stage.is_running()
    dvc.kill()
    dvc.wait()
    psutil.wait_procs([stage], 5)
    assert not stage.is_running()


def test_a_stage_ends_if_dvc_has_ended_while_the_stage_started(run):
    dvc, stage = run("dvc", 0.5)
    dvc.kill()
    dvc.wait()
    assert stage.is_running()
    psutil.wait_procs([stage], 5)
    assert not stage.is_running()
