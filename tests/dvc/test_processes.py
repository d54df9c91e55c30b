"""Stage train-gpt in several processes: the same curve, one run in MLflow, and when one ends all end."""

import csv
import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

CURVE = "reports/curves/train_gpt.csv"
TRAIN = "-m", "stages.train_gpt", "data/tokens", "data/split", "data/models/gpt", CURVE


def numbers(text):
    return [[float(cell) if cell else None for cell in row] for row in list(csv.reader(text.splitlines()))[1:]]


def processes_of(folder):
    """rank -> id of each process that trains in a folder."""
    found = {}
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            environment = dict(
                item.split("=", 1) for item in (entry / "environ").read_text().split("\0") if "=" in item
            )
            words = (entry / "cmdline").read_text().split("\0")
            trains = "stages.train_gpt" in words  # unlike the process that fills MLflow
            if trains and (entry / "cwd").resolve() == folder and "TORCHELASTIC_RUN_ID" in environment:
                found[int(environment["RANK"])] = int(entry.name)
        except (OSError, ValueError):
            continue
    return found


def test_two_processes_follow_the_curve_of_one(project):
    alone = numbers(project.read(CURVE))
    project.set({"train_gpt": {"processes": 2}})
    assert project.repro("train-gpt") == ["train-gpt"]
    together = numbers(project.read(CURVE))
    assert len(together) == len(alone) == 3
    for ours, theirs in zip(together, alone, strict=True):
        assert ours == pytest.approx(theirs, abs=1e-4)
    project.sync()
    _, run = [run for run in project.training_runs() if run["stage"] == "train-gpt"]  # the template's, one for both
    assert run == {"stage": "train-gpt", "status": "FINISHED", "steps": [0, 10, 20]}


@pytest.mark.parametrize(("name", "exit_code"), [("SIGKILL", 1), ("SIGTERM", 143)])
def test_when_one_process_ends_all_end_with_a_sentence(project, name, exit_code):
    project.set({"train_gpt": {"processes": 2, "n_steps": 100_000, "eval_every": 100_000, "seed": exit_code}})
    environment = project.env | {"PYTHONPATH": "src", "DVC_ROOT": str(project.folder)}
    log = project.folder / ".bukva/two.log"
    with log.open("w") as output:
        parent = subprocess.Popen(["python", *TRAIN], cwd=project.folder, env=environment, stdout=output, stderr=output)
    deadline = time.monotonic() + 100
    while " 0/" not in log.read_text() and time.monotonic() < deadline:
        time.sleep(0.2)
    ranks = processes_of(project.folder)
    assert sorted(ranks) == [0, 1], log.read_text()
    if name == "SIGKILL":
        os.kill(ranks[1], signal.SIGKILL)
    else:
        parent.terminate()
    assert parent.wait(timeout=60) == exit_code, log.read_text()
    assert processes_of(project.folder) == {}
    assert "Traceback" not in log.read_text()
    if name == "SIGKILL":
        assert "train-gpt: process 1 of 2 was ended by SIGKILL, and the others were stopped" in log.read_text()


def test_a_launcher_with_another_number_of_processes_is_reported_in_a_sentence(project):
    project.set({"train_gpt": {"processes": 2}})
    printed = project.run("torchrun", "--nproc-per-node=1", *TRAIN, ok=False, PYTHONPATH="src")
    assert "params.yaml, train_gpt.processes: 2, but the launcher started 1;" in printed
    printed = project.run("python", *TRAIN, ok=False, PYTHONPATH="src", PET_NNODES="3")
    assert printed == (
        "params.yaml, train_gpt.processes: 2 is not divisible by the 3 machines of PET_NNODES; use a multiple of 3.\n"
    )
