"""Which characters are train, val and test: the splits are disjoint, complete, in order and exact."""

from fractions import Fraction
from itertools import accumulate

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from works import split, splits, works_of

from bukva.base.errors import BukvaError
from bukva.config.messages import WAY_BACK
from bukva.corpus.splits.folder import SPLITS
from bukva.corpus.splits.strategies import spans

STRATEGIES = ["tail", "contiguous"]
# its digits times the characters of a corpus exceed 64 bits
LONG = split(0.666666666666667, 0.166666666666666, 0.166666666666667)


works = st.lists(st.integers(0, 40) | st.integers(0, 10**8), max_size=5)


def shares(chosen):
    return [Fraction(str(share)) for share in (chosen.train, chosen.val, chosen.test)]


def lengths(shares):
    return {name: (span[:, 1] - span[:, 0]).tolist() for name, span in shares.items()}


# ---- the position of the cuts


@given(works, splits(*STRATEGIES))
@example([34_824_659], LONG)
@example([10], split(0.3333333333, 0.6666666666, 0))  # the sum is 1 except for rounding
@example([10**11], split(0.5, 0.5000000001, 1e-10))
def test_splits_are_disjoint_complete_and_in_order(chars, chosen):
    by_split = spans(works_of(chars), chosen)
    for work, (stop, n) in enumerate(zip(accumulate(chars), chars, strict=True)):
        at = stop - n
        for span in by_split.values():
            assert span[work, 0] == at
            assert span[work, 1] >= at
            at = span[work, 1]
        assert at == stop


@given(works, splits("tail"))
@example([34_824_659, 500], LONG)
def test_tail_cuts_each_work(chars, chosen):
    train, val, _ = shares(chosen)
    for work, n in enumerate(chars):
        first, second = int(n * train), int(n * (train + val)) if chosen.test > 0 else n
        expected = {"train": first, "val": second - first, "test": n - second}
        assert {name: n_chars[work] for name, n_chars in lengths(spans(works_of(chars), chosen)).items()} == {
            name: expected[name] for name in SPLITS if getattr(chosen, name) > 0
        }


@settings(max_examples=50)
@given(st.lists(st.integers(0, 40), max_size=5), splits("contiguous"))
def test_contiguous_cuts_the_joined_works(chars, chosen):
    train, val, _ = shares(chosen)
    joined = list(range(sum(chars)))
    first, second = int(len(joined) * train), int(len(joined) * (train + val)) if chosen.test > 0 else len(joined)
    expected = {"train": joined[:first], "val": joined[first:second], "test": joined[second:]}
    for name, span in spans(works_of(chars), chosen).items():
        assert [i for start, stop in span for i in joined[start:stop]] == expected[name]


@given(st.lists(st.integers(0, 10**8), min_size=1, max_size=5))
@example([34_824_628])
def test_contiguous_cuts_where_the_lecture_notes_cut(chars):
    n = int(0.8 * sum(chars))
    by_split = lengths(spans(works_of(chars), split(0.8, 0.2, 0, "contiguous")))
    assert sum(by_split["train"]) == n
    assert sum(by_split["val"]) == sum(chars) - n


def test_the_tail_splits_of_a_small_corpus():
    by_split = spans(works_of([10, 0, 20]), split(0.7, 0.2, 0.1, "tail"))
    assert {name: span.tolist() for name, span in by_split.items()} == {
        "train": [[0, 7], [10, 10], [10, 24]],
        "val": [[7, 9], [10, 10], [24, 28]],
        "test": [[9, 10], [10, 10], [28, 30]],
    }


def test_the_contiguous_splits_of_a_small_corpus():
    by_split = spans(works_of([10, 0, 20]), split(0.2, 0.5, 0.3, "contiguous"))
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
    assert [sum(n_chars) for n_chars in lengths(spans(works_of([n]), split(*shares, strategy))).values()] == expected


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_fractions_may_have_16_digits(strategy):
    by_split = lengths(
        spans(works_of([3_000_000_000]), split(0.6666666666666666, 0.16666666666666669, 0.16666666666666666, strategy))
    )
    assert by_split == {"train": [1_999_999_999], "val": [500_000_000], "test": [500_000_001]}


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_split_of_fraction_0_is_absent(strategy):
    assert list(spans(works_of([10, 20]), split(0.9, 0.1, 0.0, strategy))) == ["train", "val"]
    assert list(spans(works_of([10, 20]), split(0.8, 0.1, 0.1, strategy))) == ["train", "val", "test"]


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("chars", [[], [0], [0, 0]])
def test_an_empty_corpus_has_empty_splits(strategy, chars):
    for span in spans(works_of(chars), split(0.8, 0.1, 0.1, strategy)).values():
        assert span.shape == (len(chars), 2)
        assert not span.any()


