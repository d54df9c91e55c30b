"""A training that is killed, for real: the next command goes on, to the same bytes and in the same MLflow run."""

import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

STEPS = {"n_steps": 600, "eval_every": 100}
OFTEN = {"BUKVA_CHECKPOINT_SECONDS": "0.2"}


def checkpoints(project):
    return sorted(project.folder.glob(".bukva/checkpoints/train-gpt-*/*.safetensors"))


def trainer(project):
    """The process that trains in the project's folder."""
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            words = (entry / "cmdline").read_text().split("\0")
            if (
                "stages.train_gpt" in words
                and words[0].endswith("python")
                and (entry / "cwd").resolve() == project.folder
            ):
                return int(entry.name)
        except OSError:
            continue
    return None


def interrupted(project, end, command=("dvc", "repro", "train-gpt")):
    """Start a training and end it once it has a checkpoint; the exit status and what was printed."""
    log = project.folder / ".bukva/interrupted.log"
    with log.open("w") as output:
        process = subprocess.Popen(command, cwd=project.folder, env=project.env | OFTEN, stdout=output, stderr=output)
    deadline = time.monotonic() + 100
    while not checkpoints(project) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert checkpoints(project), log.read_text()
    end()
    return process.wait(timeout=100), log.read_text()


@pytest.mark.parametrize(("number", "said"), [(signal.SIGKILL, ""), (signal.SIGTERM, "which is saved")])
def test_a_killed_training_goes_on_to_the_same_bytes(fresh, number, said):
    fresh.set({"train_gpt": STEPS | {"seed": int(number)}})
    status, printed = interrupted(fresh, lambda: os.kill(trainer(fresh), number))
    assert status != 0
    assert said in printed
    assert not (fresh.folder / "data/models/gpt").exists()
    resumed = fresh.run("dvc", "repro", "train-gpt", **OFTEN)
    assert "resumed at step" in resumed
    assert checkpoints(fresh) == []
    lock, curve = fresh.read("dvc.lock"), fresh.read("reports/curves/train_gpt.csv")

    whole = fresh.run("dvc", "repro", "-f", "-s", "train-gpt")
    assert "from the start" in whole
    assert fresh.read("dvc.lock") == lock
    assert fresh.read("reports/curves/train_gpt.csv") == curve
    assert len(curve.splitlines()) == 1 + 7

    runs = [run for run in fresh.mlflow() if run["name"] == "train-gpt"]
    ours = [run for run in runs if run["params"].get("train_gpt.seed") == str(int(number))]
    assert [run["status"] for run in ours] == ["FINISHED", "FINISHED"]  # the interrupted one, and the forced one
    assert {run["points"]["val_nats_per_char"] for run in ours} == {7}  # none missing, none twice


def test_an_experiment_in_a_temporary_folder_goes_on_too(fresh):
    command = "dvc", "exp", "run", "--temp", "-S", "train_gpt.n_steps=600", "-S", "train_gpt.seed=77"
    status, _ = interrupted(
        fresh, lambda: subprocess.run(["pkill", "-9", "-f", "stages.train_gpt data/tokens"]), command
    )
    assert status != 0
    assert "resumed at step" in fresh.run(*command, **OFTEN)
    assert checkpoints(fresh) == []


def test_another_parameter_starts_from_the_start(fresh):
    fresh.set({"train_gpt": STEPS | {"seed": 78}})
    interrupted(fresh, lambda: os.kill(trainer(fresh), signal.SIGKILL))
    fresh.set({"train_gpt": {"learning_rate": 0.001}})
    assert "from the start" in fresh.run("dvc", "repro", "train-gpt", **OFTEN)
