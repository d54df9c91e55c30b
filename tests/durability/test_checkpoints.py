"""Checkpoints: the last two are there and whole, and nothing broken or foreign is believed."""

import contextlib
import hashlib
import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from equality import same
from hypothesis import given
from hypothesis import strategies as st

from bukva.base.errors import BukvaError
from bukva.durability.checkpoints import Checkpoints, seconds
from bukva.durability.packing import pack, unpack
from bukva.training import checkpoint

SRC = Path(__file__).parents[2] / "src"
NAME = "train-gpt-0123456789abcdef"
IDENTITY = {"train_gpt.seed": 1, "model.n_head": 4, "src/bukva/scoring/window_rule.py": "aa", "numerics.lock": "bb"}


@pytest.fixture
def another(tmp_path, monkeypatch):
    """Makes what a process has of the checkpoints of a training."""
    monkeypatch.setenv("DVC_ROOT", str(tmp_path))
    return lambda name=NAME, **changes: Checkpoints(checkpoint.root() / name, IDENTITY | changes)


@pytest.fixture
def checkpoints(another):
    return another()


def state(number):
    return {"weights": torch.full((5,), float(number)), "step": number}


def saved(checkpoints, *steps):
    return [checkpoints.save(step, state(step)) for step in steps]


def files(checkpoints):
    return sorted(checkpoints.folder.glob("*.safetensors"))


def steps(checkpoints):
    return [int(file.name.partition("-")[0]) for file in files(checkpoints)]


def last(checkpoints, misfit=lambda _: ""):
    content = checkpoints.last(misfit)
    return unpack(content)["step"] if content else None


