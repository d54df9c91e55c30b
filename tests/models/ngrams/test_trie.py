"""The trie, compared with grams that are counted with dictionaries."""

from collections import Counter, defaultdict

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from models.ngrams.witness import skewed

from bukva.models.ngrams import trie
from bukva.models.ngrams.trie import count_ngrams


def by_dictionaries(ids, max_length):
    """Return the arrays of the trie as lists. Grams are sorted by length, and then as tuples."""
    counts, before = Counter(), defaultdict(set)
    for length in range(max_length + 1):
        for i in range(len(ids) - length + 1):
            gram = tuple(ids[i : i + length])
            counts[gram] += 1
            before[gram].add(ids[i - 1] if i else "start")
    grams = sorted(counts, key=lambda gram: (len(gram), gram))
    assert grams[0] == ()
    children = Counter(gram[:-1] for gram in grams[1:])
    firsts = np.cumsum([1, *(children[gram] for gram in grams)])
    return {
        "firsts": firsts.tolist(),
        "symbols": [0, *(gram[-1] for gram in grams[1:])],
        "counts": [len(ids), *(counts[gram] for gram in grams[1:])],
        "continuations": [1, *(len(before[gram]) for gram in grams[1:])],
        "levels": [sum(len(gram) < length for gram in grams) for length in range(max_length + 2)],
    }


def lists(trie):
    return {name: array.tolist() for name, array in trie._asdict().items()}


@st.composite
def texts(draw):
    """Draw ids, V and a maximum length."""
    V = draw(st.integers(1, 5))
    return draw(st.lists(st.integers(0, V - 1), max_size=60)), V, draw(st.integers(1, 7))


@given(texts(), st.sampled_from([np.uint8, np.uint16]))
@settings(max_examples=30)
@example(([], 3, 2), np.uint8)
@example(([4], 5, 3), np.uint8)
@example(([0, 1], 2, 7), np.uint16)  # shorter than the longest gram
@example(([2] * 11, 3, 5), np.uint8)  # one id repeated
def test_the_arrays_are_those_of_grams_counted_with_dictionaries(text, dtype):
    ids, V, max_length = text
    assert lists(count_ngrams(np.array(ids, dtype), V, max_length)) == by_dictionaries(ids, max_length)


@pytest.mark.parametrize(("V", "dtype", "greatest"), [(256, np.uint8, 10**7), (65_521, np.uint16, trie.MAX_CODE)])
def test_the_greatest_ids_of_a_type_are_counted_as_others_are_by_codes_and_by_their_ranks(
    monkeypatch, V, dtype, greatest
):
    monkeypatch.setattr(trie, "MAX_CODE", greatest)  # above it, codes are replaced by ranks
    ids = (V - 1 - skewed(211, 7)).astype(dtype)
    ids.flags.writeable = False  # like a memory-mapped file
    assert lists(count_ngrams(ids, V, 8)) == by_dictionaries(ids.tolist(), 8)
