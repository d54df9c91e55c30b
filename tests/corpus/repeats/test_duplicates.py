"""Passages that stand in two works are found, changed ones too, and link works into groups."""

import numpy as np
import pandas as pd
import pytest
from corpus.repeats.texts import changed, joined, text_of, windows
from hypothesis import given, settings
from hypothesis import strategies as st

from bukva.corpus.repeats import duplicates
from bukva.corpus.repeats.duplicates import COLUMNS, groups, shared_passages

MIN = duplicates.MIN_CHARS


def planted(length, share=0.0, seed=1):
    """Three works; the third has a changed copy of a passage of the first. Returns codes, works and both spans."""
    rng = np.random.default_rng(seed)
    first, second, third = (text_of(n, 29, seed + i) for i, n in enumerate((2003, 503, 1511), start=10))
    copy = changed(first[307 : 307 + length], share, rng)
    codes, works = joined(first, second, np.concatenate([third[:701], copy, third[701:]]))
    at = works[2, 0] + 701
    return codes, works, (307, 307 + length), (at, at + len(copy))


def rows(table):
    return [tuple(row) for row in table.itertuples(index=False)]


# ---- exact


@given(st.integers(0, 400), st.integers(0, 1200), st.integers(MIN, 90))
@settings(max_examples=30)
def test_no_repeat_of_min_chars_is_missed_wherever_it_stands(a, b, length):
    first, second = text_of(499, 29, seed=1), text_of(1297, 29, seed=2)
    codes, works = joined(first, np.concatenate([second[:b], first[a : a + length], second[b:]]))
    found = set()
    for row in shared_passages(codes, codes, works).itertuples():
        found |= set(range(row.start_b, row.stop_b))
    here = windows(codes, works[:1], MIN)
    for gram, places in windows(codes, works[1:], MIN).items():
        if gram in here:
            assert {at + i for at in places for i in range(MIN)} <= found


def test_a_shorter_repeat_one_within_a_work_and_a_form_of_address_that_returns_are_no_passages():
    codes, works, *_ = planted(MIN - 13)
    assert shared_passages(codes, codes, works).empty
    text = text_of(499, 29, seed=1)
    codes, works = joined(np.concatenate([text, text]), text_of(499, 29, seed=2))
    assert shared_passages(codes, codes, works).empty
    address = text_of(24, 29, seed=1)
    letters = (np.concatenate([*(part for i in range(9) for part in (text_of(80, 29, seed + i), address))])
               for seed in (20, 40))  # fmt: skip
    codes, works = joined(*letters)
    assert shared_passages(codes, codes, works).empty


def test_a_passage_is_named_with_both_works_and_ends_where_its_work_ends():
    text = text_of(601, 29, seed=1)
    codes, works = joined(text[:201], text[201:401], text[401:], text[:401], text[401:])  # neighbours in both
    expected = [(0, 0, 201, 3, 601, 802, 201), (1, 201, 401, 3, 802, 1002, 200), (2, 401, 601, 4, 1002, 1202, 200)]
    assert rows(shared_passages(codes, codes, works)) == expected
    with_empty = np.insert(works, 3, works[2, 1], axis=0)  # a work without text between the others
    table = shared_passages(codes, codes, with_empty)
    assert table["work_b"].tolist() == [4, 4, 5]
    assert rows(table.assign(work_b=table["work_b"] - 1)) == expected


# ---- changed


@pytest.mark.parametrize(("share", "least"), [(0.01, 0.97), (0.05, 0.85), (0.1, 0.35)])
def test_passages_with_changed_characters_are_found(share, least):
    found = []
    for seed in range(20):
        codes, works, (start, stop), (start_b, stop_b) = planted(997, share, seed)
        table = shared_passages(codes, codes, works)
        assert (table["start_b"] >= start_b - 2).all()
        assert (table["stop_b"] <= stop_b + 2).all()
        is_found = np.zeros(len(codes), np.bool_)
        for row in table.itertuples():
            is_found[row.start_a : row.stop_a] = True
        found.append(is_found[start:stop].mean())
    assert np.mean(found) >= least


# ---- groups


WORKS = np.array([[0, 1000], [1000, 2000], [2000, 2100], [2100, 9000], [9000, 20000]])


@pytest.mark.parametrize(
    ("passages", "min_chars", "min_share", "expected"),
    [
        ([(0, 0, 1, 1000, 600), (1, 1700, 3, 3000, 600)], 500, 1, [0, 0, 1, 0, 2]),
        ([(3, 2100, 4, 9000, 60), (2, 2000, 4, 9900, 60)], 500, 0.2, [0, 1, 2, 3, 2]),
        ([(3, 2100, 4, 9000, 300), (3, 2500, 4, 9500, 300)], 600, 1, [0, 1, 2, 3, 3]),
        ([(3, 2100, 4, 9000, 300), (3, 2100, 4, 9500, 300)], 600, 1, [0, 1, 2, 3, 4]),
    ],
    ids=["through others", "an epigraph links a short work only", "passages add up", "a repeat counts once"],
)
def test_linked_works_are_one_group(passages, min_chars, min_share, expected):
    """A passage is work_a, start_a, work_b, start_b, chars."""
    table = pd.DataFrame([(a, i, i + n, b, k, k + n, n) for a, i, b, k, n in passages], columns=COLUMNS)
    assert groups(table, WORKS, min_chars, min_share).tolist() == expected
