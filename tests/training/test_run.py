"""The training loop: deterministic, resumable from its state, and not disturbed by its callbacks."""

import copy
import dataclasses
import math

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from tiny import CPU, SHAPE, TAUGHT, TOKENIZER, WITH_MEMORY, Call, Record, T, V, recipe, run, splits, task

from bukva.backends.device import Machine
from bukva.backends.group import ALONE, Group
from bukva.models import ngram_memory
from bukva.models.ngrams.kneser_ney import KneserNey
from bukva.scoring.window_rule import N_EXCERPTS, evenly_spaced, nats_of, stride_of
from bukva.text.tokenizers import CharTokenizer
from bukva.training import run as module
from bukva.training.run import Task, learning_rate, seed_step, start
from bukva.training.state import DivergedError
from tests.support.equality import same


def scripted(task, values):
    """Return the task with a given sequence of val scores, so tests do not depend on rounding."""
    values = iter(values)
    return dataclasses.replace(task, score_val=lambda *_: next(values))


# ---- the loop


def test_val_is_scored_before_the_first_update_every_eval_every_updates_and_after_the_last():
    record = Record()
    _, progress = run(task(), callbacks=[record])
    assert [point.step for point in progress if point.val_nats_per_char is not None] == [0, 4, 8, 10]
    assert record.calls == [("on_start", 0), *(("on_update", step) for step in range(11)), ("on_end", 10)]


def test_neither_scoring_nor_callbacks_nor_the_mode_of_the_model_changes_the_weights():
    def curious(state, _):
        torch.rand(7)
        nats_of(state.model, splits()["val"], T, 1)

    whole, state = run(task())[0].weights(), start(task())
    state.model.eval()
    same(run(task(), state)[0].weights(), whole)
    same(run(task(eval_every=1))[0].weights(), whole)
    same(run(task(), callbacks=[Call(step, curious) for step in range(11)])[0].weights(), whole)


class SecondOfTwo(Group):
    """Rank 1 of two processes, without communication."""

    def sum_gradients(self, parameters, nats):  # noqa: ARG002 (as in Group)
        return nats, torch.zeros(())


def test_each_process_has_its_share_of_the_batch_and_random_numbers_of_its_own(monkeypatch):
    second = dataclasses.replace(task(n_steps=2, eval_every=2, batch_size=6), group=SecondOfTwo(rank=1, size=2))
    keys, batches, batch = [], [], second.windows.batch
    monkeypatch.setattr(module, "seed_step", lambda *key: keys.append(key))
    monkeypatch.setattr(second.windows, "batch", lambda *key: batches.append(key) or batch(*key))
    run(second)
    seed = second.recipe.seed
    assert keys == [(seed, 0), (seed, 1, 1), (seed, 2, 1)]  # all processes start with the same weights
    assert batches == [(step, 1, 2, 1, None) for step in (1, 2)]


# ---- one update


def test_updates_are_those_of_adamw_written_out_and_the_curve_has_means_since_the_last_scoring():
    """The reference has warm-up and decay of the rate, clipping, both moments and weight decay, but no dropout."""
    numbers = {"n_steps": 3, "eval_every": 2, "warmup_steps": 2, "decay_to": 0.3}
    numbers |= {"weight_decay": 0.3, "beta2": 0.97, "grad_clip": 0.1}
    trained = task(dataclasses.replace(SHAPE, dropout=0.0), **numbers)
    state = start(trained)
    model = copy.deepcopy(state.model)
    weights = dict(model.named_parameters())
    first, second = ({name: torch.zeros_like(weight) for name, weight in weights.items()} for _ in range(2))
    losses, norms = [], []
    for step, rate in ((1, 0.005), (2, 0.01), (3, 0.003)):
        [(x, y)] = trained.windows.batch(step)
        loss = F.cross_entropy(model(x).flatten(0, 1), y.flatten())
        gradients = dict(zip(weights, torch.autograd.grad(loss, weights.values()), strict=True))
        norm = torch.cat([gradient.flatten() for gradient in gradients.values()]).norm()
        assert norm > 2 * 0.1
        losses.append(loss.item())
        norms.append(norm.item())
        for name, weight in weights.items():
            gradient = gradients[name] * 0.1 / norm
            first[name] = 0.9 * first[name] + 0.1 * gradient
            second[name] = 0.97 * second[name] + 0.03 * gradient**2
            towards = first[name] / (1 - 0.9**step) / ((second[name] / (1 - 0.97**step)).sqrt() + 1e-8)
            weight.data = weight.data * (1 - rate * 0.3 * (weight.dim() >= 2)) - rate * towards
    run(trained, state)
    for name, after in state.weights().items():
        torch.testing.assert_close(after, weights[name].data, rtol=0, atol=1e-5)
    before, *scored = state.curve
    assert (before.train_nats_per_char, before.gradient_norm) == (None, None)
    for point, part in zip(scored, (slice(2), slice(2, 3)), strict=True):
        assert point.train_nats_per_char == pytest.approx(np.mean(losses[part]), rel=1e-5)
        assert point.gradient_norm == pytest.approx(np.mean(norms[part]), rel=1e-4)


