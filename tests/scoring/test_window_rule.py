"""Scoring, compared with one forward pass for each character."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from tiny import far_from_zero

from bukva.models.gpt import GPTConfig
from bukva.models.registry import build
from bukva.scoring import window_rule as scoring
from bukva.scoring.window_rule import evenly_spaced, nats_of, nats_of_passages, nats_of_process
from bukva.text.held_out import Passage

V, T = 11, 7


def text(n):
    return np.random.default_rng(n).integers(V, size=n).astype(np.uint8)


def counting(memory, counted=None, block_size=T, dropout=0.0):
    """Return a GPT that has counted a text. Its weights are large, so every id of a window changes the output."""
    config = GPTConfig(V, 1, 1, 8, block_size, dropout, positions="learned", ngrams=memory, ngram_orders=(2, 5))
    model = far_from_zero(build(config))
    if model.ngrams:
        model.ngrams.count(text(41) if counted is None else counted)
    return model


def score_one_by_one(model, ids, stride, block_size=T, n_context=1, *, of_train=False, beyond=True):
    model.eval()
    nats = []
    begin = max(0, n_context - (block_size - stride + 1))  # start of the first window
    for target in range(n_context, len(ids)):
        k = max(0, -(-(target - begin - block_size) // stride))  # the first window that reaches the target
        start = begin + k * stride
        before, window = torch.from_numpy(ids.astype(np.int64))[None, : target + 1].split(
            [start, target + 1 - start], 1
        )
        following = window[:, -1] if of_train else None
        before = before if beyond else before[:, :0]
        logits = model(window[:, :-1], before=before, following=following)[0, -1]
        nats.append(F.cross_entropy(logits, window[0, -1]).item())
    return nats


def works(lengths, n_context):
    """Return passages of the given lengths, each with 1 to n_context ids of context and at least one id to score."""
    rng = np.random.default_rng(1)
    passages = []
    for number, length in enumerate(lengths):
        n = int(rng.integers(1, min(n_context, length - 1) + 1))
        passages.append(Passage(number, rng.integers(V, size=length).astype(np.uint8), n))
    return passages


@pytest.mark.parametrize(
    ("memory", "of_train", "beyond"),
    [
        ("none", False, True), ("logits", True, True), ("input", False, True), ("input", True, True),
        ("input", False, False),
    ],
)  # fmt: skip
def test_many_works_in_one_batch_have_the_scores_of_each_by_itself(memory, of_train, beyond):
    """The reference scores one work and one character at a time. Some works are longer than a window."""
    block_size, stride = 23, 11
    passages = works([2, 3, 2, 23, 24, 25, 5, 7, 11, 17, 53, 59, 61, *[3] * 7], 29)
    model = counting(memory, np.concatenate([passage.ids for passage in passages]), block_size)
    expected, watched = [], []
    for passage in passages:
        n = passage.n_context
        options = {"of_train": of_train, "beyond": beyond}  # whether n-grams see the text before the window
        expected += score_one_by_one(model, passage.ids, stride, block_size, n, **options)
    watch = lambda logits, followed: watched.append(F.cross_entropy(logits, followed, reduction="none"))  # noqa: E731
    options = {"of_train": of_train, "ngrams_see_before_window": beyond, "watch": watch}
    nats = nats_of_passages(model, passages, block_size, stride, **options)
    np.testing.assert_allclose(nats, expected, atol=1e-5)
    np.testing.assert_array_equal(np.sort(torch.cat(watched)), np.sort(nats))


@pytest.mark.parametrize(("memory", "beyond"), [("none", True), ("logits", True), ("logits", False)])
@pytest.mark.parametrize("stride", [1, 3, T])
def test_every_character_but_the_first_is_scored_once_with_the_context_of_its_window(
    memory, beyond, stride, monkeypatch
):
    monkeypatch.setitem(scoring.BATCH_LOGITS, "cpu", 3 * T * V + 1)  # batches as for a large vocabulary
    model = counting(memory)
    for n in (2, 3, T, T + 1, T + 2, 3 * T + 1, 41):
        ids = text(n)
        expected, whole = score_one_by_one(model, ids, stride, beyond=beyond), [Passage(0, ids, 1)]
        nats = nats_of_passages(model, whole, T, stride, ngrams_see_before_window=beyond)
        np.testing.assert_allclose(nats, expected, atol=1e-5)
        for size in (2, 3, 7) if beyond else ():
            shares = [nats_of_process(model, ids, T, stride, rank, size) for rank in range(size)]
            np.testing.assert_allclose(np.concatenate(shares), expected, atol=1e-5)


@pytest.fixture
def threads(monkeypatch):
    """Function that sets the number of threads. Batches have three windows."""
    monkeypatch.setitem(scoring.BATCH_LOGITS, "cpu", 3 * T * V)
    n = torch.get_num_threads()
    yield torch.set_num_threads
    torch.set_num_threads(n)


def test_nats_and_what_a_watch_sees_have_the_same_bytes_with_any_number_of_threads(threads):
    model, passages, results, n_read = counting("input"), works([2, 23, 59, 61, 3, 101], 11), [], []
    for n in (1, 2, 3, 7):
        threads(n)
        seen = []
        watch = lambda logits, followed: seen.extend([logits, followed[:, None]])  # noqa: B023, E731
        nats = nats_of_passages(model, passages, T, 3, watch=watch, on_progress=n_read.append)
        results.append((nats.tobytes(), [part.tolist() for part in seen]))
        assert torch.get_num_threads() == n
    assert results[1:] == results[:1] * 3
    assert sum(n_read) == 4 * len(nats) == 4 * sum(len(passage.scored) for passage in passages)


def test_dropout_is_off_while_scoring_and_back_on_afterwards():
    gpt, ids = counting("none", dropout=0.3).train(), text(60)
    np.testing.assert_array_equal(nats_of(gpt, ids, T, 3), nats_of(gpt, ids, T, 3))
    assert gpt.training


@settings(max_examples=30)
@given(n=st.integers(2, 5000), wanted=st.integers(1, 5000))
def test_evenly_spaced_runs_are_disjoint_and_hold_enough_ids(n, wanted):
    runs = evenly_spaced(np.arange(n, dtype=np.uint16), wanted)
    assert sum(len(run.scored) for run in runs) >= min(wanted, n - 1)
    together = np.concatenate([run.ids for run in runs])
    assert (np.diff(together.astype(np.int64)) > 0).all()
    assert together[0] == 0
    assert together[-1] == n - 1
    for run, longer in zip(runs, evenly_spaced(np.arange(n, dtype=np.uint16), wanted, 7), strict=True):
        assert longer.scored.tolist() == run.scored.tolist()
        assert longer.ids.tolist() == list(range(max(0, int(run.ids[0]) - 7), int(run.ids[-1]) + 1))
