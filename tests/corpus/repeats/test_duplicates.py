"""Passages that stand in two works are found, changed ones too, and link works into groups."""

import numpy as np
import pandas as pd
import pytest
from corpus.repeats.texts import changed, joined, text_of, windows
from hypothesis import given, settings
from hypothesis import strategies as st

from bukva.corpus.repeats import duplicates, grams
from bukva.corpus.repeats.duplicates import COLUMNS, covered_chars, groups, passages_between, shared_passages

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


@pytest.mark.parametrize("length", [MIN, MIN + 1, 499])
def test_a_passage_that_stands_in_two_works_is_found_with_both(length):
    codes, works, (a, a_stop), (b, b_stop) = planted(length)
    while a_stop < works[0, 1] and codes[a_stop] == codes[b_stop]:  # chance may have made it longer
        a_stop, b_stop = a_stop + 1, b_stop + 1
    while codes[a - 1] == codes[b - 1]:
        a, b = a - 1, b - 1
    assert rows(shared_passages(codes, codes, works)) == [(0, a, a_stop, 2, b, b_stop, a_stop - a)]


@given(st.integers(0, 400), st.integers(0, 1200), st.integers(MIN, 90))
@settings(max_examples=40, deadline=None)
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


def test_a_shorter_repeat_is_no_passage():
    codes, works, *_ = planted(MIN - 13)
    assert shared_passages(codes, codes, works).empty


def test_a_repeat_within_one_work_is_no_passage():
    text = text_of(499, 29, seed=1)
    codes, works = joined(np.concatenate([text, text]), text_of(499, 29, seed=2))
    assert shared_passages(codes, codes, works).empty


def test_a_passage_ends_where_its_work_ends():
    text = text_of(601, 29, seed=1)
    codes, works = joined(text[:201], text[201:401], text[401:], text[:401], text[401:])  # neighbours in both
    assert rows(shared_passages(codes, codes, works)) == [
        (0, 0, 201, 3, 601, 802, 201),
        (1, 201, 401, 3, 802, 1002, 200),
        (2, 401, 601, 4, 1002, 1202, 200),
    ]


def test_too_small_a_minimum_is_refused():
    codes, works = joined(text_of(499, 29, seed=1))
    with pytest.raises(ValueError, match="min_chars is 30; passages shorter than 31 may be missed"):
        shared_passages(codes, codes, works, min_chars=30)


@pytest.mark.parametrize("codes", [np.empty(0, np.uint16), text_of(7, 29, seed=1)])
def test_a_corpus_without_text_has_no_passages(codes):
    table = shared_passages(codes, codes, np.array([[0, 0], [0, len(codes)]]))
    assert table.empty
    assert list(table.columns) == COLUMNS
    assert groups(table, np.array([[0, 0], [0, len(codes)]]), 100, 0.2).tolist() == [0, 1]


def test_works_without_text_between_others_change_no_names():
    codes, works, *_ = planted(101)
    expected = shared_passages(codes, codes, works)
    with_empty = np.insert(works, 2, works[1, 1], axis=0)
    table = shared_passages(codes, codes, with_empty)
    assert table["work_b"].tolist() == [3]
    assert table.drop(columns="work_b").equals(expected.drop(columns="work_b"))


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


@pytest.mark.parametrize("setting", [(grams, "ENTRIES", 7), (grams, "CAPACITY", 64)])
def test_bounded_memory_cuts_passages_but_loses_none(monkeypatch, setting):
    codes, works, _, (start, stop) = planted(997)
    monkeypatch.setattr(*setting)
    table = shared_passages(codes, codes, works)
    assert sorted(table["start_b"])[0] <= start
    assert covered_chars(np.zeros(len(table), int), table["start_b"].to_numpy(), table["stop_b"].to_numpy()).sum() >= (
        stop - start
    )


def test_a_form_of_address_that_returns_is_no_passage():
    address = text_of(24, 29, seed=1)
    first, second = (
        np.concatenate([np.concatenate([text_of(80, 29, seed + i), address]) for i in range(9)]) for seed in (20, 40)
    )
    codes, works = joined(first, second)
    assert shared_passages(codes, codes, works).empty


# ---- between texts


def test_a_query_that_is_another_array_gives_the_same_passages():
    codes, works, *_ = planted(101)
    own = passages_between(codes, works[:1], codes, works[2:])
    start = works[2, 0]
    other = passages_between(codes, works[:1], codes[start:].astype(np.uint32), works[2:] - start)
    assert own["chars"].tolist() == other["chars"].tolist() == [101]
    assert (own["start_b"] - start).tolist() == other["start_b"].tolist()


# ---- groups


def table_of(*passages):
    """Rows of work_a, start_a, work_b, start_b, chars."""
    return pd.DataFrame([(a, i, i + n, b, k, k + n, n) for a, i, b, k, n in passages], columns=COLUMNS)


WORKS = np.array([[0, 1000], [1000, 2000], [2000, 2100], [2100, 9000], [9000, 20000]])


def test_linked_works_are_one_group_also_through_others():
    table = table_of((0, 0, 1, 1000, 600), (1, 1700, 3, 3000, 600))
    assert groups(table, WORKS, min_chars=500, min_share=1).tolist() == [0, 0, 1, 0, 2]


def test_an_epigraph_links_no_long_works_but_a_short_one_with_where_it_stands():
    table = table_of((3, 2100, 4, 9000, 60), (2, 2000, 4, 9900, 60))
    assert groups(table, WORKS, min_chars=500, min_share=0.2).tolist() == [0, 1, 2, 3, 2]


def test_several_passages_add_up_and_a_passage_that_repeats_counts_once():
    parts = table_of((3, 2100, 4, 9000, 300), (3, 2500, 4, 9500, 300))
    same = table_of((3, 2100, 4, 9000, 300), (3, 2100, 4, 9500, 300))
    assert groups(parts, WORKS, min_chars=600, min_share=1).tolist() == [0, 1, 2, 3, 3]
    assert groups(same, WORKS, min_chars=600, min_share=1).tolist() == [0, 1, 2, 3, 4]


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 30), st.integers(0, 20)), max_size=11))
def test_covered_characters_are_counted_once_in_each_group(spans):
    of, starts, lengths = (np.array([span[i] for span in spans], np.int64) for i in range(3))
    covered = covered_chars(of, starts, starts + lengths)
    for group in range(3):
        expected = {at for g, start, n in spans if g == group for at in range(start, start + n)}
        assert covered[of == group].sum() == len(expected)