@pytest.mark.parametrize(
    ("shape", "alone", "n"),
    [(SHAPE, 4, 3), (TAUGHT, 4, 3), (WITH_MEMORY, 4, 3), (WITH_MEMORY, 2, 6)],
    ids=["plain", "teacher", "one window without memory", "each window by itself"],
)
def test_micro_batches_add_up_to_the_batch(shape, alone, n, monkeypatch):
    """Windows without n-grams are chosen in the whole batch, however the batch is divided."""
    monkeypatch.setattr(ngram_memory, "WITHOUT_EVERY", alone)
    shape = dataclasses.replace(shape, dropout=0.0)
    split, whole = (run(task(shape, batch_size=6, micro_batches=parts))[1] for parts in (n, 1))
    for ours, theirs in zip(split, whole, strict=True):
        assert ours.val_nats_per_char == pytest.approx(theirs.val_nats_per_char, abs=1e-5)
        assert ours.train_nats_per_char == pytest.approx(theirs.train_nats_per_char, abs=1e-5)
    assert split[-1].gradient_norm == pytest.approx(whole[-1].gradient_norm, rel=1e-4)


def test_bf16_follows_float32():
    half = Machine(torch.device("cpu"), torch.bfloat16)
    exact, rounded = run(task())[1], run(task(machine=half))[1]
    assert exact[-1] != rounded[-1]
    assert rounded[-1].val_nats_per_char == pytest.approx(exact[-1].val_nats_per_char, abs=0.02)


def test_val_is_scored_in_the_precision_of_the_training():
    half = task(machine=Machine(torch.device("cpu"), torch.bfloat16))
    model, val = start(half).model, splits()["val"]
    with torch.autocast("cpu", torch.bfloat16):
        expected = nats_of(model, val, T, stride_of(T)).mean(dtype=np.float64)
    assert half.score_val(model, ALONE) == pytest.approx(expected, rel=1e-12)
    assert half.score_val(model, ALONE) != task().score_val(model, ALONE)


# ---- the learning rate and the random numbers of a step


def test_the_rate_rises_linearly_and_falls_linearly():
    numbers = recipe(n_steps=110, learning_rate=2.0, warmup_steps=10, decay_to=0.1)
    rates = {step: learning_rate(step, numbers) for step in (1, 5, 9, 10, 35, 60, 85, 110)}
    assert rates == pytest.approx({1: 0.2, 5: 1.0, 9: 1.8, 10: 2.0, 35: 1.55, 60: 1.1, 85: 0.65, 110: 0.2})


@pytest.mark.parametrize(
    ("n_steps", "warmup_steps", "decay_to", "last"),
    [(110, 0, 1.0, 2.0), (110, 10, 0.0, 0.0), (110, 110, 0.1, 2.0), (1, 0, 0.1, 2.0), (1, 1, 0.1, 2.0)],
)
def test_warm_up_and_decay_may_be_absent_or_last_to_the_end(n_steps, warmup_steps, decay_to, last):
    numbers = recipe(n_steps=n_steps, learning_rate=2.0, warmup_steps=warmup_steps, decay_to=decay_to)
    assert learning_rate(n_steps, numbers) == pytest.approx(last, abs=1e-12)


def drawn(*key):
    seed_step(*key)
    return torch.rand(3).tolist()


def test_random_numbers_depend_on_seed_step_and_rank_alone():
    keys = [(1, 1), (1, 2), (2, 1), (1, 1, 1), (1, 2, 1), (2**63 - 1, 10**12, 1023)]
    first = [drawn(*key) for key in keys]
    torch.rand(7)
    assert [drawn(*key) for key in reversed(keys)] == first[::-1]
    assert len({tuple(numbers) for numbers in first}) == len(keys)
    assert drawn(1, 2, 0) == drawn(1, 2)  # a single process has rank 0


# ---- scores, best weights, patience


def test_the_best_weights_are_those_of_the_best_score():
    kept = []
    keep = Call(4, lambda state, _: kept.append(state.weights()))
    state, _ = run(scripted(task(), [5.0, 4.0, 4.5, 4.0]), callbacks=[keep])  # the first of two equal scores
    assert (state.best_val, state.best_step) == (4.0, 4)
    same(state.best_weights, kept[0])


def test_patience_ends_a_training_after_so_many_scorings_without_improvement():
    scores = [3.0, 2.0, 2.5, 1.0, 1.5, 1.0, 1.2, 0.1]
    state, progress = run(scripted(task(n_steps=40, patience=3), scores))
    assert (state.best_step, state.step) == (12, 24)  # the sixth score equals the best, and does not improve on it
    patient, longer = run(scripted(task(n_steps=40, patience=0), scores + [9.0] * 3))
    assert (patient.best_step, patient.step) == (28, 40)
    assert longer[: len(progress)] == progress


