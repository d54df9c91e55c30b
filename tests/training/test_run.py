"""The training loop: deterministic, resumable from its state, undisturbed by who watches."""

import copy
import csv
import dataclasses
import math

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from bukva.training.fit import fit

from bukva.config.load import read_params
from bukva.models.bigram import BigramConfig
from bukva.models.gpt import GPTConfig
from bukva.scoring.window_rule import Score, nats_of
from bukva.training.curve import record
from bukva.training.device import Machine
from bukva.training.optimizers import build_optimizer
from bukva.training.run import start, train
from bukva.training.seeding import seed_step
from bukva.training.state import DivergedError
from bukva.training.windows import Windows

V, T = 7, 5
CPU = Machine(torch.device("cpu"), torch.float32)
SHAPE = GPTConfig(V, n_layer=1, n_head=1, n_embd=8, block_size=T, dropout=0.2)


def recipe(**changes):
    base = {
        "optimizer": "adamw",
        "n_steps": 10,
        "eval_every": 4,
        "batch_size": 3,
        "learning_rate": 0.01,
        "warmup_steps": 2,
    }
    return read_params().train_gpt.model_copy(update=base | changes)


def parts(n=300):
    ids = (np.random.default_rng(1).integers(2, size=n).cumsum() % V).astype(np.uint8)
    return {"train": ids[:200], "val": ids[200:]}


def run(state, numbers, machine=CPU):
    return list(fit(state, parts(), numbers, machine))


def test_the_val_split_is_scored_first_every_so_often_and_last():
    scored = [progress.step for progress in run(start(SHAPE, recipe(), CPU), recipe()) if progress.val_nats_per_char]
    assert scored == [0, 4, 8, 10]


def test_two_runs_are_equal_record_by_record():
    assert run(start(SHAPE, recipe(), CPU), recipe()) == run(start(SHAPE, recipe(), CPU), recipe())


def test_another_seed_is_another_run():
    assert run(start(SHAPE, recipe(), CPU), recipe())[-1] != run(start(SHAPE, recipe(seed=2), CPU), recipe(seed=2))[-1]


@pytest.mark.parametrize("stop", [1, 3, 4, 7, 9])
@pytest.mark.parametrize("optimizer", ["adamw", "muon"])
def test_stopping_saving_and_going_on_changes_nothing(stop, optimizer):
    numbers = recipe(optimizer=optimizer)
    whole_state = start(SHAPE, numbers, CPU)
    whole = run(whole_state, numbers)

    first = start(SHAPE, numbers, CPU)
    updates = fit(first, parts(), numbers, CPU)
    before = [next(updates) for _ in range(stop + 1)]  # the scoring before the first update, then the updates
    saved = copy.deepcopy(first.state_dict())
    torch.manual_seed(99)  # whatever happened in between
    second = start(SHAPE, recipe(seed=5, optimizer=optimizer), CPU)
    second.load_state_dict(saved)
    after = run(second, numbers)

    assert before + after == whole
    for name, tensor in whole_state.weights().items():
        assert torch.equal(tensor, second.weights()[name]), name
        assert torch.equal(whole_state.best_weights[name], second.best_weights[name]), name


def test_who_watches_disturbs_nothing():
    state = start(SHAPE, recipe(), CPU)
    watched = []
    for progress in fit(state, parts(), recipe(), CPU):
        torch.rand(7)
        nats_of(state.model, parts()["val"], T, 1)
        watched.append(progress)
    assert watched == run(start(SHAPE, recipe(), CPU), recipe())


