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
from bukva.corpus.splits import PARTS, check_lengths, load_splits, report, save_splits, spans

STRATEGIES = ["tail", "contiguous"]


def split(train, val, test, strategy="tail"):
    return Split(strategy=strategy, train=train, val=val, test=test)


LONG = split(0.666666666666667, 0.166666666666666, 0.166666666666667)  # its digits times a corpus outgrow 64 bits


@st.composite
def splits(draw, strategies=STRATEGIES):
    """Three fractions of so many digits that sum to 1 as nearly as floating point can write them."""
    whole = 10 ** draw(st.integers(1, 15))
    train = draw(st.integers(1, whole - 1))
    val = draw(st.integers(1, whole - train))
    return split(train / whole, val / whole, (whole - train - val) / whole, draw(st.sampled_from(strategies)))


works = st.lists(st.integers(0, 40) | st.integers(0, 10**8), max_size=5)


def shares(chosen):
    return [Fraction(str(share)) for share in (chosen.train, chosen.val, chosen.test)]


def lengths(parts):
    return {part: (span[:, 1] - span[:, 0]).tolist() for part, span in parts.items()}


# ---- where the cuts lie


@given(works, splits())
@example([34_824_659], LONG)
@example([10], split(0.3333333333, 0.6666666666, 0))  # a sum that is 1 but for a rounding
@example([10**11], split(0.5, 0.5000000001, 1e-10))
def test_parts_are_disjoint_complete_and_in_order(chars, chosen):
    parts = spans(chars, chosen)
    for work, (stop, n) in enumerate(zip(accumulate(chars), chars, strict=True)):
        at = stop - n
        for span in parts.values():
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
        assert {part: n_chars[work] for part, n_chars in lengths(spans(chars, chosen)).items()} == {
            part: expected[part] for part in PARTS if getattr(chosen, part) > 0
        }


@settings(max_examples=50)
@given(st.lists(st.integers(0, 40), max_size=5), splits(["contiguous"]))
def test_contiguous_cuts_the_joined_works(chars, chosen):
    train, val, _ = shares(chosen)
    joined = list(range(sum(chars)))
    first, second = int(len(joined) * train), int(len(joined) * (train + val)) if chosen.test > 0 else len(joined)
    expected = {"train": joined[:first], "val": joined[first:second], "test": joined[second:]}
    for part, span in spans(chars, chosen).items():
        assert [i for start, stop in span for i in joined[start:stop]] == expected[part]


@given(st.lists(st.integers(0, 10**8), min_size=1, max_size=5))
@example([34_824_628])
def test_contiguous_cuts_where_the_notes_do(chars):
    n = int(0.8 * sum(chars))
    parts = lengths(spans(chars, split(0.8, 0.2, 0, "contiguous")))
    assert sum(parts["train"]) == n
    assert sum(parts["val"]) == sum(chars) - n


def test_tail_by_hand():
    parts = spans([10, 0, 20], split(0.7, 0.2, 0.1, "tail"))
    assert {part: span.tolist() for part, span in parts.items()} == {
        "train": [[0, 7], [10, 10], [10, 24]],
        "val": [[7, 9], [10, 10], [24, 28]],
        "test": [[9, 10], [10, 10], [28, 30]],
    }