# ---- divergence


@pytest.mark.parametrize(
    ("rate", "words"),
    [
        (1e30, r"6.67e\+29: the loss is NaN or infinite \(train nan, val"),
        (100.0, r"66.7: the train loss rose from 1\.\d+ to \d[\d.e+]+ nats per character"),
    ],
)
def test_a_loss_that_explodes_is_reported_in_one_sentence(rate, words):
    with pytest.raises(DivergedError, match=rf"^the training diverged at step 4, learning rate {words}"):
        run(task(learning_rate=rate, warmup_steps=0, grad_clip=0.0))


def test_a_val_score_that_is_not_finite_is_a_divergence_and_one_that_rises_by_overfitting_is_not():
    for value in (math.nan, math.inf):
        with pytest.raises(DivergedError, match=rf"diverged at step 0, learning rate 0: the loss is .* val {value}"):
            run(scripted(task(), [value]))
    state, _ = run(scripted(task(), [1.0, 99.0, 999.0, 9999.0]))
    assert state.best_val == 1.0


# ---- learning


def test_a_gpt_learns():
    first, *_, last = run(task(n_steps=150, eval_every=150, batch_size=8))[1]
    assert first.val_nats_per_char == pytest.approx(math.log(V), abs=0.1)
    assert last.val_nats_per_char < 1.0  # each character is followed by itself or the next one: ln 2 at best


# ---- tokenizers whose ids decode to several characters


class OfAny(CharTokenizer):
    """A tokenizer whose id i decodes to i + 1 characters."""

    def chars_of(self, ids):
        return np.asarray(ids, np.int64) + 1


def test_losses_are_divided_by_the_characters_that_the_scored_ids_stand_for():
    ones, anys = run(task())[1], run(task(tokenizer=OfAny(TOKENIZER.chars)))[1]
    val, train = splits()["val"][1:].mean() + 1, splits()["train"].mean() + 1  # the first id is not scored
    for one, other in zip(ones, anys, strict=True):
        assert (other.step, other.learning_rate) == (one.step, one.learning_rate)
        assert other.chars_seen == round(one.chars_seen * train)
        for name, chars in (("train_nats_per_char", train), ("val_nats_per_char", val)):
            nats = getattr(one, name)
            assert getattr(other, name) == (None if nats is None else pytest.approx(nats / chars))


def test_of_a_long_val_runs_that_are_evenly_spaced_are_scored_in_shares(monkeypatch):
    monkeypatch.setattr(module, "MAX_SCORED_IDS", 61)
    model, runs = start(task()).model, evenly_spaced(splits()["val"], 61)
    nats = [nats_of(model, run.ids, T, stride_of(T)) for run in runs]
    assert len(nats) == N_EXCERPTS
    expected = np.concatenate(nats).mean(dtype=np.float64)
    assert task().score_val(model, ALONE) == pytest.approx(expected, rel=1e-6)
    shares = [task().score_val(model, Group(rank, 3)) for rank in range(3)]  # each process has only its own share
    assert sum(shares) == pytest.approx(expected, rel=1e-6)


# ---- a model with n-grams


def test_the_train_loss_does_not_see_its_answers_in_the_counts():
    """The ids are random and nothing is learned. If the counts held the answers, the loss would be 0.3 nats lower."""
    ids = np.random.default_rng(2).integers(V, size=4001).astype(np.uint8)
    numbers = recipe(n_steps=9, eval_every=9, batch_size=60, learning_rate=0.0)
    shape = dataclasses.replace(WITH_MEMORY, ngram_orders=(3, 5), block_size=17, dropout=0.0)
    _, progress = run(Task.of(shape, {"train": ids[:3001], "val": ids[3001:]}, TOKENIZER, numbers, CPU))
    assert progress[-1].train_nats_per_char == pytest.approx(math.log(V), abs=0.15)


def test_nothing_of_val_or_test_is_counted():
    marker = V - 1  # an id that occurs only in val and test
    ids = np.random.default_rng(3).integers(marker, size=499).astype(np.uint8)
    held_out = np.tile(np.array([0, marker], np.uint8), 41)
    split = {"train": ids, "val": held_out, "test": held_out}
    memory = start(Task.of(WITH_MEMORY, split, TOKENIZER, recipe(), CPU)).model.ngrams
    after = memory.lookup(torch.tensor([[1, 0], [0, marker]])).probabilities[:, 1]  # (2, R, V)
    # an id that does not occur at all has the same probability
    wanted = KneserNey.count(ids, V + 1, 4).lookup(np.array([[1, 0], [0, marker]]), [2, 4], 1).probabilities[:, 0]
    np.testing.assert_allclose(after[..., marker], wanted[..., V] * (V + 1) / V, rtol=1e-5)
