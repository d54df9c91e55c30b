"""A recorded update gives the same result as the plain update, whatever changes between updates.

The tests need no GPU: a tracer replaces CUDA. torch's make_fx records the operations of one update and replays them on
a CPU. Like a CUDA graph, the recording contains every Python number as a constant, and reading a value from the device
while recording is an error.
"""

import copy
import dataclasses

import pytest
import torch
from torch.fx.experimental.proxy_tensor import make_fx

from bukva.backends import cuda
from bukva.backends.base import Backend, TrainingJob
from bukva.backends.device import Machine
from bukva.backends.group import Group
from bukva.core.schema import OPTIMIZERS
from bukva.training import run as module
from bukva.training.run import start
from tests.tiny import SHAPE, TAUGHT, WITH_MEMORY, Call, run, task

PLAIN = Machine(torch.device("cpu"), torch.float32, is_plain=True)
NO_DROPOUT = dataclasses.replace(SHAPE, n_layer=2, dropout=0.0)
COUNTED = dataclasses.replace(WITH_MEMORY, dropout=0.0)


class Tracer:
    def __init__(self):
        self.n_replays = 0

    def warm_up(self, update):
        update()

    def record(self, update):
        recorded = make_fx(update)()

        def replay():
            self.n_replays += 1
            with torch.no_grad():
                return recorded()

        return replay

    def load(self, inputs, batch):
        for fixed, tensor in zip(inputs, batch, strict=True):
            fixed.copy_(tensor)


class Failing(Tracer):
    """Recorder whose warm-up or recording fails after it has changed the weights by one update."""

    def __init__(self, fails, error):
        super().__init__()
        self.fails, self.error = fails, error

    def warm_up(self, update):
        super().warm_up(update)
        if self.fails == "warm-up":
            raise self.error

    def record(self, update):
        super().record(update)
        raise self.error


class Recorded(Backend):
    def __init__(self, recorder):
        self.recorder = recorder

    def prepare_update(self, job, update, group):  # noqa: ARG002 (as in Backend)
        return cuda.RecordedUpdate(job, update, torch.default_generator, self.recorder)


@pytest.fixture
def recorded(monkeypatch):
    """Return a function that makes training use a recorder, and returns this recorder."""

    def use(recorder):
        monkeypatch.setattr(module, "backend_of", lambda _: Recorded(recorder))
        return recorder

    return use


def plain_task(shape, **changes):
    return task(shape, PLAIN, batch_size=12, eval_every=5, **changes)


def same(ours, theirs, **tolerance):
    assert ours.keys() == theirs.keys()
    for name, tensor in ours.items():
        torch.testing.assert_close(tensor, theirs[name], **tolerance)


def losses(progress):
    return [progress.train_nats_per_char or 0.0, progress.val_nats_per_char or 0.0, progress.gradient_norm or 0.0]


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize(
    ("shape", "n"), [(NO_DROPOUT, 1), (NO_DROPOUT, 3), (COUNTED, 3)], ids=["one", "three", "ngrams"]
)
def test_fifty_recorded_updates_are_fifty_plain_ones(recorded, shape, n, optimizer):
    numbers = {"n_steps": 50, "warmup_steps": 7, "grad_clip": 0.5, "weight_decay": 0.3, "micro_batches": n}
    plain, expected = run(plain_task(shape, optimizer=optimizer, **numbers))
    tracer = recorded(Tracer())
    state, recorded_progress = run(plain_task(shape, optimizer=optimizer, **numbers))
    assert tracer.n_replays == 50
    same(state.weights(), plain.weights(), rtol=1e-4, atol=1e-5)
    for one, other in zip(recorded_progress, expected, strict=True):
        assert losses(one) == pytest.approx(losses(other), rel=1e-4)


def test_a_resumed_training_ends_in_the_bytes_of_an_undisturbed_one(recorded):
    """Each replay draws dropout from the seed of its step. The first training said that its losses were compiled."""
    recorded(Tracer())
    whole = run(plain_task(SHAPE, optimizer="muon"))[0]
    saved = []
    keep = Call(7, lambda state, _: saved.append(copy.deepcopy(state.state_dict())))
    run(plain_task(SHAPE, optimizer="muon"), callbacks=[keep])
    again = start(plain_task(SHAPE, optimizer="muon"))
    again.load_state_dict(saved[0] | {"numerics": {"losses": "compiled"}})
    run(plain_task(SHAPE, optimizer="muon"), again)
    same(again.weights(), whole.weights(), rtol=0, atol=0)
    assert again.curve == whole.curve
    assert (whole.numerics, again.numerics) == ({"losses": "not compiled"}, {"losses": "compiled for some updates"})


