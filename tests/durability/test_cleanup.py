"""Checkpoints go when DVC has what the training made, and not before."""

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
from bukva.durability.checkpoints import Checkpoints
from bukva.durability.cleanup import DONE, clear_if_recorded, finish, folder_of, forget, wait
from bukva.pipeline import dvc as pipeline
from bukva.training import leftovers

SRC = Path(__file__).parents[2] / "src"
CURVE = Path("reports/curves/train_gpt.csv")


@pytest.fixture
def project(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DVC_ROOT", str(tmp_path))
    monkeypatch.delenv("DVC_STAGE", raising=False)
    monkeypatch.setattr(pipeline, "identity", lambda stage, params: {"stage": stage, "seed": params.train_gpt.seed})
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
    """What DVC writes when a stage has ended."""
    outs = [
        {"path": "data/models/gpt", "md5": "0.dir"},
        {"path": str(path), "md5": hashlib.md5(text.encode()).hexdigest()},
    ]
    YAML(typ="safe").dump({"stages": {stage: {"cmd": "python", "outs": outs}}}, Path("dvc.lock"))


def test_run_by_hand_a_training_forgets_its_own_at_once(folder):
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


def test_they_stay_until_dvc_has_the_outputs(done):
    thread = waiting(done)
    for other in (lambda: None, lambda: record("another"), lambda: record(stage="sample"), lambda: record(path="a")):
        other()
        time.sleep(3 * leftovers.POLL_SECONDS)
        assert done.exists()
    Path("dvc.lock").write_text("stages: {train-gpt: [")  # as it is while DVC writes it
    time.sleep(3 * leftovers.POLL_SECONDS)
    assert done.exists()
    record()
    thread.join(5)
    assert not done.exists()


def test_when_dvc_is_gone_they_stay_for_the_next(done):
    with subprocess.Popen([sys.executable, "-c", "import sys; sys.stdin.read()"], stdin=subprocess.PIPE) as dvc:
        thread = waiting(done, dvc.pid)
        dvc.kill()
    thread.join(5)
    assert not thread.is_alive()
    assert done.exists()


def test_a_training_that_is_not_done_keeps_its_own_though_dvc_has_a_former_result(folder):
    record()
    assert not clear_if_recorded("train-gpt", folder)
    assert folder.exists()


def test_forced_again_a_training_that_dvc_has_starts_from_the_start(done):
    record()
    params = read_params(SRC.parent / "params.yaml")
    done.rename(folder_of("train-gpt", pipeline.identity("train-gpt", params)))
    assert not Checkpoints.of("train-gpt", params)


def test_the_one_who_waits_outlives_the_stage(folder, monkeypatch):
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


def test_the_stages_behind_a_training_forget_those_of_what_they_read_and_no_others(project):
    params = read_params(SRC.parent / "params.yaml")
    other = params.model_copy(update={"train_gpt": params.train_gpt.model_copy(update={"seed": 7})})
    present, interrupted = (
        folder_of("train-gpt", pipeline.identity("train-gpt", numbers)) for numbers in (params, other)
    )
    for folder in (present, interrupted):
        folder.mkdir(parents=True)
    forget(params)
    assert not present.exists()
    assert interrupted.exists()


def test_what_a_training_lacks_is_no_fault_of_the_stages_behind_it(project, folder, monkeypatch):
    def unreadable(*_):
        raise BukvaError("data/split: not there")

    monkeypatch.setattr(pipeline, "identity", unreadable)
    forget(read_params(SRC.parent / "params.yaml"))
    assert folder.exists()


def test_without_any_nothing_is_read(project, monkeypatch):
    monkeypatch.setattr(pipeline, "identity", lambda *_: pytest.fail("read"))
    forget(read_params(SRC.parent / "params.yaml"))
