"""Training in forked workers gives the same results as training in one process."""

import copy
import dataclasses
import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import psutil
import pytest
import torch

from bukva.backends.cpu import forks
from bukva.backends.cpu.forks import n_forks
from bukva.core.errors import BukvaError
from bukva.core.schema import OPTIMIZERS
from bukva.training.run import start
from bukva.training.state import DivergedError
from tests.support.equality import same
from tests.tiny import SHAPE, WITH_MEMORY, Call, run, task

ROOT = Path(__file__).parents[2]
PLAIN = dataclasses.replace(SHAPE, n_layer=3, dropout=0.0)
COUNTED = dataclasses.replace(WITH_MEMORY, dropout=0.0)


@pytest.fixture
def cores(monkeypatch):
    """Use three workers even for the tiny batches of these tests."""
    monkeypatch.setattr(forks, "MIN_IDS_PER_WORKER", 1)
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    yield
    torch.set_num_threads(before)


def trained(shape, state=None, callbacks=(), **changes):
    return run(task(shape, batch_size=12, eval_every=5, **changes), state, callbacks)


def alone(*given, **changes):
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        return trained(*given, **changes)
    finally:
        torch.set_num_threads(threads)


def losses(progress):
    scored = [one for one in progress if one.step in (5, 10)]
    return [[one.train_nats_per_char, one.val_nats_per_char, one.gradient_norm] for one in scored]


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize(("shape", "n"), [(PLAIN, 2), (COUNTED, 1)], ids=["plain", "counted"])
def test_three_processes_end_with_the_weights_the_losses_and_the_optimizer_of_one(cores, shape, n, optimizer):
    (one, before), (three, after) = (train(shape, optimizer=optimizer, micro_batches=n) for train in (alone, trained))
    for expected, actual in zip(losses(before), losses(after), strict=True):
        assert actual == pytest.approx(expected, rel=1e-4)
    assert three.best_step == one.best_step
    for name, weight in one.weights().items():
        torch.testing.assert_close(three.weights()[name], weight, rtol=1e-3, atol=1e-4)
    for ours, theirs in zip(three.optimizer.tensors(), one.optimizer.tensors(), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-2, atol=1e-4)


def test_they_give_the_same_bytes_again_also_after_a_restart_in_the_middle(cores):
    whole = trained(SHAPE, optimizer="muon")[0]
    saved = []
    keep = Call(7, lambda state, _: saved.append(copy.deepcopy(state.state_dict())))
    trained(SHAPE, optimizer="muon", callbacks=[keep])
    again = start(task(SHAPE, batch_size=12, eval_every=5, optimizer="muon"))
    again.load_state_dict(saved[0])
    trained(SHAPE, again, optimizer="muon")
    same(again.weights(), whole.weights())
    assert again.curve == whole.curve


def test_each_draws_its_own_dropout_and_computes_its_share(cores):
    assert losses(trained(SHAPE)[1]) != losses(alone(SHAPE)[1])
    seen = []
    trained(SHAPE, callbacks=[Call(3, lambda *_: seen.append(len(now())))])
    assert (seen, now()) == ([2], [])


def now():
    # other tests of this process leave children that have ended
    return [child for child in psutil.Process().children() if child.status() != psutil.STATUS_ZOMBIE]


@pytest.mark.parametrize("stop", [DivergedError(3, 0.1, "as a test wants"), KeyboardInterrupt()])
def test_no_process_is_left_when_the_first_one_stops(cores, stop):
    def fail(*_):
        raise stop

    with pytest.raises(type(stop)):
        trained(SHAPE, callbacks=[Call(3, fail)])
    assert now() == []
    assert torch.get_num_threads() == 3


def test_a_process_that_is_killed_ends_the_training_with_a_sentence(cores):
    def kill(*_):
        now()[1].send_signal(signal.SIGKILL)

    with pytest.raises(BukvaError, match="One of the 3 training processes has died"):
        trained(SHAPE, callbacks=[Call(3, kill)])
    assert now() == []


def test_the_others_end_when_the_first_one_is_killed_and_ignore_ctrl_c():
    program = textwrap.dedent("""
        import os, signal, torch
        from bukva.backends.cpu.forks import forked
        def work(group):
            os.write(1, b"%d\\n" % os.getpid())
            while True:
                group.barrier()
        with forked(2, work, [torch.zeros(3)], []) as group:
            work(group)
    """)
    with subprocess.Popen(
        [sys.executable, "-c", program],
        env={**os.environ, "PYTHONPATH": f"{ROOT / 'src'}:{os.environ.get('PYTHONPATH', '')}"},
        stdout=subprocess.PIPE,
    ) as process:
        try:
            pids = {int(process.stdout.readline()) for _ in range(2)}
            (other,) = (psutil.Process(pid) for pid in pids - {process.pid})
            other.send_signal(signal.SIGINT)
            assert other.is_running()
        finally:
            process.kill()
    assert psutil.wait_procs([other], timeout=20)[1] == []


@pytest.mark.parametrize(
    ("threads", "batch", "block", "n"),
    [(1, 16, 64, 1), (2, 16, 64, 2), (3, 16, 64, 2), (8, 16, 64, 4), (8, 64, 256, 8), (2, 12, 64, 2), (2, 7, 64, 1),
     (2, 16, 8, 1)],
)  # fmt: skip
def test_a_batch_is_divided_where_equal_shares_are_large_enough(threads, batch, block, n):
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    assert n_forks(batch, block) == n
    torch.set_num_threads(before)
