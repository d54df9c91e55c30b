"""A stage ends with its DVC, also if DVC ends before the stage has found it."""

import subprocess
import sys
import time

import psutil
import pytest

from bukva.core.errors import BukvaError
from bukva.core.processes import MAX_PORT, listen

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


@pytest.mark.parametrize(("name", "seconds"), [("dvc", 0), ("notebook.py", 0), ("dvc", 0.5)])
def test_a_stage_ends_soon_after_its_dvc_also_if_dvc_ends_while_the_stage_starts(tmp_path, name, seconds):
    (tmp_path / name).write_text(DVC)
    command = [sys.executable, str(tmp_path / name), STAGE.format(seconds=seconds)]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, start_new_session=True
    ) as dvc:
        stage = psutil.Process(int(dvc.stdout.readline()))
        if not seconds:
            assert dvc.stdout.readline() == "started\n"
            time.sleep(0.5)
        dvc.kill()
        assert stage.is_running()
        _, alive = psutil.wait_procs([stage], 5)
        for process in alive:
            process.kill()
        assert not alive


def test_without_a_free_port_there_is_a_sentence():
    with listen(MAX_PORT), pytest.raises(BukvaError, match=r"No port from 65535 to 65535 can be used\. Give a smaller"):
        listen(MAX_PORT)
