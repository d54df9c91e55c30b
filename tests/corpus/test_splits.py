"""The characters are divided into train, val and test: disjoint, complete, in order, exact and without repeats."""

from fractions import Fraction
from itertools import accumulate

import pandas as pd
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from works import saved, split, splits, works_of

from bukva.core.errors import BukvaError
from bukva.corpus.split_report import report
from bukva.corpus.splits import divide, spans
from bukva.text.collection import TEXT
from bukva.text.ids import check_lengths

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
@example([10, 100], split(0.7, 0.1, 0.2))  # 0.7 + 0.1 is 0.7999999999999999 in floating point
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
            assert not n or home.setdefault(unit, name) == name
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


@pytest.mark.parametrize(("strategy", "what", "n"), [("by_work", "work", 2), ("by_author", "author", 1)])
def test_fewer_works_or_authors_than_splits_are_rejected(strategy, what, n):
    with pytest.raises(BukvaError) as error:
        spans(works_of([10, 20], "A"), split(*FRACTIONS, strategy))
    needed = f"'{strategy}' needs at least one {what} for each of the 3 splits, but the corpus has {n}"
    assert str(error.value) == f"params.yaml, split.strategy: {needed}; use 'tail', or more text."


PASSAGE = "Мороз и солнце; день чудесный! Ещё ты дремлешь, друг прелестный."


def text_of(first, n=97):
    """Return n lines that differ from the lines of all other numbers."""
    return "".join(
        f"Строка {number * number * 7919 % 100_003} из {number}, а за ней {number * 104_729 % 99_991}.\n"
        for number in range(first, first + n)
    )


def test_what_val_and_test_share_with_train_is_reported_or_cut_out_of_train_and_nothing_else(tmp_path):
    first, second, third = text_of(0), text_of(1000), text_of(2000)
    works = {
        "a": first[:-11] + PASSAGE + first[-11:],  # in test
        "b": second[:501] + PASSAGE + second[501:],  # in train
        "c": third[:301] + second[101:201] + third[301:],  # repeats train in train
    }
    table = saved(tmp_path, works)
    whole, cut = (divide(tmp_path, table, split(*FRACTIONS, duplicates=kind)) for kind in ("keep", "remove"))
    held_out = [shares[shares["split"] != "train"].reset_index(drop=True) for shares in (whole, cut)]
    pd.testing.assert_frame_equal(*held_out)
    joined = (tmp_path / TEXT).read_text()
    before, kept = (
        "".join(joined[start:stop] for name, _, start, stop in shares.itertuples(index=False) if name == "train")
        for shares in (whole, cut)
    )
    assert PASSAGE in before
    assert not any(PASSAGE[at : at + 31] in kept for at in range(len(PASSAGE) - 30))
    assert len(PASSAGE) <= len(before) - len(kept) <= len(PASSAGE) + 62
    assert kept.count(second[101:201]) == 2
    seen_before, seen_after = (report(tmp_path, table, shares)["test"]["in_train"] for shares in (whole, cut))
    assert all(seen_before[n] > 0 and seen_after[n] == 0 for n in ("32", "64"))


def test_copies_that_leave_nothing_of_train_are_refused(tmp_path):
    table = saved(tmp_path, dict.fromkeys("abc", text_of(0)))
    with pytest.raises(BukvaError, match=r"split\.duplicates=remove: nothing is left in train, because its whole text"):
        divide(tmp_path, table, split(0.6, 0.2, 0.2, "by_work", "remove"))
    assert set(divide(tmp_path, table, split(0.6, 0.2, 0.2, "by_work", "keep"))["split"]) == {"train", "val", "test"}


@pytest.mark.parametrize(("n", "advice"), [(8, "7 or less, "), (3, "2 or less, "), (2, ""), (0, "")])
def test_a_split_shorter_than_a_window_is_rejected_and_a_window_has_2_characters_or_more(n, advice):
    with pytest.raises(BukvaError) as error:
        check_lengths({"train": 1_000_000, "val": n, "test": n + 1}, 8, "model.block_size")
    assert str(error.value) == (
        f"params.yaml, model.block_size: a window of 8 ids and the id after it do not fit in val, which has only "
        f"{n} ids (tokenize.kind); use {advice}a larger split.val, or more text."
    )
    if advice:
        check_lengths({"train": n, "val": n}, int(advice[0]), "model.block_size")  # the suggestion is valid