@contextlib.contextmanager
def a_disk_that_takes(n_bytes):
    """For real: this process may write no more into a file."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (n_bytes, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_the_last_two_are_kept_and_the_last_counts(checkpoints, another):
    assert not checkpoints
    assert saved(checkpoints, 3, 5, 8, 13) == [True] * 4
    assert steps(checkpoints) == [8, 13]
    assert checkpoints.step == 13
    later = another()
    assert later
    assert last(later) == 13
    assert later.step == 13


@pytest.mark.parametrize(
    "damage",
    [
        lambda _: b"",
        lambda content: content[: len(content) // 2],
        lambda content: content[:-1] + bytes([content[-1] ^ 1]),
        lambda content: b"\xff" * 16 + content[16:],
        lambda _: b"\x80\x04. a pickle",
    ],
    ids=["empty", "torn", "a bit flipped", "a lying header", "a pickle"],
)
def test_a_broken_one_is_set_aside_and_the_one_before_it_counts(checkpoints, damage, capsys):
    saved(checkpoints, 8, 9)
    broken = files(checkpoints)[-1]
    broken.write_bytes(damage(broken.read_bytes()))
    assert last(checkpoints) == 8
    aside = broken.with_suffix(".broken")
    assert aside.exists()
    assert capsys.readouterr().err.startswith(
        f"{aside}: set aside, for it is no checkpoint of this training (its bytes"
    )


@pytest.mark.parametrize("content", [b"anything", b"\xff" * 20, b"\x80\x04. a pickle", pack(["no", "dictionary"])])
def test_one_with_a_good_digest_that_is_none_is_set_aside(checkpoints, content):
    checkpoints.folder.mkdir(parents=True)
    name = f"000000003-{hashlib.sha256(content).hexdigest()[:16]}.safetensors"
    (checkpoints.folder / name).write_bytes(content)
    assert checkpoints.last(lambda saved: saved["misfit"]) == b""
    assert (checkpoints.folder / name).with_suffix(".broken").exists()


def test_one_of_another_version_is_set_aside(checkpoints, capsys, monkeypatch):
    monkeypatch.setattr(checkpoint, "VERSION", 99)
    saved(checkpoints, 1)
    monkeypatch.undo()
    assert last(checkpoints) is None
    assert "version 99, not 1" in capsys.readouterr().err


def test_one_of_another_training_is_set_aside_with_the_reason(checkpoints, capsys):
    saved(checkpoints, 1, 2)
    assert last(checkpoints, lambda found: "too many heads" if found["step"] == 2 else "") == 1
    assert "(too many heads)" in capsys.readouterr().err


def test_a_disk_that_takes_none_is_told_once_and_the_ones_before_stay(checkpoints, capsys):
    saved(checkpoints, 1, 2)
    with a_disk_that_takes(100):
        assert saved(checkpoints, 3, 4) == [False, False]
    assert capsys.readouterr().err == (
        "train-gpt: no checkpoint at step 3 (File too large); training goes on, and the next one is tried\n"
    )
    assert steps(checkpoints) == [1, 2]
    assert checkpoints.step == 2
    assert not list(checkpoints.folder.glob(".*.part"))
    assert saved(checkpoints, 5) == [True]
    with a_disk_that_takes(100):
        saved(checkpoints, 6)
    assert "no checkpoint at step 6" in capsys.readouterr().err  # after a good one it is news again


def test_of_two_processes_that_train_the_same_one_writes_and_the_other_when_it_is_gone(checkpoints, capsys):
    program = (
        "import sys; from pathlib import Path; from bukva.durability.checkpoints import Checkpoints\n"
        f"ours = Checkpoints(Path({str(checkpoints.folder)!r}), {{}}); ours.save(1, [])\n"
        "print('saved', flush=True); sys.stdin.read()"
    )
    environment = os.environ | {"PYTHONPATH": str(SRC)}
    command = [sys.executable, "-c", program]
    with subprocess.Popen(command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as first:
        assert first.stdout.readline() == b"saved\n"
        assert saved(checkpoints, 2, 3) == [False, False]
        assert steps(checkpoints) == [1]
        first.kill()
    said = "train-gpt: another process trains the same, and keeps its checkpoints for both\n"
    assert capsys.readouterr().err == said
    assert saved(checkpoints, 4) == [True]


def test_what_a_kill_left_half_written_is_swept(checkpoints, another):
    checkpoints.folder.mkdir(parents=True)
    (checkpoints.folder / ".000000007-aa.safetensors.part").write_bytes(b"half")
    assert last(checkpoints) is None
    saved(checkpoints, 1)
    assert not list(checkpoints.folder.glob(".*.part"))


def test_all_together_are_bounded_and_the_oldest_trainings_make_room(another, monkeypatch, capsys):
    trainings = [another(f"train-gpt-{number}") for number in range(4)]
    for training in trainings[:3]:
        saved(training, 1, 2)
    size = sum(file.stat().st_size for file in trainings[0].folder.iterdir())
    monkeypatch.setattr(checkpoint, "MOST_BYTES", int(2.5 * size))
    saved(trainings[3], 1, 2)
    assert [training.folder.exists() for training in trainings] == [False, False, True, True]
    assert capsys.readouterr().err.count(": removed, for all checkpoints together take more than") == 2
    monkeypatch.setattr(checkpoint, "MOST_BYTES", 1)
    assert saved(trainings[3], 3) == [True]
    assert steps(trainings[3]) == [2, 3]  # its own stay whatever their size


def test_there_is_a_reason_to_start_from_the_start(another, capsys):
    present = another()
    assert present.why_none() == "nothing was interrupted"
    former = another("train-gpt-former", **{"model.n_head": 8, "src/bukva/scoring/window_rule.py": "cc"})
    saved(former, 5)
    saved(another("train-bigram-other"), 5)  # of another stage
    assert present.why_none() == (
        "since the one that was interrupted, model.n_head was 8 and is 4, src/bukva/scoring/window_rule.py is another"
    )
    saved(present, 3)
    files(present)[0].write_bytes(b"torn")
    assert last(present) is None
    assert present.why_none() == "none of its checkpoints is whole"


@pytest.mark.parametrize("text", ["", "soon", "-1", "nan", "inf"])
def test_an_interval_that_is_none_is_a_sentence(monkeypatch, text):
    monkeypatch.setenv("BUKVA_CHECKPOINT_SECONDS", text)
    with pytest.raises(BukvaError, match=rf"BUKVA_CHECKPOINT_SECONDS: '{text}' is no number of seconds; 30 would do."):
        seconds()


TREES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.integers() | st.text(), inner, max_size=3),
)


@given(TREES)
def test_what_is_packed_comes_out_again(tree):
    same(unpack(pack(tree)), tree)


def test_tensors_of_every_kind_come_out_again():
    tree = {
        0: torch.arange(6).view(2, 3).T,
        "half": torch.randn(3).bfloat16(),
        "empty": torch.empty(0, 5),
        "alone": torch.tensor(2.5, dtype=torch.float64),
        "twice": [torch.ones(2)] * 2,
    }
    same(unpack(pack(tree)), tree)
