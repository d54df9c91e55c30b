"""Checkpoints and what killed stages left are removed when dvc.lock has what the stage made, and not before."""

import hashlib
import json
import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from ruamel.yaml import YAML

from bukva.base.errors import BukvaError
from bukva.config.load import read_params
from bukva.durability import cleanup
from bukva.durability.cleanup import DONE, finish, folder_of, forget, remove_if_recorded, remove_unfinished, wait

SRC = Path(__file__).parents[2] / "src"
CURVE = Path("reports/curves/train_gpt.csv")


def fingerprint(stage, params):
    """A fingerprint that needs no files."""
    return {"stage": stage, "seed": params.train_gpt.seed}


@pytest.fixture
def project(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DVC_ROOT", str(tmp_path))
    monkeypatch.delenv("DVC_STAGE", raising=False)
    monkeypatch.setattr(cleanup, "fingerprint", fingerprint)
    monkeypatch.setattr(cleanup, "POLL_SECONDS", 0.01)
    CURVE.parent.mkdir(parents=True)
    CURVE.write_text("step\n0\n")
    return tmp_path


@pytest.fixture
def folder(project):
    path = project / ".bukva/checkpoints/train-gpt-0123"
    path.mkdir(parents=True)
    (path / "000000001-aa.safetensors").touch()
    return path


def record(text="step\n0\n", stage="train-gpt", path=CURVE):
    """Write the dvc.lock of a stage that has ended."""
    outs = [
        {"path": "data/models/gpt", "md5": "0.dir"},
        {"path": str(path), "md5": hashlib.md5(text.encode()).hexdigest()},
    ]
    YAML(typ="safe").dump({"stages": {stage: {"cmd": "python", "outs": outs}}}, Path("dvc.lock"))


def test_a_training_without_dvc_removes_its_checkpoints_at_once(folder):
    finish("train-gpt", CURVE, folder)
    assert not folder.exists()


def waiting(folder, pid=None):
    thread = threading.Thread(target=wait, args=("train-gpt", folder, pid or os.getpid()), daemon=True)
    thread.start()
    return thread


@pytest.fixture
def done(folder):
    (folder / DONE).write_text(json.dumps({"path": str(CURVE), "md5": hashlib.md5(b"step\n0\n").hexdigest()}))
    return folder


def test_checkpoints_stay_until_dvc_has_recorded_the_outputs(done):
    thread = waiting(done)
    torn = "stages: {train-gpt: ["  # as it is while DVC writes it
    for other in (
        lambda: record("another"),
        lambda: record(stage="sample"),
        lambda: record(path="a"),
        lambda: Path("dvc.lock").write_text(torn),
    ):
        other()
        time.sleep(0.1)
        assert done.exists()
        assert thread.is_alive()
    record()
    thread.join(5)
    assert not done.exists()


def test_checkpoints_stay_when_dvc_ends_without_recording_the_outputs(done):
    with subprocess.Popen([sys.executable, "-c", "import sys; sys.stdin.read()"], stdin=subprocess.PIPE) as dvc:
        thread = waiting(done, dvc.pid)
        dvc.kill()
    thread.join(5)
    assert not thread.is_alive()
    assert done.exists()


def test_a_new_training_removes_checkpoints_of_one_that_dvc_has_recorded_and_keeps_unfinished_ones(done):
    record()
    (done / DONE).rename(done / "aside")
    assert not remove_if_recorded("train-gpt", done)
    assert done.exists()
    (done / "aside").rename(done / DONE)
    assert remove_if_recorded("train-gpt", done)
    assert not done.exists()


def test_the_stages_after_a_training_remove_its_checkpoints_and_no_others(project, monkeypatch):
    params = read_params(SRC.parent / "params.yaml")
    other = params.model_copy(update={"train_gpt": params.train_gpt.model_copy(update={"seed": 7})})
    present, interrupted = (folder_of("train-gpt", fingerprint("train-gpt", numbers)) for numbers in (params, other))
    for folder in (present, interrupted):
        folder.mkdir(parents=True)
    forget(params)
    assert not present.exists()
    assert interrupted.exists()

    def unreadable(*_):
        raise BukvaError("data/split: not there")

    monkeypatch.setattr(cleanup, "fingerprint", unreadable)
    forget(params)  # a file that only a training needs does not fail the stages after it


@pytest.mark.slow
def test_the_waiting_process_outlives_the_stage(folder, monkeypatch):
    monkeypatch.setenv("DVC_STAGE", "train-gpt")
    monkeypatch.setenv("PYTHONPATH", str(SRC))
    program = (
        "from pathlib import Path; from bukva.durability.cleanup import finish\n"
        f"finish('train-gpt', Path({str(CURVE)!r}), Path({str(folder)!r}))"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
    assert folder.exists()
    record()
    until = time.monotonic() + 20
    while folder.exists() and time.monotonic() < until:
        time.sleep(0.1)
    assert not folder.exists()


def test_what_killed_stages_left_beside_the_outputs_is_removed_and_nothing_else(project):
    left = [
        Path(name) for name in ("data/.raw.part/text.txt", "data/.split.old/train.npy", "reports/.metrics.json.part")
    ]
    kept = [Path(name) for name in ("data/raw/text.txt", "data/.mine.part", "reports/metrics.json")]
    for file in (*left, *kept):
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("x")
    remove_unfinished()
    assert all(file.exists() for file in kept)
    assert not any(file.exists() for file in (*left, Path("data/.raw.part"), Path("data/.split.old")))