def test_contiguous_by_hand():
    parts = spans([10, 0, 20], split(0.2, 0.5, 0.3, "contiguous"))
    assert {part: span.tolist() for part, span in parts.items()} == {
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
def test_shares_may_have_as_many_digits_as_a_number_has(strategy):
    parts = lengths(
        spans([3_000_000_000], split(0.6666666666666666, 0.16666666666666669, 0.16666666666666666, strategy))
    )
    assert parts == {"train": [1_999_999_999], "val": [500_000_000], "test": [500_000_001]}


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_test_share_of_0_is_absent(strategy):
    assert list(spans([10, 20], split(0.9, 0.1, 0.0, strategy))) == ["train", "val"]
    assert list(spans([10, 20], split(0.8, 0.1, 0.1, strategy))) == ["train", "val", "test"]


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("chars", [[], [0], [0, 0]])
def test_where_nothing_is_nothing_is_shared(strategy, chars):
    for span in spans(chars, split(0.8, 0.1, 0.1, strategy)).values():
        assert span.shape == (len(chars), 2)
        assert not span.any()


# ---- the report


def table(rows):
    return pd.DataFrame(rows, columns=["category", "author", "work", "chars"])


def test_the_report_counts_parts_categories_and_authors():
    rows = [("poems", "Blok", "a", 10), ("poems", "Blok", "b", 10), ("poems", "NA", "c", 20), ("prose", "-", "d", 0)]
    counted = report(table(rows), spans([10, 10, 20, 0], split(0.8, 0.2, 0)))
    assert counted == {
        part: {
            "chars": 2 * n,
            "categories": [{"category": "poems", "chars": 2 * n}, {"category": "prose", "chars": 0}],
            "authors": [
                {"category": "poems", "author": "Blok", "chars": n},
                {"category": "poems", "author": "NA", "chars": n},
                {"category": "prose", "author": "-", "chars": 0},
            ],
        }
        for part, n in (("train", 16), ("val", 4))
    }
    assert json.loads(json.dumps(counted)) == counted


rows = st.lists(
    st.tuples(st.sampled_from(["-", "a", "б"]), st.sampled_from(["-", "NA", "x"]), st.just("w"), st.integers(0, 99)),
    min_size=1,
    max_size=5,
)


@settings(max_examples=30)
@given(rows, splits())
def test_the_report_adds_up(rows, chosen):
    works = table(rows)
    counted = report(works, spans(works["chars"], chosen))
    assert sum(part["chars"] for part in counted.values()) == works["chars"].sum()
    for part in counted.values():
        assert sum(category["chars"] for category in part["categories"]) == part["chars"]
        for category in part["categories"]:
            of_category = (author for author in part["authors"] if author["category"] == category["category"])
            assert sum(author["chars"] for author in of_category) == category["chars"]
    for (category, author), group in works.groupby(["category", "author"]):
        of_author = {"category": category, "author": author}
        found = [
            row["chars"] for part in counted.values() for row in part["authors"] if of_author.items() <= row.items()
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
def test_parts_come_back_from_the_disk(tmp_path_factory, chars, chosen, dtype):
    ids = np.arange(sum(chars)).astype(dtype)
    parts = spans(chars, chosen)
    folder = tmp_path_factory.getbasetemp() / "split"
    save_splits(folder, ids, parts)
    assert sorted(path.name for path in folder.iterdir()) == sorted(f"{part}.npy" for part in parts)
    loaded = load_splits(folder)
    assert list(loaded) == list(parts)  # a part of a former split does not stay
    for part, span in parts.items():
        assert loaded[part].dtype == np.dtype(dtype)
        assert loaded[part].tolist() == [id_ for start, stop in span for id_ in ids[start:stop].tolist()]


# ---- what is too short


def test_a_part_that_holds_one_window_is_enough():
    check_lengths({"train": 9, "val": 9}, 8, "model.block_size")


@pytest.mark.parametrize(("n", "fits"), [(8, 7), (3, 2)])
def test_a_part_that_holds_no_window_is_refused(n, fits):
    with pytest.raises(BukvaError) as error:
        check_lengths({"train": 1_000_000, "val": n}, 8, "model.block_size")
    assert str(error.value) == (
        f"params.yaml, model.block_size: 8 characters of context and the next do not fit val, which has {n}; "
        f"{fits} or less, a larger split.val or more text would do.\n{WAY_BACK}"
    )
    check_lengths({"train": 1_000_000, "val": n}, fits, "model.block_size")  # it does


@pytest.mark.parametrize("n", [0, 1, 2])
def test_where_no_window_would_do_none_is_offered(n):
    """A window has 2 characters of context at least."""
    with pytest.raises(BukvaError, match=rf"which has {n}; a larger split.test or more text would do\.\n"):
        check_lengths({"test": n}, 8, "model.block_size")