@pytest.mark.parametrize(
    ("fails", "error", "why"),
    [("recording", RuntimeError("operation not permitted\nwhen stream is capturing"),
      "the update could not be captured. Reason: operation not permitted when stream is capturing"),
     ("warm-up", torch.OutOfMemoryError("tried to allocate 7 GiB"),
      "the GPU does not have enough memory for a graph."),
     ("warm-up", RuntimeError("no kernel image"), "the update could not be captured. Reason: no kernel image")],
    ids=range(3),
)  # fmt: skip
def test_what_cannot_be_recorded_is_trained_plainly_with_one_sentence_why(recorded, fails, error, why, capsys):
    plain = run(plain_task(SHAPE, optimizer="muon"))[0]
    recorded(Failing(fails, error))
    state = run(plain_task(SHAPE, optimizer="muon"))[0]
    same(state.weights(), plain.weights(), rtol=1e-4, atol=1e-6)
    assert capsys.readouterr().err == f"GPU: Training runs without a CUDA graph, because {why}\n"


def test_several_processes_are_not_recorded_and_rank_0_says_so(capsys):
    update = object()
    for rank in (0, 1):
        assert cuda.BACKEND.prepare_update(None, update, Group(rank, 2)) is update
    assert capsys.readouterr().err.count("2 processes train together") == 1


def test_a_long_training_compiles_its_losses_and_falls_back_where_that_fails(recorded, monkeypatch, capsys):
    compiled = []

    def compile_(function, **_):
        compiled.append(function)

        def loss(*batch):
            if len(compiled) > 1:
                raise RuntimeError("Failed to find C compiler")
            return function(*batch)

        return loss

    monkeypatch.setattr(torch, "compile", compile_)
    tracer = recorded(Tracer())
    graph = "GPU: Each update runs as one CUDA graph, with"
    run(plain_task(NO_DROPOUT))
    why = "because compiling takes 20 s and would save 0 s."
    assert capsys.readouterr().err == f"{graph}out a compiled loss function, {why}\n"
    monkeypatch.setattr(cuda, "COMPILE_SECONDS", 0.0)
    failed = [
        "GPU: The loss function could not be compiled. Reason: Failed to find C compiler",
        f"{graph}out a compiled loss function.",
    ]
    for lines in ([f"{graph} a compiled loss function."], failed):
        state = run(plain_task(NO_DROPOUT))[0]
        assert capsys.readouterr().err.splitlines() == lines
        assert "loss" not in state.model.__dict__
        assert state.numerics == {"losses": "compiled" if len(compiled) == 1 else "not compiled"}
    assert (len(compiled), tracer.n_replays) == (2, 30)


@pytest.mark.parametrize("shape", [SHAPE, TAUGHT, WITH_MEMORY], ids=["plain", "teacher", "memory"])
def test_the_loss_and_muons_update_are_traced_whole_and_compute_the_same(shape, monkeypatch):
    """Without the compiler's own backend, which takes a minute on a CPU."""
    traced, compile_ = [], torch.compile

    def trace(function, **options):
        traced.append(function.__name__)
        return compile_(function, dynamic=options["dynamic"], fullgraph=options["fullgraph"], backend="eager")

    monkeypatch.setattr(torch, "compile", trace)
    trained = plain_task(dataclasses.replace(shape, dropout=0.0), optimizer="muon")
    plain, state = (start(trained) for _ in range(2))
    for each in (plain, state):
        each.optimizer.make_capturable(torch.device("cpu"))
        each.optimizer.set_learning_rate(0.03)
    with cuda.compiling(TrainingJob(state.model, state.optimizer, (12, 5), 3, {})):
        for each in (plain, state):
            for step in range(1, 4):
                each.model.zero_grad()
                [batch] = trained.windows.batch(step, ngrams=each.model.ngrams_in_training)
                each.model.loss(*batch).backward()
                each.optimizer.step()
    assert traced == ["loss", "update"]
    same(state.weights(), plain.weights(), rtol=1e-5, atol=1e-7)
