"""A training that was interrupted ends in the same bytes as one that was not, and says where it goes on."""

import os
import re
import signal

import numpy as np
import pytest
import torch
from bukva.durability.resume import resume, saving
from bukva.training.fit import fit
from equality import same

from bukva.base.errors import BukvaError
from bukva.config.load import read_params
from bukva.durability.checkpoints import Checkpoints
from bukva.durability.packing import unpack
from bukva.durability.signals import StopSignal
from bukva.models.gpt import GPTConfig
from bukva.training.device import Machine
from bukva.training.run import start
from bukva.training.windows import Windows

CPU = Machine(torch.device("cpu"), torch.float32)
SHAPE = GPTConfig(7, n_layer=2, n_head=1, n_embd=8, block_size=5, dropout=0.2)


def recipe(**changes):
    base = {"n_steps": 17, "eval_every": 4, "batch_size": 3, "warmup_steps": 2}
    return read_params().train_gpt.model_copy(update=base | changes)


def parts():
    ids = (np.random.default_rng(1).integers(2, size=300).cumsum() % 7).astype(np.uint8)
    return {"train": ids[:200], "val": ids[200:]}


@pytest.fixture
def checkpoints(tmp_path, monkeypatch):
    monkeypatch.setenv("DVC_ROOT", str(tmp_path))
    monkeypatch.setenv("BUKVA_CHECKPOINT_SECONDS", "0")
    return Checkpoints(tmp_path / ".bukva/checkpoints/train-gpt-0123", {"train_gpt.seed": 1})


def trained(state, checkpoints, numbers, stop_after=None):
    """Train on; `stop_after` cuts the training off as a kill in the update behind it would."""
    for progress in saving(fit(state, parts(), numbers, CPU), state, checkpoints, StopSignal()):
        if stop_after is not None and progress.step > stop_after:
            break
    return state


def resumed(checkpoints, numbers):
    state = start(SHAPE, numbers, CPU)
    resume(state, checkpoints)
    return state


def saved_steps(checkpoints):
    return [int(file.name[:9]) for file in sorted(checkpoints.folder.glob("*.safetensors"))]


@pytest.mark.parametrize("optimizer", ["adamw", "muon"])
@pytest.mark.parametrize("stop_after", [0, 1, 3, 4, 5, 16, 17])
def test_an_interrupted_training_ends_as_the_whole_one(checkpoints, optimizer, stop_after):
    numbers = recipe(optimizer=optimizer)
    whole = start(SHAPE, numbers, CPU)
    list(fit(whole, parts(), numbers, CPU))
    trained(start(SHAPE, numbers, CPU), checkpoints, numbers, stop_after)
    second = resumed(checkpoints, numbers)
    assert second.step == stop_after
    trained(second, checkpoints, numbers)
    same(second.state_dict(), whole.state_dict())


def test_it_says_where_it_goes_on_and_why_not(checkpoints, capsys):
    state = resumed(checkpoints, recipe())
    assert capsys.readouterr().err == "from the start: nothing was interrupted\n"
    trained(state, checkpoints, recipe(), stop_after=6)
    resumed(checkpoints, recipe())
    assert capsys.readouterr().err == "resumed at step 6\n"


