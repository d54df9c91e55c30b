"""What val and test share with train is counted, and nothing of it is left after cutting."""

import numpy as np
import pytest
from corpus.repeats.texts import changed, joined, maximal_runs, text_of, windows
from hypothesis import given, settings
from hypothesis import strategies as st

from bukva.corpus.repeats import grams, leaks
from bukva.corpus.repeats.duplicates import SEED, passages_between
from bukva.corpus.repeats.leaks import longest_runs, seen_in_train

MIN = 31  # the least that cut_from takes


@st.composite
def divided(draw):
    """Works of lines that often repeat, each line up to 40 characters, the end of each work held out; their spans."""
    lines = [text_of(draw(st.integers(1, 40)), 29, seed) for seed in range(5)]
    order = st.lists(st.sampled_from(range(5)), min_size=1, max_size=5)
    works = draw(st.lists(order, min_size=1, max_size=4))
    codes, spans = joined(*(np.concatenate([lines[i] for i in work]) for work in works))
    cuts = np.array([draw(st.integers(start, stop)) for start, stop in spans.tolist()])
    return codes, np.stack([spans[:, 0], cuts], axis=1), np.stack([cuts, spans[:, 1]], axis=1), spans


def text_left(codes, pieces, work):
    """The text of a work that is left, joined across cuts."""
    return np.concatenate([codes[:0], *(codes[a:b] for w, a, b in pieces.tolist() if w == work)])


def shared_windows(codes, pieces, held_out, works):
    """Windows of MIN characters of the text that is left which stand in held-out text of another work."""
    found = set()
    for work, (start, stop) in enumerate(works.tolist()):
        text = text_left(codes, pieces, work)
        others = held_out[(held_out[:, 0] < start) | (held_out[:, 1] > stop)]
        found |= windows(text, [(0, len(text))], MIN).keys() & windows(codes, others, MIN).keys()
    return found


def only(codes, spans):
    """The codes of these spans; the others are none that a text has."""
    kept = np.full_like(codes, 251 + len(spans))
    for start, stop in spans.tolist():
        kept[start:stop] = codes[start:stop]
    return kept


def cut_from(codes, train, held_out, works):
    """What is left of train, whose rows are the first works; the others are held out as a whole."""
    rest = works[len(train) :, [0, 0]]
    return leaks.cut_from(codes, held_out, codes, np.concatenate([train, rest]), works, MIN)


# ---- counting


@given(divided(), st.sampled_from([2, 8, 16, 33]), st.sampled_from([7, 1 << 20]))
@settings(max_examples=30)
def test_windows_and_the_longest_run_seen_in_train_are_those_of_slow_searches(text, n, entries):
    codes, train, held_out, _ = text
    texts, trains = [held_out[::2], held_out[1::2]], [train[::2], train[1::2]]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(grams, "ENTRIES", entries)
        seen = seen_in_train(only(codes, held_out), texts, only(codes, train), trains, n)
    for row, ours in zip(seen, (windows(codes, train[::2], n), windows(codes, train, n)), strict=True):
        for found, theirs in zip(row, (windows(codes, spans, n) for spans in texts), strict=True):
            assert found.windows == sum(map(len, theirs.values()))
            assert found.in_train == sum(len(places) for gram, places in theirs.items() if gram in ours)
    longest = longest_runs(only(codes, held_out), texts, only(codes, train), trains)
    for row, ours in zip(longest, (train[::2], train), strict=True):
        for run, spans in zip(row, texts, strict=True):
            lengths = [length for *_, length in maximal_runs(codes, spans, codes, ours, SEED)]
            assert (run.chars if run else None) == max(lengths, default=None)


# ---- cutting


@given(divided())
@settings(max_examples=60)
def test_after_cutting_no_window_of_val_and_test_stands_in_another_works_train_not_even_across_cuts(text):
    codes, train, held_out, works = text
    pieces = cut_from(codes, train, held_out, works)
    assert not shared_windows(codes, pieces, held_out, works)
    for work, start, stop in pieces.tolist():  # of its work's train, in order
        assert train[work, 0] <= start < stop <= train[work, 1]
    assert (pieces[1:, 1] >= pieces[:-1, 2]).all()


@pytest.mark.parametrize("share", [0, 0.02])
def test_a_planted_passage_is_cut_and_little_else(share):
    rng = np.random.default_rng(1)
    book, other = text_of(2003, 29, seed=1), text_of(997, 29, seed=2)
    copy = changed(book[1607:1907], share, rng)
    codes, works = joined(book, np.concatenate([other[:401], copy, other[401:]]))
    train, held_out = np.array([[0, 1501], works[1]]), np.array([[1501, 2003], [works[1, 1]] * 2])
    pieces = cut_from(codes, train, held_out, works)
    at = works[1, 0] + 401
    assert pieces[:, 0].tolist() == [0, 1, 1]
    assert pieces[0].tolist() == [0, 0, 1501]
    assert abs(pieces[1, 2] - at) <= 25 * (share > 0) + 2
    assert abs(pieces[2, 1] - (at + len(copy))) <= 25 * (share > 0) + 2
    left, spans = joined(*(text_left(codes, pieces, work) for work in (0, 1)))
    assert passages_between(codes, held_out, left, spans, MIN).empty


def test_text_that_comes_together_by_a_cut_is_cut_too():
    line = text_of(40, 29, seed=1)  # a line of val; train has it with a passage of val in its middle
    passage = text_of(101, 29, seed=2)
    codes, works = joined(
        np.concatenate([text_of(97, 29, seed=3), line[:20], passage, line[20:], text_of(83, 29, seed=4)]),
        np.concatenate([line, text_of(53, 29, seed=5), passage]),
    )
    pieces = cut_from(codes, works[:1], works[1:], works)
    assert pieces[0].tolist() == [0, 0, 97 + 20]
    assert pieces[1, 1] == 97 + 20 + 101 + 20
    assert not shared_windows(codes, pieces, works[1:], works)


def test_pieces_too_short_for_a_window_go_with_the_cuts_beside_them():
    val = text_of(211, 29, seed=1)
    own = text_of(23, 29, seed=2)
    codes, works = joined(np.concatenate([own, val[:101], own, val[101:], text_of(97, 29, seed=3)]), val)
    assert cut_from(codes, works[:1], works[1:], works)[:, :2].tolist() == [[0, 23 + 101 + 23 + 110]]


@pytest.mark.parametrize("n_kinds", [2, 29])  # with 2, only equal windows are found
def test_what_a_work_repeats_of_itself_stays(n_kinds):
    refrain = text_of(101, n_kinds, seed=1)
    parts = [text_of(97, 29, seed) for seed in range(2, 8)]
    codes, works = joined(
        np.concatenate([parts[0], refrain, parts[1], refrain]), np.concatenate([parts[2], refrain, parts[3]])
    )
    train, held_out = np.array([[0, 295], [396, 691]]), np.array([[295, 396], [691, 691]])
    assert cut_from(codes, train[:1], held_out, works).tolist() == [[0, 0, 295]]
    assert cut_from(codes, train, held_out, works).tolist() == [[0, 0, 295], [1, 396, 493], [1, 594, 691]]
    both = np.array([[295, 396], [493, 594]])  # held out in both works: each one's copy is another's
    assert cut_from(codes, np.array([[0, 295], [396, 493]]), both, works).tolist() == [
        [0, 0, 97],
        [0, 198, 295],
        [1, 396, 493],
    ]
