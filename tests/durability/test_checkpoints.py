"""The last two checkpoints are kept, and a damaged or foreign checkpoint is never loaded."""

import errno
import hashlib
import io
import os
import pickle
from pathlib import Path

import pytest
import torch
from ruamel.yaml import YAML

from bukva.core.errors import BukvaError
from bukva.durability import checkpoints as module
from bukva.durability.checkpoints import Checkpoints, unpack

STAGE = "train-gpt"
FINGERPRINT = {"train_gpt.seed": 1, "model.n_head": 4, "src/bukva/scoring/window_rule.py": "aa", "numerics.lock": "bb"}


@pytest.fixture
def another(tmp_path, monkeypatch):
    """Return a function that makes Checkpoints as another process would, with changes to the fingerprint."""
    monkeypatch.setenv("BUKVA_ROOT", str(tmp_path))
    return lambda stage=STAGE, **changes: Checkpoints(stage, FINGERPRINT | changes)


@pytest.fixture
def checkpoints(another):
    return another()


def written(checkpoints, *steps):
    """Write checkpoints, and return for each whether it was written."""
    done = []
    for step in steps:
        checkpoints.write(step, {"weights": torch.full((5,), float(step)), "step": step})
        done.append(checkpoints.step == step)
    return done


def steps(checkpoints):
    return [int(file.name.partition("-")[0]) for file in sorted(checkpoints.folder.glob("*.pt"))]


def last(checkpoints):
    content = checkpoints.last()
    return unpack(content)["step"] if content else None


def test_the_last_two_are_kept_and_the_last_one_is_restored(checkpoints, another):
    checkpoints.folder.mkdir(parents=True)
    half = checkpoints.folder / ".000000002-aa.pt.part"  # left by a killed process
    half.write_bytes(b"half")
    assert last(checkpoints) is None
    assert written(checkpoints, 3, 5, 8, 13) == [True] * 4
    assert not half.exists()
    assert steps(checkpoints) == [8, 13]
    assert checkpoints.step == 13
    later = another()
    assert last(later) == 13
    assert written(later, 21) == [False]  # the first one still trains and saves for both
    assert (later.step, later.folder) == (13, checkpoints.folder)
    others = another("train-bigram"), another(**{"model.n_head": 8}), another(**{"numerics.lock": "cc"})
    assert not any(map(last, others))
    assert len({later.folder, *(other.folder for other in others)}) == 4


