"""Splitting: train, val and test are disjoint, complete and in order, and everything is counted."""

import json
from fractions import Fraction
from itertools import accumulate

import numpy as np
import pandas as pd
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from bukva.base.errors import BukvaError
from bukva.config.messages import WAY_BACK
from bukva.config.schema import Split
from bukva.corpus.splits import SPLITS, check_lengths, load_lengths, load_splits, save_splits, spans, summary

STRATEGIES = ["tail", "contiguous"]


def split(train, val, test, strategy="tail"):
    return Split(strategy=strategy, train=train, val=val, test=test)


LONG = split(
    0.666666666666667, 0.166666666666666, 0.166666666666667
)  # its digits times the characters of a corpus exceed 64 bits


@st.composite
def splits(draw, strategies=STRATEGIES):
    """Three fractions with up to 15 digits whose sum is as near to 1 as floating point allows."""
    whole = 10 ** draw(st.integers(1, 15))
    train = draw(st.integers(1, whole - 1))
    val = draw(st.integers(1, whole - train))
    return split(train / whole, val / whole, (whole - train - val) / whole, draw(st.sampled_from(strategies)))


works = st.lists(st.integers(0, 40) | st.integers(0, 10**8), max_size=5)


def shares(chosen):
    return [Fraction(str(share)) for share in (chosen.train, chosen.val, chosen.test)]


def lengths(shares):
    return {name: (span[:, 1] - span[:, 0]).tolist() for name, span in shares.items()}


# ---- the position of the cuts


@given(works, splits())
@example([34_824_659], LONG)
@example([10], split(0.3333333333, 0.6666666666, 0))  # the sum is 1 except for rounding
@example([10**11], split(0.5, 0.5000000001, 1e-10))
def test_splits_are_disjoint_complete_and_in_order(chars, chosen):
    by_split = spans(chars, chosen)
    for work, (stop, n) in enumerate(zip(accumulate(chars), chars, strict=True)):
        at = stop - n
        for span in by_split.values():
            assert span[work, 0] == at
            assert span[work, 1] >= at
            at = span[work, 1]
        assert at == stop


@given(works, splits(["tail"]))
@example([34_824_659, 500], LONG)
def test_tail_cuts_each_work(chars, chosen):
    train, val, _ = shares(chosen)
    for work, n in enumerate(chars):
        first, second = int(n * train), int(n * (train + val)) if chosen.test > 0 else n
        expected = {"train": first, "val": second - first, "test": n - second}
        assert {name: n_chars[work] for name, n_chars in lengths(spans(chars, chosen)).items()} == {
            name: expected[name] for name in SPLITS if getattr(chosen, name) > 0
        }


@settings(max_examples=50)
@given(st.lists(st.integers(0, 40), max_size=5), splits(["contiguous"]))
def test_contiguous_cuts_the_joined_works(chars, chosen):
    train, val, _ = shares(chosen)
    joined = list(range(sum(chars)))
    first, second = int(len(joined) * train), int(len(joined) * (train + val)) if chosen.test > 0 else len(joined)
    expected = {"train": joined[:first], "val": joined[first:second], "test": joined[second:]}
    for name, span in spans(chars, chosen).items():
        assert [i for start, stop in span for i in joined[start:stop]] == expected[name]


@given(st.lists(st.integers(0, 10**8), min_size=1, max_size=5))
@example([34_824_628])
def test_contiguous_cuts_where_the_lecture_notes_cut(chars):
    n = int(0.8 * sum(chars))
    by_split = lengths(spans(chars, split(0.8, 0.2, 0, "contiguous")))
    assert sum(by_split["train"]) == n
    assert sum(by_split["val"]) == sum(chars) - n


def test_the_tail_splits_of_a_small_corpus():
    by_split = spans([10, 0, 20], split(0.7, 0.2, 0.1, "tail"))
    assert {name: span.tolist() for name, span in by_split.items()} == {
        "train": [[0, 7], [10, 10], [10, 24]],
        "val": [[7, 9], [10, 10], [24, 28]],
        "test": [[9, 10], [10, 10], [28, 30]],
    }


def test_the_contiguous_splits_of_a_small_corpus():
    by_split = spans([10, 0, 20], split(0.2, 0.5, 0.3, "contiguous"))
    assert {name: span.tolist() for name, span in by_split.items()} == {
        "train": [[0, 6], [10, 10], [10, 10]],
        "val": [[6, 10], [10, 10], [10, 21]],
        "test": [[10, 10], [10, 10], [21, 30]],
    }


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize(
    ("shares", "n", "expected"),
    [
        ((0.9, 0.05, 0.05), 20, [18, 1, 1]),
        ((0.7, 0.1, 0.2), 10, [7, 1, 2]),  # 0.7 + 0.1 is 0.7999999999999999 in floating point
        ((0.58, 0.29, 0.13), 100, [58, 29, 13]),  # 0.58 * 100 is 57.99999999999999
        ((0.1, 0.2, 0.7), 10, [1, 2, 7]),  # 0.1 + 0.2 is 0.30000000000000004
    ],
)
def test_cuts_are_exact_where_floating_point_is_not(strategy, shares, n, expected):
    assert [sum(n_chars) for n_chars in lengths(spans([n], split(*shares, strategy))).values()] == expected


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_fractions_may_have_16_digits(strategy):
    by_split = lengths(
        spans([3_000_000_000], split(0.6666666666666666, 0.16666666666666669, 0.16666666666666666, strategy))
    )
    assert by_split == {"train": [1_999_999_999], "val": [500_000_000], "test": [500_000_001]}


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_split_of_fraction_0_is_absent(strategy):
    assert list(spans([10, 20], split(0.9, 0.1, 0.0, strategy))) == ["train", "val"]
    assert list(spans([10, 20], split(0.8, 0.1, 0.1, strategy))) == ["train", "val", "test"]


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("chars", [[], [0], [0, 0]])
def test_an_empty_corpus_has_empty_splits(strategy, chars):
    for span in spans(chars, split(0.8, 0.1, 0.1, strategy)).values():
        assert span.shape == (len(chars), 2)
        assert not span.any()


