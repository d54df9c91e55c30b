"""Checkpoints and what killed stages left are removed when dvc.lock has what the stage made, and not before."""

import hashlib
import json
import subprocess
from pathlib import Path

import pytest
from ruamel.yaml import YAML

from bukva.config.load import read_params
from bukva.core.errors import BukvaError
from bukva.durability import cleanup
from bukva.durability.cleanup import DONE, folder_of, forget, remove_if_recorded, remove_unfinished, wait

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


def test_checkpoints_stay_until_dvc_has_recorded_the_outputs_of_that_training(folder):
    ended = subprocess.Popen(["true"])
    ended.wait()
    record()
    assert not remove_if_recorded("train-gpt", folder)  # it is unfinished, and dvc.lock is of the one before
    (folder / DONE).write_text(json.dumps({"path": str(CURVE), "md5": hashlib.md5(b"step\n0\n").hexdigest()}))
    for other in ({"text": "another"}, {"stage": "sample"}, {"path": "a"}):
        record(**other)
        wait("train-gpt", folder, ended.pid)
        assert folder.exists()
    Path("dvc.lock").write_text("stages: {train-gpt: [")  # as it is while DVC writes it
    assert not remove_if_recorded("train-gpt", folder)
    record()
    assert remove_if_recorded("train-gpt", folder)
    assert not folder.exists()


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


def test_what_killed_stages_left_beside_the_outputs_is_removed_and_nothing_else(project):
    left = "data/.raw.part/text.txt", "data/.split.old/train.npy", "reports/.metrics.json.part"
    kept = "data/raw/text.txt", "data/.mine.part", "reports/metrics.json"
    for file in map(Path, (*left, *kept)):
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("x")
    remove_unfinished()
    assert all(Path(name).exists() for name in kept)
    assert not any(Path(name).exists() for name in (*left, "data/.raw.part", "data/.split.old"))
