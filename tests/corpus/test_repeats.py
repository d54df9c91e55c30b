"""Text that occurs in two works is found, even if it was changed, and none is left in train after cutting."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bukva.corpus import repeats
from bukva.corpus.repeats import equal_runs, seen_in_train


def text_of(n, n_kinds, seed):
    """Return (n,) random characters. Of 29 kinds, no run of 12 occurs twice by chance if n is a few thousand."""
    return np.random.default_rng(seed).integers(0, n_kinds, n).astype(np.uint32)


def joined(*texts):
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
        result += [int(rng.integers(0, 29))] * (1 / 3 <= draw < 1) + [code] * (draw >= 2 / 3)
    return np.array(result, np.uint32)


@st.composite
def divided(draw):
    """Draw works of lines that often repeat: codes, and the spans of train, of their held-out ends and of works."""
    lines = [text_of(draw(st.integers(1, 40)), 29, seed) for seed in range(5)]
    order = st.lists(st.sampled_from(range(5)), min_size=1, max_size=5)
    works = draw(st.lists(order, min_size=1, max_size=4))
    codes, spans = joined(*(np.concatenate([lines[i] for i in work]) for work in works))
    cuts = np.array([draw(st.integers(start, stop)) for start, stop in spans.tolist()])
    return codes, np.stack([spans[:, 0], cuts], axis=1), np.stack([cuts, spans[:, 1]], axis=1), spans


def only(codes, spans):
    """Return the codes in these spans; all other positions get a code that does not occur in a text."""
    kept = np.full_like(codes, 251 + len(spans))
    for start, stop in spans.tolist():
        kept[start:stop] = codes[start:stop]
    return kept


@given(divided(), st.sampled_from([7, 1 << 20]), st.sampled_from([2, 16]))
@settings(max_examples=40)
def test_windows_seen_in_train_and_equal_runs_are_those_of_a_slow_search(text, piece, n):
    codes, train, held_out, _ = text
    texts, lengths = [held_out[::2], held_out[1::2]], [2, 8, 16, 33]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(repeats, "PIECE", piece)
        patch.setattr(repeats, "FIRST_PART", piece + 4)
        seen = seen_in_train(only(codes, held_out), texts, only(codes, train), train, lengths)
        runs = equal_runs(codes, held_out, codes, train, n)
    for length in lengths:
        ours = windows(codes, train, length)
        for share, theirs in zip(seen[length], (windows(codes, spans, length) for spans in texts), strict=True):
            n_windows = sum(map(len, theirs.values()))
            in_train = sum(len(positions) for gram, positions in theirs.items() if gram in ours)
            assert share == (in_train / n_windows if n_windows else None)
    ours = windows(codes, train, n)
    theirs = windows(codes, held_out, n)
    pairs = {(a, b) for gram, positions in theirs.items() for a in positions for b in ours.get(gram, [])}
    firsts = [(a, b) for a, b in sorted(pairs) if (a - 1, b - 1) not in pairs]
    lengths = [next(i for i in range(len(codes)) if (a + i, b + i) not in pairs) for a, b in firsts]
    expected = [[a, b, length + n - 1] for (a, b), length in zip(firsts, lengths, strict=True)]
    assert sorted(runs.tolist()) == expected


def test_a_window_is_varied_by_the_number_of_its_different_characters():
    codes = np.concatenate([text_of(97, 29, seed=1), text_of(97, 8, seed=2)])
    positions = np.arange(0, len(codes) - repeats.SEED + 1, 2)
    kinds = np.array([len(set(codes[at : at + repeats.SEED].tolist())) for at in positions])
    expected = kinds >= min(repeats.KINDS, repeats.VARIETY * np.median(kinds))
    assert 0 < expected.sum() < len(expected)
    assert (repeats._are_varied(codes, positions) == expected).all()


MIN = 31  # smallest number of equal characters that is cut in these tests


def shared_windows(codes, pieces, held_out, works):
    """Return the windows of MIN characters in the remaining text that also occur in held-out text of another work."""
    shared = set()
    for work, (start, stop) in enumerate(works.tolist()):
        text = np.concatenate([codes[:0], *(codes[a:b] for w, a, b in pieces.tolist() if w == work)])  # across cuts
        others = held_out[(held_out[:, 0] < start) | (held_out[:, 1] > stop)]
        shared |= windows(text, [(0, len(text))], MIN).keys() & windows(codes, others, MIN).keys()
    return shared


def cut_from(codes, train, held_out, works, min_chars=MIN):
    """Return the remaining pieces of train. Its rows are the first works; all other works are held out as a whole."""
    rest = works[len(train) :, [0, 0]]
    return repeats.cut_from(codes, held_out, np.concatenate([train, rest]), works, min_chars)


def planted(original, copy, seed=1):
    """Plant a copy of held-out text in a work and cut it. Return the cut share of the copy, and what else is cut."""
    first, second = text_of(701, 29, seed + 10), text_of(811, 29, seed + 20)
    codes, works = joined(np.concatenate([first, copy, second]), text_of(503, 29, seed + 30), original)
    is_cut = np.ones(len(codes), np.bool_)
    for _, start, stop in cut_from(codes, works[:2], works[2:], works, 60).tolist():
        is_cut[start:stop] = False
    of_copy = is_cut[701 : 701 + len(copy)]
    return of_copy.mean(), is_cut[: works[2, 0]].sum() - of_copy.sum()


@pytest.mark.parametrize(("length", "share", "least"), [
    (61, 0, 1), (97, 0.01, 0.9), (199, 0.01, 0.95), (997, 0.01, 0.98), (199, 0.05, 0.8), (997, 0.05, 0.93),
    (997, 0.1, 0.6),
])  # fmt: skip
def test_copies_with_changed_characters_are_cut_and_little_else(length, share, least):
    found, rest = [], 0
    for seed in range(20):
        original = text_of(length, 29, seed)
        part, outside = planted(original, changed(original, share, np.random.default_rng(seed)), seed=seed)
        found.append(part)
        rest += outside
    assert np.mean(found) >= least
    assert rest <= 20


ORIGINAL, OTHER = text_of(997, 29, seed=1), text_of(997, 29, seed=2)


def phrases(length, step, starts):
    return np.concatenate([np.append(ORIGINAL[at : at + length], OTHER[at + length : at + step]) for at in starts])


@pytest.mark.parametrize(("original", "copy"), [
    (ORIGINAL, ORIGINAL[307 : 307 + 59]),
    (ORIGINAL, phrases(20, 45, reversed(range(0, 900, 45)))),  # in another order
], ids=["short", "another order"])  # fmt: skip
def test_equal_text_that_makes_no_copy_stays(original, copy):
    assert planted(original, copy) == (0, 0)


@given(divided())
@settings(max_examples=60)
def test_after_cutting_no_window_of_val_and_test_stands_in_another_works_train_not_even_across_cuts(text):
    codes, train, held_out, works = text
    pieces = cut_from(codes, train, held_out, works)
    assert not shared_windows(codes, pieces, held_out, works)
    for work, start, stop in pieces.tolist():  # each piece lies in the training text of its work
        assert train[work, 0] <= start < stop <= train[work, 1]
    assert (pieces[1:, 1] >= pieces[:-1, 2]).all()


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


@pytest.mark.parametrize("n_kinds", [2, 29])
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
    left = cut_from(codes, np.array([[0, 295], [396, 493]]), both, works).tolist()
    assert left == [[0, 0, 97], [0, 198, 295], [1, 396, 493]]
