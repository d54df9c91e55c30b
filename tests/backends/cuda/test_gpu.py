"""Trains on a real GPU, in a separate process. Skipped without a GPU."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]


@pytest.mark.skipif(not Path("/dev/nvidia0").exists(), reason="no GPU here")
def test_two_trainings_and_a_resumed_one_end_in_the_same_bytes():
    run = subprocess.run(
        [sys.executable, "-m", "bench.gpu", "--quick", "equal"],
        cwd=ROOT,
        env={
            **os.environ,
            "PYTHONPATH": f"src:{os.environ.get('PYTHONPATH', '')}",
            "CUDA_VISIBLE_DEVICES": os.environ["BUKVA_TEST_GPUS"],
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stdout + run.stderr
    assert not run.stdout.startswith("CPU"), run.stdout
