"""Stage train-gpt in several processes: the same curve, one journal, and an end for all when one ends."""

import csv
import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

CURVE = "reports/curves/train_gpt.csv"
TRAIN = "-m", "stages.train_gpt", "data/tokens/vocab.json", "data/split", "data/models/gpt", CURVE


def numbers(text):
    return [[float(cell) if cell else None for cell in row] for row in list(csv.reader(text.splitlines()))[1:]]


def processes_of(folder):
    """rank -> process id of those that train in a folder."""
    found = {}
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            environment = dict(
                item.split("=", 1) for item in (entry / "environ").read_text().split("\0") if "=" in item
            )
            trains = "stages.train_gpt" in (entry / "cmdline").read_text().split("\0")  # and does not follow a journal
            if trains and (entry / "cwd").resolve() == folder and "TORCHELASTIC_RUN_ID" in environment:
                found[int(environment["RANK"])] = int(entry.name)
        except (OSError, ValueError):
            continue
    return found


def test_two_processes_follow_the_curve_of_one(fresh):
    alone = numbers(fresh.read(CURVE))
    fresh.set({"train_gpt": {"processes": 2}})
    assert fresh.repro("train-gpt") == ["train-gpt"]
    together = numbers(fresh.read(CURVE))
    assert len(together) == len(alone) == 3
    for ours, theirs in zip(together, alone, strict=True):
        assert ours == pytest.approx(theirs, abs=1e-4)
    runs = [run for run in fresh.mlflow() if run["name"] == "train-gpt"]
    assert [run["status"] for run in runs] == ["FINISHED", "FINISHED"]  # the baseline's, and one for both processes
    assert runs[0]["points"]["val_nats_per_char"] == 3


def test_micro_batches_follow_the_curve_of_whole_ones(fresh):
    whole = numbers(fresh.read(CURVE))
    fresh.set({"train_gpt": {"micro_batches": 4}})
    fresh.repro("train-gpt")
    for ours, theirs in zip(numbers(fresh.read(CURVE)), whole, strict=True):
        assert ours == pytest.approx(theirs, abs=1e-4)


@pytest.mark.parametrize(("name", "exit_code"), [("SIGKILL", 1), ("SIGTERM", 143)])
def test_one_that_ends_ends_all_with_a_sentence(fresh, name, exit_code):
    fresh.set({"train_gpt": {"processes": 2, "n_steps": 100_000, "eval_every": 100_000, "seed": exit_code}})
    environment = fresh.env | {"PYTHONPATH": "src", "DVC_ROOT": str(fresh.folder)}
    log = fresh.folder / ".bukva/two.log"
    with log.open("w") as output:
        parent = subprocess.Popen(["python", *TRAIN], cwd=fresh.folder, env=environment, stdout=output, stderr=output)
    deadline = time.monotonic() + 100
    while "step 0/" not in log.read_text() and time.monotonic() < deadline:
        time.sleep(0.2)
    ranks = processes_of(fresh.folder)
    assert sorted(ranks) == [0, 1], log.read_text()
    if name == "SIGKILL":
        os.kill(ranks[1], signal.SIGKILL)
    else:
        parent.terminate()
    assert parent.wait(timeout=60) == exit_code, log.read_text()
    assert processes_of(fresh.folder) == {}
    assert "Traceback" not in log.read_text()
    if name == "SIGKILL":
        assert "train-gpt: process 1 of 2 was ended by SIGKILL, and the others were stopped" in log.read_text()


def test_another_number_of_processes_than_params_yaml_says_is_a_sentence(fresh):
    fresh.set({"train_gpt": {"processes": 2}})
    printed = fresh.run("torchrun", "--nproc-per-node=1", *TRAIN, ok=False, PYTHONPATH="src")
    assert "params.yaml, train_gpt.processes: 2, but the launcher started 1;" in printed
    printed = fresh.run("python", *TRAIN, ok=False, PYTHONPATH="src", PET_NNODES="3")
    assert printed == (
        "params.yaml, train_gpt.processes: 2 cannot be shared out among the 3 machines of PET_NNODES; "
        "a multiple of 3 would do.\n"
    )