def test_the_first_update_is_adamws():
    numbers = recipe(n_steps=1, weight_decay=0.3, warmup_steps=0, grad_clip=0.0)
    state = start(GPTConfig(V, 1, 1, 8, T, dropout=0.0), numbers, CPU)
    before = state.weights()
    from bukva.training.windows import Windows

    x, y = Windows(parts()["train"], T, 3, "epoch", numbers.seed).batch(1)
    F.cross_entropy(state.model(x).flatten(0, 1), y.flatten()).backward()
    gradients = {name: parameter.grad.clone() for name, parameter in state.model.named_parameters()}
    run(state, numbers)
    for name, after in state.weights().items():
        decayed = before[name] * (1 - 0.01 * 0.3 * (before[name].dim() >= 2))
        # Adam's first step is the sign of the gradient, where it is not tiny
        expected = decayed - 0.01 * gradients[name] / (gradients[name].abs() + 1e-8)
        torch.testing.assert_close(after, expected, rtol=0, atol=1e-5)


def test_only_matrices_decay():
    model = start(SHAPE, recipe(), CPU).model
    matrices, vectors = build_optimizer(model, recipe(weight_decay=0.3)).param_groups
    assert (matrices["weight_decay"], vectors["weight_decay"]) == (0.3, 0.0)
    assert all(parameter.dim() >= 2 for parameter in matrices["params"])
    assert all(parameter.dim() < 2 for parameter in vectors["params"])
    assert len(matrices["params"]) + len(vectors["params"]) == len(list(model.parameters()))


def test_clipping_bounds_the_gradient():
    state = start(SHAPE, recipe(), CPU)
    next(updates := fit(state, parts(), recipe(grad_clip=1e-3), CPU))
    next(updates)
    total = torch.stack([parameter.grad.norm() for parameter in state.model.parameters()]).norm()
    assert total.item() == pytest.approx(1e-3, rel=1e-3)


