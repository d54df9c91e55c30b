"""Windows: targets are shifted by one, each epoch is complete, and every batch is a function of its step."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from bukva.models.ngram_memory import NgramMemory
from bukva.text.ids import NO_ID
from bukva.training.windows import Windows

T, B = 5, 3


def windows(n=101, order="epoch", seed=1, batch_size=B):
    return Windows(np.arange(n, dtype=np.uint16), T, batch_size, order, seed)


def ids(windows, step):
    return next(windows.batch(step))[0]


@settings(max_examples=12)
@given(n=st.integers(T + 1, 400), seed=st.integers(0, 2**32), epoch=st.integers(0, 3))
def test_an_epoch_has_every_window_once(n, seed, epoch):
    batches = windows(n, seed=seed, batch_size=1)
    first = epoch * batches.n_windows + 1
    starts = np.concatenate([batches.starts(first + i) for i in range(batches.n_windows)])
    ordered = np.sort(starts)
    assert (np.diff(ordered) == T).all()
    assert ordered[0] < T
    assert ordered[-1] + T < n
    assert n - 1 - (ordered[-1] + T) < 2 * T  # less than two windows are left out at the end
    assert windows(n, seed=seed, batch_size=3).starts(7).tolist() == [int(batches.starts(i)[0]) for i in (19, 20, 21)]


@pytest.mark.parametrize("order", ["epoch", "random"])
def test_a_batch_depends_on_seed_and_step_alone_and_targets_are_one_character_later(order):
    forward = [ids(windows(order=order), step).tolist() for step in range(1, 50)]
    one = windows(order=order)
    backward = [ids(one, step).tolist() for step in range(49, 0, -1)]
    assert forward == backward[::-1]
    assert forward != [ids(windows(order=order, seed=2), step).tolist() for step in range(1, 50)]
    [(x, y)] = one.batch(4)
    assert x.shape == y.shape == (B, T)
    assert (y == x + 1).all()
    assert (x[:, 1:] == x[:, :-1] + 1).all()


class Before(NgramMemory):
    """An n-gram memory that gives the windows that it gets, instead of predictions."""

    def inputs(self, windows, numbers, batch_size):
        assert batch_size == B
        return windows[:, : self.n_before], numbers


@pytest.mark.parametrize("order", ["epoch", "random"])
def test_n_grams_see_the_ids_before_each_window_in_train_as_far_as_train_goes(order):
    memory, seen = Before(101, [9]), []
    for step in range(1, 50):
        [(x, _, before, numbers)] = windows(order=order).batch(step, ngrams=memory)
        assert before.shape == (B, 7)
        assert torch.equal(before, (x[:, :1] + torch.arange(-7, 0)).clamp(min=NO_ID))
        seen.append(before)
        assert torch.equal(x, ids(windows(order=order), step))
        assert numbers.tolist() == list(range(B))
    assert (torch.cat(seen) == NO_ID).sum() > 1
    [(_, _, before, _)] = windows(T + 1, order).batch(1, ngrams=Before(101, [2 + 2 * T]))
    assert before.tolist() == [[NO_ID] * 2 * T] * B


def test_epochs_differ_in_order_and_offset():
    batches = windows(n=1009, batch_size=1)
    starts = [int(batches.starts(step + 1)[0]) for step in range(4 * batches.n_windows)]
    epochs = np.array(starts).reshape(4, -1)
    assert len(set(epochs.min(axis=1).tolist())) > 1
    assert len({tuple(epoch) for epoch in epochs.tolist()}) == 4


def test_all_starts_of_random_windows_are_equally_likely():
    batches = windows(n=T + 4, order="random", batch_size=4000)
    counts = np.bincount(batches.starts(1), minlength=4)
    assert len(counts) == 4
    np.testing.assert_allclose(counts / 4000, 0.25, atol=0.03)
    with pytest.raises(ValueError, match=r"5 ids are too few for `block_size=5`. Use 6 or more"):
        windows(n=T)


@pytest.mark.parametrize(("size", "n"), [(1, 1), (3, 1), (1, 2), (3, 2), (2, 5), (5, 7)])
def test_shares_and_micro_batches_of_a_batch_are_the_batch(size, n):
    whole = windows(batch_size=6)
    parts = [part for rank in range(size) for part in whole.batch(5, rank, size, n)]
    assert size <= len(parts) <= size * n
    for number, expected in enumerate(next(whole.batch(5))):
        assert torch.equal(torch.cat([part[number] for part in parts]), expected)
