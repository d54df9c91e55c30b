"""An interrupted training run ends in the same bytes as an uninterrupted one, and reports where it resumed."""

import contextlib
import math
import os
import signal

import pytest
import tiny
import torch
from durability.test_checkpoints import steps
from tiny import SHAPE, WITH_MEMORY, Call, Record, run

from bukva.backends.group import ALONE, Group
from bukva.core.processes import signals_call
from bukva.core.schema import OPTIMIZERS
from bukva.durability.checkpoints import Checkpoints, unpack
from bukva.durability.training import Durability, restore
from bukva.training.run import run_training, start
from bukva.training.state import DivergedError
from tests.support.equality import same

STAGE = "train-gpt"


def task(shape=SHAPE, **changes):
    """Return a task that is hard to resume, because of dropout, warm-up and a last interval of unequal length."""
    return tiny.task(shape, **{"n_steps": 17, "optimizer": "muon", "learning_rate": 0.004} | changes)


@pytest.fixture
def checkpoints(tmp_path, monkeypatch):
    """Return Checkpoints that save after every update."""
    monkeypatch.setenv("BUKVA_ROOT", str(tmp_path))
    monkeypatch.setenv("BUKVA_CHECKPOINT_SECONDS", "0")
    return Checkpoints(STAGE, {"train_gpt.seed": 1})


class KilledError(Exception):
    """Ends training without a chance to save, like SIGKILL."""


def trained(state, checkpoints, task, killed_after=None):
    """Train. If `killed_after` is given, stop in the next update, before its checkpoint."""

    def kill(*_):
        raise KilledError

    killer = Call(None if killed_after is None else killed_after + 1, kill)
    with contextlib.suppress(KilledError):
        run_training(task, state, [killer, Durability(checkpoints)])
    return state


def resumed(checkpoints, task):
    """Return the state that a new process restores. The random number generator is in another state, on purpose."""
    state = start(task)
    torch.manual_seed(99)
    restore(state, checkpoints, ALONE)
    return state


@pytest.mark.parametrize(
    ("shape", "optimizer", "killed_after"),
    [
        *((SHAPE, "muon", step) for step in (0, 4, 17)),  # before the first update, after a scoring, after the last
        *((SHAPE, name, 3) for name in OPTIMIZERS),
        (WITH_MEMORY, "muon", 5),
    ],
    ids=lambda value: value if isinstance(value, int | str) else value.ngrams,
)
def test_a_killed_training_ends_as_an_uninterrupted_one(checkpoints, shape, optimizer, killed_after, capsys):
    numbers = task(shape, optimizer=optimizer)
    whole, _ = run(numbers)
    first = resumed(checkpoints, numbers)
    assert capsys.readouterr().err == ""
    trained(first, checkpoints, numbers, killed_after)
    assert unpack(checkpoints.last())["model"].keys() == whole.model.state_dict().keys()
    second = resumed(checkpoints, numbers)
    assert second.step == killed_after
    assert capsys.readouterr().err == f"Resumed at step {killed_after}.\n"
    trained(second, checkpoints, numbers)
    same(second.state_dict(), whole.state_dict())
    same(second.best_weights, whole.best_weights)


def test_every_process_restores_what_rank_0_has_read(checkpoints, capsys):
    first = trained(start(task()), checkpoints, task(), killed_after=9)
    capsys.readouterr()
    messages = []

    class Two(Group):
        def broadcast(self, content):
            messages.append(content)
            return messages[0]

    leader, other = start(task()), start(task())
    restore(leader, checkpoints, Two(0, 2))
    restore(other, checkpoints, Two(1, 2))
    assert messages[1] == b""  # rank 1 does not read
    same(leader.state_dict(), other.state_dict())
    assert leader.step == 9 == first.step - 1
    assert capsys.readouterr().err == "Resumed at step 9.\n"  # once


def test_a_training_that_ended_early_ends_at_once_when_it_is_resumed(checkpoints):
    """Patience ends the run. At a learning rate of 0 the weights do not change, so val does not improve."""
    numbers = task(patience=1, learning_rate=0.0)
    ended = trained(start(numbers), checkpoints, numbers)
    assert ended.step == 4
    again, last = resumed(checkpoints, numbers), Record()
    run_training(numbers, again, [last, Durability(checkpoints)])
    assert last.calls == [("on_start", 4), ("on_end", 4)]
    same(again.state_dict(), ended.state_dict())


def test_the_first_and_the_last_state_are_saved_however_rare_checkpoints_are(checkpoints):
    checkpoints.seconds = 3600.0
    trained(start(task()), checkpoints, task(), killed_after=9)
    assert steps(checkpoints) == [0]
    state = trained(resumed(checkpoints, task()), checkpoints, task())
    assert steps(checkpoints) == [0, 17]
    same(resumed(checkpoints, task()).state_dict(), state.state_dict())


@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_lets_the_update_end_and_saves_it_and_a_second_one_ends_all(checkpoints, number, status, capsys):
    checkpoints.seconds = 3600.0
    before, last, durability = signal.getsignal(number), Record(), Durability(checkpoints)
    with signals_call(durability.request_stop, number):
        send = Call(5, lambda *_: os.kill(os.getpid(), number))
        run(task(), callbacks=[send, durability, last])
        with pytest.raises(SystemExit) as second:
            os.kill(os.getpid(), number)
    with pytest.raises(SystemExit) as ready:
        durability.exit_if_requested()
    assert second.value.code == ready.value.code == status
    assert signal.getsignal(number) == before
    assert last.calls[-1] == ("on_update", 5)
    printed = "Interrupted after step 5. The checkpoint is saved. Run the same command to resume.\n"
    assert capsys.readouterr().err == printed
    again = resumed(checkpoints, task())
    assert (again.step, again.stop_requested) == (5, False)


@pytest.mark.parametrize(
    ("damaged", "value", "what"),
    [
        (lambda state: state.model.lm_head.weight.data[-1, -1:], math.nan, "lm_head.weight"),
        (lambda state: state.sums[:1], math.inf, "the loss"),
        (lambda state: state.sums[1:], math.nan, "the gradient"),
    ],
    ids=["weight", "loss", "gradient"],
)
def test_a_state_that_is_not_finite_is_not_saved_and_stops_the_training(checkpoints, damaged, value, what):
    numbers, durability = task(learning_rate=0.125), Durability(checkpoints)
    words = rf"^the training diverged at step 5, learning rate 0\.\d+: {what} is NaN or infinite$"
    with pytest.raises(DivergedError, match=words):
        run(numbers, callbacks=[Call(5, lambda state, _: damaged(state).fill_(value)), durability])
    last = "The last checkpoint, of step 4, contains the best weights, of step 2."
    assert durability.describe_last_checkpoint(2) == last
    again = resumed(checkpoints, numbers)
    assert again.step == 4
    again.check_finite(0.0)
