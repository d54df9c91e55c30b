"""Checkpoints: what was interrupted goes on to the same bytes, and nothing broken is believed."""

import hashlib
import os
import signal

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from bukva.compute import Machine
from bukva.errors import BukvaError
from bukva.models.gpt import GPTConfig
from bukva.params import read_params
from bukva.training.checkpoint import KEPT, Checkpoints, Interruption, pack, resume, saving, seconds, unpack
from bukva.training.fit import fit, start

CPU = Machine(torch.device("cpu"), torch.float32)
SHAPE = GPTConfig(7, n_layer=2, n_head=1, n_embd=8, block_size=5, dropout=0.2)


def recipe(**changes):
    base = {"n_steps": 17, "eval_every": 4, "batch_size": 3, "warmup_steps": 2}
    return read_params().train_gpt.model_copy(update=base | changes)


def parts():
    ids = (np.random.default_rng(1).integers(2, size=300).cumsum() % 7).astype(np.uint8)
    return {"train": ids[:200], "val": ids[200:]}


def same(one, other):
    """Equal to the byte, tensors too; a tuple that was saved comes back as a list."""
    if not isinstance(one, list | tuple):
        assert type(one) is type(other)
    if isinstance(one, dict):
        assert one.keys() == other.keys()
        for key in one:
            same(one[key], other[key])
    elif isinstance(one, list | tuple):
        for a, b in zip(one, other, strict=True):
            same(a, b)
    elif isinstance(one, torch.Tensor):
        assert one.dtype == other.dtype
        assert torch.equal(one, other)
    else:
        assert one == other


@pytest.fixture
def checkpoints(tmp_path):
    return Checkpoints(tmp_path / "train-gpt-0123")


@pytest.fixture(autouse=True)
def often(monkeypatch):
    monkeypatch.setenv("BUKVA_CHECKPOINT_SECONDS", "0")


def trained(state, checkpoints, numbers, stop_after=None, asked=None):
    """Train on; `stop_after` cuts the training off as a kill would."""
    for progress in saving(fit(state, parts(), numbers, CPU), state, checkpoints, asked or Interruption()):
        if progress.step == stop_after:
            break
    return state


@pytest.mark.parametrize("optimizer", ["adamw", "muon"])
@pytest.mark.parametrize("stop_after", [1, 3, 4, 5, 16, 17])
def test_an_interrupted_training_ends_as_the_whole_one(checkpoints, optimizer, stop_after):
    numbers = recipe(optimizer=optimizer)
    whole = start(SHAPE, numbers, CPU)
    list(fit(whole, parts(), numbers, CPU))
    trained(start(SHAPE, numbers, CPU), checkpoints, numbers, stop_after)
    second = start(SHAPE, numbers, CPU)
    resume(second, checkpoints)
    assert second.step == stop_after
    trained(second, checkpoints, numbers)
    same(second.state_dict(), whole.state_dict())


def test_it_says_where_it_goes_on(checkpoints, capsys):
    numbers = recipe()
    state = start(SHAPE, numbers, CPU)
    resume(state, checkpoints)
    assert capsys.readouterr().err.startswith("from the start")
    trained(state, checkpoints, numbers, stop_after=6)
    resume(start(SHAPE, numbers, CPU), checkpoints)
    assert capsys.readouterr().err == "resumed at step 6\n"


def test_the_last_two_are_kept_and_none_when_the_training_is_done(checkpoints):
    trained(start(SHAPE, recipe(), CPU), checkpoints, recipe(), stop_after=9)
    names = sorted(file.name for file in checkpoints.folder.iterdir())
    assert [name.partition("-")[0] for name in names] == ["000000008", "000000009"]
    assert KEPT == 2
    checkpoints.clear()
    assert not checkpoints.folder.exists()
    checkpoints.clear()


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
    trained(start(SHAPE, recipe(), CPU), checkpoints, recipe(), stop_after=9)
    last = max(checkpoints.folder.iterdir())
    last.write_bytes(damage(last.read_bytes()))
    state = start(SHAPE, recipe(), CPU)
    resume(state, checkpoints)
    assert state.step == 8
    assert "set aside, for it is no checkpoint of this version" in capsys.readouterr().err
    assert last.with_suffix(".broken").exists()


def test_without_a_good_one_it_starts_anew(checkpoints):
    trained(start(SHAPE, recipe(), CPU), checkpoints, recipe(), stop_after=9)
    for file in checkpoints.folder.iterdir():
        file.write_bytes(b"torn")
    state = start(SHAPE, recipe(), CPU)
    resume(state, checkpoints)
    same(state.state_dict(), start(SHAPE, recipe(), CPU).state_dict())


def test_one_of_another_version_is_set_aside(checkpoints, capsys, monkeypatch):
    monkeypatch.setattr("bukva.training.checkpoint.VERSION", 99)
    checkpoints.save(start(SHAPE, recipe(), CPU))
    monkeypatch.undo()
    assert checkpoints.last() == b""
    assert "version 99, not 1" in capsys.readouterr().err


def test_a_file_that_claims_a_good_digest_and_is_none_is_set_aside(checkpoints):
    content = b"anything"
    checkpoints.folder.mkdir(parents=True)
    name = f"000000003-{hashlib.sha256(content).hexdigest()[:16]}.safetensors"
    (checkpoints.folder / name).write_bytes(content)
    assert checkpoints.last() == b""


@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_lets_the_update_end_and_saves_it(checkpoints, number, status):
    state = start(SHAPE, recipe(), CPU)
    with Interruption().heard() as asked, pytest.raises(SystemExit) as exit_:
        for progress in saving(fit(state, parts(), recipe(), CPU), state, checkpoints, asked):
            if progress.step == 5:
                os.kill(os.getpid(), number)
    assert exit_.value.code == status
    second = start(SHAPE, recipe(), CPU)
    resume(second, checkpoints)
    assert second.step == state.step == 5


def test_a_second_signal_ends_at_once():
    with Interruption().heard() as asked:
        os.kill(os.getpid(), signal.SIGTERM)
        assert asked.signal == signal.SIGTERM
        with pytest.raises(SystemExit) as exit_:
            os.kill(os.getpid(), signal.SIGTERM)
    assert exit_.value.code == 143


def test_signals_are_put_back():
    before = signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)
    with Interruption().heard():
        pass
    assert (signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)) == before


def test_between_two_checkpoints_time_passes(checkpoints, monkeypatch):
    monkeypatch.setenv("BUKVA_CHECKPOINT_SECONDS", "3600")
    trained(start(SHAPE, recipe(), CPU), checkpoints, recipe())
    assert not checkpoints.folder.exists()


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
