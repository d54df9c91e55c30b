"""Division of the characters into train, val and test: disjoint, complete, in order and exact."""

from fractions import Fraction
from itertools import accumulate

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from works import split, splits, works_of

from bukva.core.errors import BukvaError
from bukva.corpus.splits.division import spans

# fractions whose digits times the characters of a corpus exceed 64 bits
LONG = split(0.666666666666667, 0.166666666666666, 0.166666666666667)

works = st.lists(st.integers(0, 40) | st.integers(0, 10**8), max_size=5)


def lengths(shares):
    return {name: (span[:, 1] - span[:, 0]).tolist() for name, span in shares.items()}


def cut(n, chosen):
    """Return the stop of each split when n characters are cut by exact fractions."""
    train, val = Fraction(str(chosen.train)), Fraction(str(chosen.val))
    stops = {"train": int(n * train), "val": int(n * (train + val)) if chosen.test else n, "test": n}
    return {name: stop for name, stop in stops.items() if getattr(chosen, name)}


@settings(max_examples=40)
@given(works, splits("tail", "contiguous"))
@example([34_824_659, 500], LONG)
@example([10], split(0.3333333333, 0.6666666666, 0))  # the sum is 1 except for rounding
@example([10**11], split(0.5, 0.5000000001, 1e-10))
@example([0, 0], split(0.8, 0.1, 0.1))
@example([10, 100], split(0.7, 0.1, 0.2))  # 0.7 + 0.1 is 0.7999999999999999 in floating point
@example([100], split(0.58, 0.29, 0.13, "contiguous"))  # 0.58 * 100 is 57.99999999999999
@example([3_000_000_000], split(0.6666666666666666, 0.16666666666666669, 0.16666666666666666))
def test_each_work_or_all_joined_are_cut_by_the_fractions_without_gap_or_overlap(chars, chosen):
    by_split = spans(works_of(chars), chosen)
    of_all = cut(sum(chars), chosen)
    assert list(by_split) == list(of_all)  # a split of fraction 0 is absent
    for work, (end, n) in enumerate(zip(accumulate(chars), chars, strict=True)):
        start = end - n
        of_work = cut(n, chosen) if chosen.strategy == "tail" else {name: at - start for name, at in of_all.items()}
        at = start
        for name, stop in of_work.items():
            assert by_split[name][work, 0] == at
            at = start + max(at - start, min(stop, n))
            assert by_split[name][work, 1] == at
        assert at == end


FRACTIONS = (0.8, 0.1, 0.1)


@st.composite
def corpora(draw):
    """Draw works of three to five authors in one to three categories."""
    authors, categories = "ABCDE"[: draw(st.integers(3, 5))], "pqr"[: draw(st.integers(1, 3))]
    return works_of(draw(st.lists(st.integers(0, 97), min_size=5, max_size=23)), authors, categories)


@settings(max_examples=17)
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
    for span, fraction in zip(by_split.values(), FRACTIONS, strict=True):
        part = table.assign(chars=span[:, 1] - span[:, 0])
        for of in ("author", "category"):
            share = part.groupby(of)["chars"].sum() / table.groupby(of)["chars"].sum()
            assert share.between(fraction - 0.02, fraction + 0.02).all()
        assert part["chars"].sum() == pytest.approx(fraction * table["chars"].sum(), rel=0.02)


def test_one_long_work_leaves_no_split_empty_and_val_and_test_by_author_have_no_author_of_train():
    by_split = lengths(spans(works_of([1_000_003, 7, 5]), split(*FRACTIONS, "by_work")))
    assert by_split["train"] == [1_000_003, 0, 0]
    assert sorted(map(sum, by_split.values())) == [5, 7, 1_000_003]
    by_split = lengths(spans(works_of([100] * 50, "ABCDEFGHIJ"), split(*FRACTIONS, "by_author")))
    assert {name: sum(n_chars) for name, n_chars in by_split.items()} == {"train": 4000, "val": 500, "test": 500}
    authors = {name: {at % 10 for at, n in enumerate(n_chars) if n} for name, n_chars in by_split.items()}
    assert len(authors["train"] | authors["val"] | authors["test"]) == sum(map(len, authors.values())) == 10


@pytest.mark.parametrize(("strategy", "what", "n"), [("by_work", "work", 2), ("by_author", "author", 1)])
def test_fewer_works_or_authors_than_splits_are_rejected(strategy, what, n):
    with pytest.raises(BukvaError) as error:
        spans(works_of([10, 20], "A"), split(*FRACTIONS, strategy))
    needed = f"'{strategy}' needs at least one {what} for each of the 3 splits, but the corpus has {n}"
    assert str(error.value) == f"params.yaml, split.strategy: {needed}; use 'tail', or more text."