def test_each_epoch_has_every_window_once_though_the_training_was_interrupted(checkpoints, monkeypatch):
    numbers, asked = recipe(batch_size=7, n_steps=23), []
    batch = Windows.batch

    def watched(self, step):
        asked.append((step, self.starts(step).tolist()))
        return batch(self, step)

    monkeypatch.setattr(Windows, "batch", watched)
    for stop_after in (2, 3, 11, None):
        trained(resumed(checkpoints, numbers), checkpoints, numbers, stop_after)
    learned = dict(asked)  # a batch that was fetched before the kill is fetched again, and must be the same one
    assert all(learned[step] == starts for step, starts in asked)
    windows = Windows(parts()["train"], SHAPE.block_size, 7, "epoch", numbers.seed)
    order = [start for step in range(1, 24) for start in learned[step]]
    for epoch in range(len(order) // windows.n_windows):
        of_one = order[epoch * windows.n_windows : (epoch + 1) * windows.n_windows]
        assert len(set(of_one)) == windows.n_windows
        assert len({start % SHAPE.block_size for start in of_one}) == 1  # side by side


def test_scoring_more_often_leaves_the_training_as_it_is(checkpoints):
    states = [start(SHAPE, recipe(), CPU) for _ in range(2)]
    for state, every in zip(states, (1, 17), strict=True):
        list(fit(state, parts(), recipe(eval_every=every), CPU))
    same(states[0].weights(), states[1].weights())


def test_the_first_and_the_last_state_are_saved_however_rare_checkpoints_are(checkpoints):
    checkpoints.seconds = 3600.0
    trained(start(SHAPE, recipe(), CPU), checkpoints, recipe(), stop_after=9)
    assert saved_steps(checkpoints) == [0]
    state = trained(resumed(checkpoints, recipe()), checkpoints, recipe())
    assert saved_steps(checkpoints) == [0, 17]
    same(resumed(checkpoints, recipe()).state_dict(), state.state_dict())


def test_a_training_that_had_ended_ends_again_at_once(checkpoints):
    numbers = recipe(patience=1, learning_rate=1e-9)  # it stops early, and must not go on
    ended = trained(start(SHAPE, numbers, CPU), checkpoints, numbers)
    assert ended.step < 17
    again = trained(resumed(checkpoints, numbers), checkpoints, numbers)
    same(again.state_dict(), ended.state_dict())


def edited(checkpoints, edit):
    """A checkpoint that somebody else has made, with a right digest."""
    step, state = checkpoints.step, unpack(checkpoints.last(lambda _: ""))
    edit(state)
    checkpoints.save(step + 1, state)


@pytest.mark.parametrize(
    ("edit", "reason"),
    [
        (lambda state: state.pop("updates"), "it has model, optimizer, step, train_nats"),
        (lambda state: state["model"].pop("wte.weight"), r"model, wte.weight: NoneType, not torch.float32 \(7, 8\)"),
        (lambda state: state["model"].update(other=torch.ones(1)), "model, other: torch.float32"),
        (lambda state: state["model"].update({"wte.weight": torch.ones(8, 7)}), r"\(8, 7\), not torch.float32"),
        (lambda state: state["best_weights"].update({"wte.weight": torch.ones(7, 8).half()}), "best_weights, .*16"),
        (lambda state: state.update(step="9"), "step: str"),
        (lambda state: state["scored"].append({"step": 1, "colour": 2}), "colour"),
        (lambda state: state["optimizer"].pop(), "longer"),
        (lambda state: state["optimizer"][0]["state"][0].update(momentum=torch.ones(3)), "optimizer, momentum of"),
        (lambda state: state["optimizer"][1]["param_groups"].pop(), "other groups"),
    ],
)  # fmt: skip
def test_one_from_a_stranger_is_refused_by_what_is_wrong_with_it(checkpoints, edit, reason, capsys):
    trained(start(SHAPE, recipe(), CPU), checkpoints, recipe(), stop_after=9)
    edited(checkpoints, edit)
    state = resumed(checkpoints, recipe())
    assert state.step == 9
    said = capsys.readouterr().err
    assert re.search(reason, said), said


@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_lets_the_update_end_and_saves_it(checkpoints, number, status, capsys):
    checkpoints.seconds = 3600.0
    state = start(SHAPE, recipe(), CPU)
    with pytest.raises(SystemExit) as exit_, StopSignal().heard() as asked:
        for progress in saving(fit(state, parts(), recipe(), CPU), state, checkpoints, asked):
            if progress.step == 5:
                os.kill(os.getpid(), number)
    assert exit_.value.code == status
    assert capsys.readouterr().err == "interrupted after step 5, which is saved: the same command goes on\n"
    assert resumed(checkpoints, recipe()).step == state.step == 5


def test_an_interruption_that_could_not_be_saved_says_so(checkpoints, monkeypatch, capsys):
    monkeypatch.setattr(Checkpoints, "save", lambda *_: False)
    state = start(SHAPE, recipe(), CPU)
    with pytest.raises(SystemExit), StopSignal().heard() as asked:
        for _ in saving(fit(state, parts(), recipe(), CPU), state, checkpoints, asked):
            os.kill(os.getpid(), signal.SIGTERM)
    assert capsys.readouterr().err == "interrupted after step 0, which is not saved\n"


@pytest.mark.parametrize("where", ["weights", "loss"])
def test_what_is_no_number_is_never_saved_and_stops_the_training(checkpoints, where):
    numbers, state = recipe(learning_rate=0.125), start(SHAPE, recipe(), CPU)
    words = (
        r"^the training diverged at step 5, learning rate 0\.\d+: .* no number; the last good checkpoint, of step 4, "
    )
    with pytest.raises(BukvaError, match=words + r"has the best weights, of step \d; a smaller learning_rate or more"):
        for progress in saving(fit(state, parts(), numbers, CPU), state, checkpoints, StopSignal()):
            if progress.step == 5:
                broken = next(state.model.parameters()) if where == "weights" else state.train_nats
                with torch.no_grad():
                    broken.fill_(float("nan"))
    again = resumed(checkpoints, numbers)
    assert again.step == 4
    assert again.fault() == ""
    assert np.isfinite(again.best_val)


@pytest.mark.parametrize("rate", [1e4, 1e30])
def test_an_exploding_loss_stops_the_training_at_the_next_scoring(checkpoints, rate):
    checkpoints.seconds = 3600.0
    numbers = recipe(optimizer="adamw", learning_rate=rate, grad_clip=0.0)
    state = start(SHAPE, numbers, CPU)
    with pytest.raises(
        BukvaError, match=r"diverged at step 4, learning rate .*e\+\d+: .*; the last good checkpoint, of step 0"
    ):
        trained(state, checkpoints, numbers)
    assert saved_steps(checkpoints) == [0]


def test_without_any_checkpoint_a_diverged_training_says_so(checkpoints, monkeypatch):
    monkeypatch.setattr(Checkpoints, "save", lambda *_: False)
    numbers = recipe(optimizer="adamw", learning_rate=1e30, grad_clip=0.0)
    with pytest.raises(BukvaError, match="there is no checkpoint; a smaller learning_rate"):
        trained(start(SHAPE, numbers, CPU), checkpoints, numbers)
