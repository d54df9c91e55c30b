"""Repeats between works or splits are found, even if they were changed, and none is left after cutting."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bukva.corpus.repeats import grams, leaks
from bukva.corpus.repeats.grams import chain
from bukva.corpus.repeats.leaks import passages, seed_kinds, seen_in_train

# ---- texts with repeats, and slow and obvious searches for them


def text_of(n, n_kinds, seed):
    """Return (n,) random characters.

    With 29 kinds of characters and n of a few thousand, no run of 12 characters occurs twice by chance.
    """
    return np.random.default_rng(seed).integers(0, n_kinds, n).astype(np.uint32)


def joined(*texts):
    """Join texts; return the joined text and the (n_texts, 2) spans."""
    stops = np.cumsum([len(text) for text in texts])
    return np.concatenate(texts), np.stack([stops - [len(text) for text in texts], stops], axis=1)


def windows(codes, spans, n):
    """Return every window of n characters within a span: its characters -> its positions."""
    positions = {}
    for start, stop in spans:
        for at in range(start, stop - n + 1):
            positions.setdefault(tuple(codes[at : at + n].tolist()), []).append(at)
    return positions


def changed(text, share, rng):
    """Change a share of the characters: replace a third of them, delete a third, and insert one before a third."""
    result = []
    for code in text.tolist():
        draw = rng.random() / share if share else 1
        if draw >= 1 / 3:
            if draw < 1:
                result.append(int(rng.integers(0, 29)))
            if draw >= 2 / 3:
                result.append(code)
    return np.array(result, np.uint32)


FOUND = 60  # minimum length of a repeat that is found in any place


def planted(length, share=0.0, seed=1):
    """Make three works; the third has a changed copy of a passage of the first. Return codes, works and both spans."""
    rng = np.random.default_rng(seed)
    first, second, third = (text_of(n, 29, seed + i) for i, n in enumerate((2003, 503, 1511), start=10))
    copy = changed(first[307 : 307 + length], share, rng)
    codes, works = joined(first, second, np.concatenate([third[:701], copy, third[701:]]))
    at = works[2, 0] + 701
    return codes, works, (307, 307 + length), (at, at + len(copy))


def passages_of(codes, works):
    """Return the passages that the last work has in common with the others."""
    return passages(codes, works[:-1], codes, works[-1:], FOUND)


@pytest.mark.slow
@given(st.integers(0, 400), st.integers(0, 1200), st.integers(FOUND, 90))
@settings(max_examples=11)
def test_no_repeat_of_min_chars_is_missed_wherever_it_stands(a, b, length):
    first, second = text_of(499, 29, seed=1), text_of(1297, 29, seed=2)
    codes, works = joined(first, np.concatenate([second[:b], first[a : a + length], second[b:]]))
    covered = set()
    for start, stop in passages_of(codes, works)[:, 4:6].tolist():
        covered |= set(range(start, stop))
    of_first = windows(codes, works[:1], FOUND)
    for gram, positions in windows(codes, works[1:], FOUND).items():
        if gram in of_first:
            assert {at + i for at in positions for i in range(FOUND)} <= covered


def test_a_shorter_repeat_is_no_passage():
    codes, works, *_ = planted(FOUND - 13)
    assert not len(passages_of(codes, works))


def test_a_passage_is_named_with_both_works_and_ends_where_its_work_ends():
    text = text_of(601, 29, seed=1)
    # the first two parts are neighbors in both texts
    codes, works = joined(text[:201], text[201:401], text[401:], text[:401], text[401:])
    expected = [[0, 0, 201, 0, 601, 802, 201], [1, 201, 401, 0, 802, 1002, 200], [2, 401, 601, 1, 1002, 1202, 200]]
    assert passages(codes, works[:3], codes, works[3:], FOUND).tolist() == expected
    with_empty = np.insert(works[:3], 1, works[1, 0], axis=0)  # with an empty work between the others
    assert passages(codes, with_empty, codes, works[3:], FOUND)[:, 0].tolist() == [0, 2, 3]


def test_characters_of_two_overlapping_runs_count_once():
    runs = np.array([(100, 500, 20), (117, 520, 20)])  # start in one text, start in the other, length
    assert chain(runs, np.zeros(2, int), 10, 4).tolist() == [[0, 100, 137, 500, 540, 37]]


@pytest.mark.parametrize(("share", "least"), [(0.01, 0.97), (0.05, 0.85), (0.1, 0.35)])
def test_passages_with_changed_characters_are_found(share, least):
    shares = []
    for seed in range(20):
        codes, works, (start, stop), (start_b, stop_b) = planted(997, share, seed)
        rows = passages_of(codes, works)
        assert (rows[:, 4] >= start_b - 2).all()
        assert (rows[:, 5] <= stop_b + 2).all()
        is_found = np.zeros(len(codes), np.bool_)
        for start_a, stop_a in rows[:, 1:3].tolist():
            is_found[start_a:stop_a] = True
        shares.append(is_found[start:stop].mean())
    assert np.mean(shares) >= least


@pytest.mark.parametrize("alphabet", ["acgt", "ACGTN", "0123456789", "abcdefghijklmnop"])
def test_near_copies_in_a_small_alphabet_are_found_and_little_else(alphabet):
    rng, letters = np.random.default_rng(1), np.array([*map(ord, alphabet)], np.uint32)
    original, other = letters[rng.integers(0, len(letters), (2, 4001))]
    copy = np.where(rng.random(4001) < 1 / 40, letters[rng.integers(0, len(letters), 4001)], original)
    codes, works = joined(original, other, copy)
    rows = passages_of(codes, works)
    assert set(rows[:, 0].tolist()) == {0}
    assert (rows[:, 2] - rows[:, 1]).sum() > 0.95 * 4001


@pytest.mark.parametrize(("text", "kinds"), [
    ("acgt" * 30, 3), ("0110100110010110" * 9, 2), ("Мороз и солнце; день чудесный! Ещё ты дремлешь" * 3, 8),
    ("." * 99, 1), ("abc", 8), ("", 8),
])  # fmt: skip
def test_a_seed_needs_fewer_kinds_of_characters_in_a_text_of_few(text, kinds):
    codes = np.array([*map(ord, text)], np.uint32)
    assert seed_kinds(codes, np.array([[0, len(text)]])) == kinds
    assert seed_kinds(codes, np.array([[0, 0], [0, len(text)], [len(text)] * 2])) == kinds


def test_rows_of_dots_in_a_usual_text_are_no_seeds():
    dots = np.full(97, ord("."), np.uint32)
    codes, works = joined(np.concatenate([text_of(499, 29, 1), dots]), np.concatenate([dots, text_of(499, 29, 2)]))
    assert not len(passages_of(codes, works))


MIN = 31  # smallest min_chars that cut_from accepts


@st.composite
def divided(draw):
    """Draw works of lines that often repeat, each of up to 40 characters. The end of each work is held out.

    Returns codes, and the spans of the training split, of the held-out text and of the works.
    """
    lines = [text_of(draw(st.integers(1, 40)), 29, seed) for seed in range(5)]
    order = st.lists(st.sampled_from(range(5)), min_size=1, max_size=5)
    works = draw(st.lists(order, min_size=1, max_size=4))
    codes, spans = joined(*(np.concatenate([lines[i] for i in work]) for work in works))
    cuts = np.array([draw(st.integers(start, stop)) for start, stop in spans.tolist()])
    return codes, np.stack([spans[:, 0], cuts], axis=1), np.stack([cuts, spans[:, 1]], axis=1), spans


def text_left(codes, pieces, work):
    """Return the remaining text of a work, joined across cuts."""
    return np.concatenate([codes[:0], *(codes[a:b] for w, a, b in pieces.tolist() if w == work)])


def shared_windows(codes, pieces, held_out, works):
    """Return the windows of MIN characters in the remaining text that also occur in held-out text of another work."""
    shared = set()
    for work, (start, stop) in enumerate(works.tolist()):
        text = text_left(codes, pieces, work)
        others = held_out[(held_out[:, 0] < start) | (held_out[:, 1] > stop)]
        shared |= windows(text, [(0, len(text))], MIN).keys() & windows(codes, others, MIN).keys()
    return shared


def only(codes, spans):
    """Return the codes in these spans; all other positions get a code that does not occur in a text."""
    kept = np.full_like(codes, 251 + len(spans))
    for start, stop in spans.tolist():
        kept[start:stop] = codes[start:stop]
    return kept


def cut_from(codes, train, held_out, works):
    """Return the remaining pieces of train. Its rows are the first works; all other works are held out as a whole."""
    rest = works[len(train) :, [0, 0]]
    return leaks.cut_from(codes, held_out, codes, np.concatenate([train, rest]), works, MIN)


def test_cuts_that_touch_at_the_border_of_two_works_are_cut_from_both():
    texts = [text_of(101, 29, seed) for seed in range(4)]
    codes, works = joined(np.concatenate(texts[:2]), np.concatenate(texts[2:]), texts[1], texts[2])
    assert cut_from(codes, works[:2], works[2:], works).tolist() == [[0, 0, 101], [1, 303, 404]]


@given(divided(), st.sampled_from([2, 8, 16, 33]), st.sampled_from([7, 1 << 20]))
@settings(max_examples=30)
def test_windows_seen_in_train_are_those_of_a_slow_search(text, n, entries):
    codes, train, held_out, _ = text
    texts = [held_out[::2], held_out[1::2]]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(grams, "ENTRIES", entries)
        seen = seen_in_train(only(codes, held_out), texts, only(codes, train), train, n)
    ours = windows(codes, train, n)
    for share, theirs in zip(seen, (windows(codes, spans, n) for spans in texts), strict=True):
        n_windows = sum(map(len, theirs.values()))
        in_train = sum(len(positions) for gram, positions in theirs.items() if gram in ours)
        assert share == (in_train / n_windows if n_windows else None)


@given(divided())
@settings(max_examples=60)
def test_after_cutting_no_window_of_val_and_test_stands_in_another_works_train_not_even_across_cuts(text):
    codes, train, held_out, works = text
    pieces = cut_from(codes, train, held_out, works)
    assert not shared_windows(codes, pieces, held_out, works)
    for work, start, stop in pieces.tolist():  # each piece lies in the training text of its work
        assert train[work, 0] <= start < stop <= train[work, 1]
    assert (pieces[1:, 1] >= pieces[:-1, 2]).all()


def test_a_planted_passage_with_changes_is_cut_and_little_else():
    book, other = text_of(2003, 29, seed=1), text_of(997, 29, seed=2)
    copy = changed(book[1607:1907], 0.02, np.random.default_rng(1))
    codes, works = joined(book, np.concatenate([other[:401], copy, other[401:]]))
    train, held_out = np.array([[0, 1501], works[1]]), np.array([[1501, 2003], [works[1, 1]] * 2])
    pieces = cut_from(codes, train, held_out, works)
    at = works[1, 0] + 401
    assert pieces[:, 0].tolist() == [0, 1, 1]
    assert pieces[0].tolist() == [0, 0, 1501]
    assert abs(pieces[1, 2] - at) <= 27
    assert abs(pieces[2, 1] - (at + len(copy))) <= 27
    left, spans = joined(*(text_left(codes, pieces, work) for work in (0, 1)))
    assert not len(passages(codes, held_out, left, spans, MIN))


def test_text_that_comes_together_by_a_cut_is_cut_too():
    line = text_of(40, 29, seed=1)  # a line of val; train contains it with a passage of val in the middle
    passage = text_of(101, 29, seed=2)
    codes, works = joined(
        np.concatenate([text_of(97, 29, seed=3), line[:20], passage, line[20:], text_of(83, 29, seed=4)]),
        np.concatenate([line, text_of(53, 29, seed=5), passage]),
    )
    pieces = cut_from(codes, works[:1], works[1:], works)
    assert pieces[0].tolist() == [0, 0, 97 + 20]
    assert pieces[1, 1] == 97 + 20 + 101 + 20
    assert not shared_windows(codes, pieces, works[1:], works)


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
    both = np.array([[295, 396], [493, 594]])  # held out in both works, so each repeats held-out text of the other
    assert cut_from(codes, np.array([[0, 295], [396, 493]]), both, works).tolist() == [
        [0, 0, 97],
        [0, 198, 295],
        [1, 396, 493],
    ]