# ---- whole works

FRACTIONS = (0.8, 0.1, 0.1)


@st.composite
def corpora(draw):
    """Works of three to five authors in one to three categories."""
    authors, categories = "ABCDE"[: draw(st.integers(3, 5))], "pqr"[: draw(st.integers(1, 3))]
    return works_of(draw(st.lists(st.integers(0, 97), min_size=5, max_size=23)), authors, categories)


@settings(max_examples=50)
@given(corpora(), st.sampled_from(["by_work", "by_author"]), st.randoms())
def test_each_work_or_author_is_in_one_split_whatever_the_order_of_the_works(table, strategy, random):
    chosen = split(*FRACTIONS, strategy)
    by_split = lengths(spans(table, chosen))
    units = table["author"] if strategy == "by_author" else table["work"]
    home = {}
    for name, n_chars in by_split.items():
        for unit, n, whole in zip(units, n_chars, table["chars"], strict=True):
            assert n in (0, whole)
            if n:
                assert home.setdefault(unit, name) == name
    assert [sum(parts) for parts in zip(*by_split.values(), strict=True)] == table["chars"].tolist()
    order = random.sample(range(len(table)), len(table))
    shuffled = lengths(spans(table.iloc[order].reset_index(drop=True), chosen))
    assert shuffled == {name: [n_chars[at] for at in order] for name, n_chars in by_split.items()}


def test_whole_works_have_the_fractions_and_the_authors_of_the_whole():
    table = works_of([997 + 13 * n % 89 for n in range(420)], "ABBCCCC", "ppq")
    by_split = spans(table, split(*FRACTIONS, "by_work"))
    for (_, span), fraction in zip(by_split.items(), FRACTIONS, strict=True):
        part = table.assign(chars=span[:, 1] - span[:, 0])
        for of in ("work", "author", "category"):
            if of != "work":
                share = part.groupby(of)["chars"].sum() / table.groupby(of)["chars"].sum()
                assert share.between(fraction - 0.02, fraction + 0.02).all()
        assert part["chars"].sum() == pytest.approx(fraction * table["chars"].sum(), rel=0.02)


def test_val_and_test_by_author_have_no_author_of_train():
    by_split = lengths(spans(works_of([100] * 50, "ABCDEFGHIJ"), split(*FRACTIONS, "by_author")))
    assert {name: sum(n_chars) for name, n_chars in by_split.items()} == {"train": 4000, "val": 500, "test": 500}
    authors = {name: {at % 10 for at, n in enumerate(n_chars) if n} for name, n_chars in by_split.items()}
    assert len(authors["train"] | authors["val"] | authors["test"]) == sum(map(len, authors.values())) == 10


def test_one_long_work_does_not_leave_a_split_empty():
    by_split = lengths(spans(works_of([1_000_003, 7, 5]), split(*FRACTIONS, "by_work")))
    assert by_split["train"] == [1_000_003, 0, 0]
    assert sorted(map(sum, by_split.values())) == [5, 7, 1_000_003]


@pytest.mark.parametrize(
    ("strategy", "authors", "what"),
    [
        ("by_work", "A", "by_work needs one work for each of the 3 splits, but the corpus has 2"),
        ("by_author", "A", "by_author needs one author for each of the 3 splits, but the corpus has 1"),
    ],
)
def test_fewer_works_or_authors_than_splits_are_rejected(strategy, authors, what):
    with pytest.raises(BukvaError) as error:
        spans(works_of([10, 20], authors), split(*FRACTIONS, strategy))
    assert str(error.value) == f"params.yaml, split.strategy: {what}; use tail, or more text.\n{WAY_BACK}"