# ---- the summary


def table(rows):
    return pd.DataFrame(rows, columns=["category", "author", "work", "chars"])


def test_the_summary_counts_splits_categories_and_authors():
    rows = [("poems", "Blok", "a", 10), ("poems", "Blok", "b", 10), ("poems", "NA", "c", 20), ("prose", "-", "d", 0)]
    counted = summary(table(rows), spans([10, 10, 20, 0], split(0.8, 0.2, 0)))
    assert counted == {
        name: {
            "chars": 2 * n,
            "categories": [{"category": "poems", "chars": 2 * n}, {"category": "prose", "chars": 0}],
            "authors": [
                {"category": "poems", "author": "Blok", "chars": n},
                {"category": "poems", "author": "NA", "chars": n},
                {"category": "prose", "author": "-", "chars": 0},
            ],
        }
        for name, n in (("train", 16), ("val", 4))
    }
    assert json.loads(json.dumps(counted)) == counted


rows = st.lists(
    st.tuples(st.sampled_from(["-", "a", "б"]), st.sampled_from(["-", "NA", "x"]), st.just("w"), st.integers(0, 99)),
    min_size=1,
    max_size=5,
)


@settings(max_examples=30)
@given(rows, splits())
def test_the_summary_adds_up(rows, chosen):
    works = table(rows)
    counted = summary(works, spans(works["chars"], chosen))
    assert sum(name["chars"] for name in counted.values()) == works["chars"].sum()
    for name in counted.values():
        assert sum(category["chars"] for category in name["categories"]) == name["chars"]
        for category in name["categories"]:
            of_category = (author for author in name["authors"] if author["category"] == category["category"])
            assert sum(author["chars"] for author in of_category) == category["chars"]
    for (category, author), group in works.groupby(["category", "author"]):
        of_author = {"category": category, "author": author}
        found = [
            row["chars"] for name in counted.values() for row in name["authors"] if of_author.items() <= row.items()
        ]
        assert len(found) == len(counted)
        assert sum(found) == group["chars"].sum()


# ---- on the disk


@settings(max_examples=20)
@given(
    chars=st.lists(st.integers(0, 40), max_size=5),
    chosen=splits(),
    dtype=st.sampled_from(["uint8", "uint16", "uint32"]),
)
def test_splits_survive_a_round_trip(tmp_path_factory, chars, chosen, dtype):
    ids = np.arange(sum(chars)).astype(dtype)
    by_split = spans(chars, chosen)
    folder = tmp_path_factory.getbasetemp() / "split"
    save_splits(folder, ids, by_split)
    assert sorted(path.name for path in folder.iterdir()) == sorted(f"{name}.npy" for name in ["lengths", *by_split])
    loaded = load_splits(folder)
    assert list(loaded) == list(by_split)  # a split of a former run is removed
    lengths = load_lengths(folder)
    for name, span in by_split.items():
        assert lengths[name].tolist() == (span[:, 1] - span[:, 0]).tolist()
        assert loaded[name].dtype == np.dtype(dtype)
        assert loaded[name].tolist() == [id_ for start, stop in span for id_ in ids[start:stop].tolist()]


# ---- splits that are too short


def test_one_window_is_enough():
    check_lengths({"train": 9, "val": 9}, 8, "model.block_size")


@pytest.mark.parametrize(("n", "fits"), [(8, 7), (3, 2)])
def test_a_split_shorter_than_a_window_is_rejected(n, fits):
    with pytest.raises(BukvaError) as error:
        check_lengths({"train": 1_000_000, "val": n}, 8, "model.block_size")
    assert str(error.value) == (
        f"params.yaml, model.block_size: a window of 8 characters and the next one is longer than val, which has {n}; "
        f"use {fits} or less, a larger split.val or more text.\n{WAY_BACK}"
    )
    check_lengths({"train": 1_000_000, "val": n}, fits, "model.block_size")  # the suggestion is valid


@pytest.mark.parametrize("n", [0, 1, 2])
def test_no_block_size_is_suggested_where_none_fits(n):
    """A window has at least 2 characters of context."""
    with pytest.raises(BukvaError, match=rf"which has {n}; use a larger split.test or more text\.\n"):
        check_lengths({"test": n}, 8, "model.block_size")