@pytest.mark.parametrize(
    "damage",
    [lambda content: content[: len(content) // 2], lambda content: content[:-1] + bytes([content[-1] ^ 1])],
    ids=["torn", "a bit flipped"],
)
def test_a_damaged_checkpoint_is_set_aside_and_the_one_before_it_is_restored(checkpoints, damage, capsys):
    written(checkpoints, 8, 9)
    [damaged] = checkpoints.folder.glob("*9-*.pt")
    damaged.write_bytes(damage(damaged.read_bytes()))
    assert last(checkpoints) == 8
    renamed = damaged.with_suffix(".broken")
    assert renamed.exists()
    words = f"A checkpoint cannot be read, so it was skipped and renamed to {renamed}. Reason: the content does not"
    assert capsys.readouterr().err.startswith(words)


class Dangerous:
    """Object that creates a file when it is unpickled."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return Path.touch, (self.path,)


def test_a_stranger_with_the_right_digest_is_set_aside_and_never_unpickled(checkpoints, tmp_path, capsys):
    checkpoints.folder.mkdir(parents=True)
    torch.save(Dangerous(tmp_path / "by torch"), archive := io.BytesIO())
    pickles = [pickle.dumps(Dangerous(tmp_path / "by pickle")), archive.getvalue()]
    for content in (b"", b"anything", b"\xff" * 20, *pickles):
        file = checkpoints.folder / f"000000003-{hashlib.sha256(content).hexdigest()[:16]}.pt"
        file.write_bytes(content)
        assert checkpoints.last() == b""
        assert file.with_suffix(".broken").exists()
        assert capsys.readouterr().err.endswith(".broken. Reason: the content is not a checkpoint\n")
    assert not list(tmp_path.glob("by*"))


def test_a_finished_training_keeps_its_checkpoint_until_dvc_has_its_outputs_or_another_one_starts(
    another, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DVC_STAGE", STAGE)
    lock, curve = Path("dvc.lock"), Path("train_gpt.csv")
    curve.write_text("step\n0\n")
    md5 = hashlib.md5(curve.read_bytes()).hexdigest()
    outs = [{"path": "data/models/gpt", "md5": "0.dir"}, {"path": str(curve), "md5": md5}]
    recorded = {"stages": {STAGE: {"cmd": "python", "outs": outs}}}  # as DVC does after the stage has finished
    YAML(typ="safe").dump(recorded, lock)
    finished, interrupted, other = (another(**{"train_gpt.seed": seed}) for seed in range(3))
    for training in (finished, interrupted):
        written(training, 1)
    another(**{"train_gpt.seed": 0}).clear_finished()  # dvc.lock is from an earlier run, and this run was interrupted
    finished.finish(curve)
    for text in ("stages: {}", "stages: {train-gpt: ["):  # dvc.lock before DVC writes it, and while DVC writes it
        lock.write_text(text)
        finished.clear_finished()
    assert steps(finished) == [1]
    YAML(typ="safe").dump(recorded, lock)
    finished.clear_finished()
    assert not finished.folder.exists()
    written(finished, 1)
    finished.finish(curve)
    other.clear_finished()
    assert not finished.folder.exists()
    assert steps(interrupted) == [1]
    monkeypatch.delenv("DVC_STAGE")  # no DVC will record the outputs
    interrupted.finish(curve)
    assert not interrupted.folder.exists()


def test_a_full_disk_ends_no_training_and_the_checkpoints_before_stay(checkpoints, monkeypatch, capsys):
    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    written(checkpoints, 1, 2)
    with monkeypatch.context() as disk:
        disk.setattr(os, "fsync", full)
        assert written(checkpoints, 3, 4) == [False, False]
    assert capsys.readouterr().err.count("could not save the checkpoint at step") == 1  # reported once
    assert (steps(checkpoints), checkpoints.step) == ([1, 2], 2)
    assert written(checkpoints, 5) == [True]


def test_only_checkpoints_of_ended_trainings_are_removed_and_not_of_the_last_one(another, monkeypatch, capsys):
    resumed, old, finished, newest, own = trainings = [another(**{"train_gpt.seed": seed}) for seed in range(5)]
    for training in trainings:
        written(training, 1, 2)
    monkeypatch.setenv("DVC_STAGE", STAGE)
    finished.finish(Path(__file__))
    size = sum(file.stat().st_size for file in own.folder.iterdir())

    def left(limit):
        monkeypatch.setattr(module, "MAX_BYTES", int(limit * size))
        assert written(own, own.step + 1) == [True]
        return [training for training in trainings if training.folder.exists()], capsys.readouterr().err

    stay = "All checkpoints together exceed 0 GiB, but stay, because their trainings run or were interrupted last.\n"
    assert left(1) == (trainings, stay)
    assert left(1) == (trainings, "")  # reported once
    for training in trainings[:-1]:  # as when their processes end
        training._lock.release()
    removed = (
        "Removed the checkpoints of 1 ended training, because all checkpoints together exceed 0 GiB: {}. To keep "
        f"others, resume their trainings, or move them out of {own.root}.\n"
    )
    assert left(4.9) == ([resumed, old, newest, own], removed.format(finished.folder.name))
    later = another(**{"train_gpt.seed": 0})
    assert last(later) == 2  # this locks the folder
    assert left(1) == ([resumed, newest, own], f"{removed.format(old.folder.name)}{stay}")


def test_the_interval_is_read_from_the_environment_or_an_error(another, monkeypatch):
    for text, seconds in (("0", 0.0), ("2.5", 2.5)):
        monkeypatch.setenv("BUKVA_CHECKPOINT_SECONDS", text)
        assert another().seconds == seconds
    for text in ("soon", "-1", "nan", "inf"):
        monkeypatch.setenv("BUKVA_CHECKPOINT_SECONDS", text)
        with pytest.raises(BukvaError, match=rf"BUKVA_CHECKPOINT_SECONDS: '{text}' is not a number of seconds\. Use "):
            another()