def test_the_best_weights_are_those_of_the_best_score():
    numbers = recipe(n_steps=60, eval_every=5, learning_rate=1.0, decay_to=1.0)
    state = start(SHAPE, numbers, CPU)
    scores = {p.step: p.val_nats_per_char for p in run(state, numbers) if p.val_nats_per_char is not None}
    assert state.best_val == min(scores.values()) == scores[state.best_step]
    assert state.best_step < 60
    state.model.load_state_dict(state.best_weights)
    val = Score.of(nats_of(state.model, parts()["val"], T, T // 2)).nats_per_char
    assert val == pytest.approx(state.best_val, abs=1e-6)


def test_it_learns():
    numbers = recipe(n_steps=150, eval_every=150, batch_size=8)
    first, *_, last = run(start(SHAPE, numbers, CPU), numbers)
    assert first.val_nats_per_char == pytest.approx(math.log(V), abs=0.1)
    assert last.val_nats_per_char < 1.0  # each character is followed by itself or the next one: ln 2 at best


def test_a_loss_that_is_not_a_number_is_one_sentence():
    numbers = recipe(learning_rate=1e30, warmup_steps=0, grad_clip=0.0)
    with pytest.raises(
        DivergedError, match=r"^the training diverged at step 4, learning rate 6.67e\+29: the loss is no num"
    ):
        run(start(SHAPE, numbers, CPU), numbers)


def test_a_loss_that_explodes_is_one_sentence():
    numbers = recipe(learning_rate=100.0, warmup_steps=0, grad_clip=0.0)
    words = (
        r"^the training diverged at step 4, learning rate 66.7: train is \d[\d.e+]+ nats per character, and was 1\.9"
    )
    with pytest.raises(DivergedError, match=words):
        run(start(SHAPE, numbers, CPU), numbers)


def test_a_val_that_rises_by_overfitting_is_no_explosion():
    state, scores = start(SHAPE, recipe(), CPU), iter([1.0, 99.0, 999.0, 9999.0])
    windows = Windows(parts()["train"], T, 3, "epoch", 1)
    list(train(state, windows, lambda: next(scores), recipe(), CPU))
    assert state.best_val == 1.0


def test_bf16_follows_fp32():
    half = Machine(torch.device("cpu"), torch.bfloat16)
    exact, rounded = run(start(SHAPE, recipe(), CPU), recipe()), run(start(SHAPE, recipe(), half), recipe(), half)
    assert exact[-1] != rounded[-1]
    assert rounded[-1].val_nats_per_char == pytest.approx(exact[-1].val_nats_per_char, abs=0.02)


def test_dropout_of_one_step_depends_on_seed_and_step():
    drawn = []
    for seed, step in [(1, 1), (1, 2), (2, 1), (1, 1)]:
        seed_step(seed, step)
        drawn.append(torch.rand(3).tolist())
    assert drawn[0] == drawn[3]
    assert drawn[0] != drawn[1] != drawn[2]


def test_the_bigram_comes_close_to_the_exact_table():
    from bukva.baselines.counts import count_pairs, cross_entropy

    numbers = recipe(n_steps=300, batch_size=16, learning_rate=0.2, decay_to=0.0, weight_decay=0.0, eval_every=300)
    state = start(BigramConfig(V, block_size=8), numbers, CPU)
    run(state, numbers)
    pairs = count_pairs(parts()["train"], V)
    trained = Score.of(nats_of(state.model, parts()["train"], 8, 4)).nats_per_char
    assert cross_entropy(pairs, pairs) - 1e-6 <= trained <= cross_entropy(pairs, pairs) + 0.01


def test_the_curve_is_a_table_of_the_scorings(tmp_path):
    state = start(SHAPE, recipe(), CPU)
    updates = fit(state, parts(), recipe(), CPU)
    record(tmp_path / "curve.csv", state, (progress for progress in updates if progress.val_nats_per_char is not None))
    scored = state.scored
    rows = list(csv.DictReader((tmp_path / "curve.csv").read_text().splitlines()))
    assert list(rows[0]) == ["step", "chars_seen", "train_nats_per_char", "val_nats_per_char", "learning_rate"]
    assert [int(row["step"]) for row in rows] == [0, 4, 8, 10]
    assert [int(row["chars_seen"]) for row in rows] == [0, 60, 120, 150]
    assert rows[0]["train_nats_per_char"] == ""
    assert float(rows[3]["val_nats_per_char"]) == scored[3].val_nats_per_char


@pytest.mark.parametrize("micro_batches", [2, 3, 6])
def test_micro_batches_add_up_to_the_batch(micro_batches):
    shape = dataclasses.replace(SHAPE, dropout=0.0)
    whole, parted = recipe(batch_size=6), recipe(batch_size=6, micro_batches=micro_batches)
    for ours, theirs in zip(run(start(shape, parted, CPU), parted), run(start(shape, whole, CPU), whole), strict=True):
        assert ours.val_nats_per_char == pytest.approx(theirs.val_nats_per_char, abs=1e-5)
        assert ours.train_nats_per_char == pytest.approx(theirs.train_nats_per_char, abs=1e-5)


def test_patience_ends_a_training_that_no_longer_gets_better():
    numbers = recipe(n_steps=60, eval_every=4, warmup_steps=0, learning_rate=1.0, decay_to=1.0, patience=3)
    state = start(SHAPE, numbers, CPU)
    progress = run(state, numbers)
    scores = {p.step: p.val_nats_per_char for p in progress if p.val_nats_per_char is not None}
    best = min(scores, key=scores.get)
    assert state.best_step == best
    assert progress[-1].step == state.step == best + 3 * 4 < 60
    endless = run(start(SHAPE, numbers, CPU), numbers.model_copy(update={"patience": 0}))
    assert endless[-1].step == 60
    assert endless[: len(progress)] == progress


def test_a_training_out_of_patience_stays_ended():
    numbers = recipe(n_steps=60, eval_every=4, warmup_steps=0, learning_rate=1.0, decay_to=1.0, patience=3)
    state = start(SHAPE, numbers, CPU)
    run(state, numbers)
    ended = state.step
    assert run(state, numbers) == []
    assert state.step == ended
