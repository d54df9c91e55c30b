"""Grams are found wherever they stand: every run that is long enough, and nothing that is not equal."""

import numpy as np
import pytest
from corpus.repeats.texts import joined, maximal_runs, text_of, windows
from hypothesis import given, settings
from hypothesis import strategies as st

from bukva.corpus.repeats import grams
from bukva.corpus.repeats.grams import equal_runs, index_parts, scan_grams, spread


@st.composite
def texts(draw):
    """Short texts of few characters, so that runs repeat in many places, and their spans."""
    lists = draw(st.lists(st.lists(st.integers(0, 1), max_size=23), min_size=1, max_size=4))
    return joined(*(np.array(text, np.uint8) for text in lists))


def runs_found(codes, a_spans, text, b_spans, n, step, min_kinds=1):
    a_spans = a_spans[a_spans[:, 1] > a_spans[:, 0]]
    return [
        tuple(run)
        for index in index_parts(codes, a_spans, n, step, min_kinds)
        for start, stop in b_spans.tolist()
        for runs in equal_runs(codes, index, a_spans, text, start, stop)
        for run in runs.tolist()
    ]


@given(texts(), texts(), st.integers(1, 7), st.sampled_from([2, 5, 1 << 20]), st.sampled_from([17, 1 << 20]))
@settings(max_examples=40)
def test_the_grams_of_both_texts_are_those_of_a_dictionary(ours, theirs, n, entries, piece):
    (codes, spans), (text, others) = ours, theirs
    here, there = windows(codes, spans, n), windows(text, others, n)
    met, n_found = set(), 0
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(grams, "ENTRIES", entries)
        patch.setattr(grams, "PIECE_CHARS", piece)
        for index in index_parts(codes, spans, n):
            assert len(index.hashes) <= entries
            found = np.zeros(len(index.hashes), np.bool_)
            for covered in scan_grams(codes, index, text, others, found):
                met |= {at for start, stop in covered.tolist() for at in range(start, stop)}
            n_found += spread(index, found).sum()
    assert n_found == sum(len(places) for gram, places in here.items() if gram in there)
    expected = [at for gram, places in there.items() if gram in here for at in places]
    assert met == {at + i for at in expected for i in range(n)}


@given(texts(), texts(), st.integers(2, 5), st.integers(1, 4), st.integers(1, 2), st.sampled_from([3, 1 << 20]))
@settings(max_examples=60)
def test_every_run_that_holds_an_indexed_gram_is_found_once_and_whole(ours, theirs, n, step, min_kinds, entries):
    (codes, spans), (text, others) = ours, theirs

    def is_indexed(at):
        return at % step == 0 and len(set(codes[at : at + n].tolist())) >= min_kinds

    runs = maximal_runs(codes, spans, text, others, n)
    expected = [run for run in runs if any(is_indexed(run[0] + i) for i in range(run[2] - n + 1))]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(grams, "MAX_COPIES", 1000)
        assert sorted(runs_found(codes, spans, text, others, n, step, min_kinds)) == sorted(expected)
        patch.setattr(grams, "ENTRIES", entries)
        assert set(runs_found(codes, spans, text, others, n, step, min_kinds)) == set(expected)


def test_a_gram_in_very_many_places_is_compared_with_the_first_of_them(monkeypatch):
    line = np.arange(7, dtype=np.uint16)
    codes, spans = joined(*[line] * 11)
    text, others = joined(line)
    monkeypatch.setattr(grams, "MAX_COPIES", 3)
    assert runs_found(codes, spans, text, others, 7, 1) == [(0, 0, 7), (7, 0, 7), (14, 0, 7)]


def test_equal_hashes_of_different_grams_are_no_match():
    codes, spans = joined(text_of(211, 29, seed=1))
    text, others = joined(text_of(199, 29, seed=2))
    (index,) = index_parts(codes, spans, 5)
    (same,) = index_parts(text, others, 5)
    mixed = index._replace(hashes=same.hashes, firsts=same.firsts, filters=same.filters, shift=same.shift,
                           positions=index.positions[: len(same.hashes)])  # fmt: skip
    assert not list(equal_runs(codes, mixed, spans, text, 0, len(text)))
    assert not list(scan_grams(codes, mixed, text, others, np.zeros(len(mixed.hashes), np.bool_)))
