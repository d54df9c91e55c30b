"""Repeats are cut out of train or kept, the report and the messages show them, and files keep the shares."""

import json

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from works import save_in_characters, split, splits, works_of

from bukva.core.errors import BukvaError
from bukva.core.words import count
from bukva.corpus.splits.division import divide, share_table, spans
from bukva.corpus.splits.report import findings, missed_shares, report, short_ends
from bukva.text.collection import TEXT, Document, write_collection
from bukva.text.splits import check_lengths, load_lengths, load_splits

PASSAGE = "Мороз и солнце; день чудесный! Ещё ты дремлешь, друг прелестный."


def text_of(first, n=97):
    """Return n lines that differ from the lines of all other numbers."""
    return "".join(
        f"Строка {number * number * 7919 % 100_003} из {number}, а за ней {number * 104_729 % 99_991}.\n"
        for number in range(first, first + n)
    )


def texts(folder, shares, name):
    """Return the texts of the shares of a split."""
    joined = (folder / TEXT).read_text()
    return [joined[start:stop] for start, stop in shares.loc[shares["split"] == name, ["start", "stop"]].to_numpy()]


def test_what_val_and_test_share_with_train_is_reported_or_cut_out_of_train_and_nothing_else(tmp_path):
    first, second, third = text_of(0), text_of(1000), text_of(2000)
    works = {
        "a": first[:-11] + PASSAGE + first[-11:],  # in test
        "b": second[:501] + PASSAGE + second[501:],  # in train
        "c": third[:301] + second[101:201] + third[301:],  # repeats train in train
    }
    table = write_collection(tmp_path, ((Document("-", "-", name), text) for name, text in works.items()))
    whole, cut = (divide(tmp_path, table, split(0.8, 0.1, 0.1, duplicates=kind)) for kind in ("keep", "remove"))
    for name in ("val", "test"):
        pd.testing.assert_frame_equal(
            cut[cut["split"] == name].reset_index(drop=True), whole[whole["split"] == name].reset_index(drop=True)
        )
    assert any(PASSAGE in text for text in texts(tmp_path, whole, "train"))
    kept, before = "".join(texts(tmp_path, cut, "train")), "".join(texts(tmp_path, whole, "train"))
    assert not any(PASSAGE[at : at + 31] in kept for at in range(len(PASSAGE) - 30))
    assert len(PASSAGE) <= len(before) - len(kept) <= len(PASSAGE) + 62
    assert kept.count(second[101:201]) == 2
    before, after = (report(tmp_path, table, shares) for shares in (whole, cut))
    for n in ("32", "64"):
        assert before["test"]["in_train"][n] > 0
        assert after["test"]["in_train"][n] == 0
    assert json.loads(json.dumps(after)) == after


def test_copies_that_leave_nothing_of_train_are_refused(tmp_path):
    table = write_collection(tmp_path, ((Document("-", "-", name), text_of(0)) for name in "abc"))
    with pytest.raises(BukvaError) as error:
        divide(tmp_path, table, split(0.6, 0.2, 0.2, "by_work", "remove"))
    assert str(error.value) == (
        "params.yaml, split.duplicates=remove: nothing is left in train, because its whole text also occurs in val "
        "or test; use split.duplicates=keep, or remove the copies from the corpus."
    )
    assert set(divide(tmp_path, table, split(0.6, 0.2, 0.2, "by_work", "keep"))["split"]) == {"train", "val", "test"}


# ---- what is reported


def test_shares_that_miss_what_was_asked_by_more_than_a_tenth_are_named_with_the_reason(tmp_path):
    table = works_of([1000, 100, 100])
    missed = missed_shares(
        table, share_table(spans(table, split(0.8, 0.1, 0.1, "by_work"))), split(0.8, 0.1, 0.1, "by_work")
    )
    assert missed == (
        "val has 8.33 % of the characters instead of 10 %; test has 8.33 % of the characters instead of 10 %: whole "
        "works cannot be divided exactly (split.strategy=by_work)"
    )
    exact = split(0.8, 0.1, 0.1, "tail")
    assert missed_shares(table, share_table(spans(table, exact)), exact) == ""
    short = works_of([9])
    assert missed_shares(short, share_table(spans(short, exact)), exact) == (
        "val has 11.1 % of the characters instead of 10 %; test has 11.1 % of the characters instead of 10 %: parts of "
        "short works are rounded (split.strategy=tail)"
    )
    almost = split(0.82, 0.091, 0.089, "by_work")  # 8.33 % is less than a tenth below
    assert missed_shares(table, share_table(spans(table, split(0.8, 0.1, 0.1, "by_work"))), almost) == ""


def test_ends_of_short_works_that_make_most_of_val_are_named_with_their_number():
    def said(sizes, strategy="tail"):
        chosen = split(0.8, 0.1, 0.1, strategy)
        return short_ends(share_table(spans(works_of(sizes), chosen)), chosen)

    tweets = [300] * 20  # val has 30 characters of each
    words = (
        "most of val consists of the ends of 20 works, with fewer than 32 characters each, so a score on val says "
        "little about whole works; use `split.strategy=contiguous` or `split.strategy=by_work` to hold out whole works"
    )
    assert said(tweets) == said([*tweets, 5_900]) == words
    assert said([*tweets, 6_100]) == said([320] * 20) == said(tweets, "by_work") == said(tweets, "contiguous") == ""


def test_shares_that_cutting_made_smaller_are_named_with_how_much_was_cut(tmp_path):
    works = {name: text_of(0) if name in "abcdef" else text_of(100 * ord(name)) for name in "abcdefghijkl"}
    table = write_collection(tmp_path, ((Document("-", "-", name), text) for name, text in works.items()))
    chosen = split(0.7, 0.15, 0.15, "by_work", "remove")
    shares = divide(tmp_path, table, chosen)
    whole = dict(zip(table["work"], table["chars"], strict=True))
    left = shares.assign(chars=shares["stop"] - shares["start"]).groupby("work")["chars"].sum()
    cut = int(sum(whole.values()) - left.sum())
    n_cut = int((left.to_numpy() < table["chars"].to_numpy()).sum())
    assert cut > 0.1 * sum(whole.values())
    why = f"{count(cut, 'character')} in {count(n_cut, 'work')} were cut out of train because they repeat val or test"
    assert missed_shares(table, shares, chosen).endswith(f": {why} (split.duplicates)")
    uneven = split(0.4, 0.3, 0.3, "by_work", "remove")
    assert missed_shares(table, shares, uneven).endswith(
        f": {why} (split.duplicates), and whole works cannot be divided exactly (split.strategy=by_work)"
    )


def test_a_split_that_train_knows_or_that_is_unlike_train_is_named_with_figures():
    seen, unlike = {"8": 0.9, "16": 0.8, "32": 0.251, "64": 0.1}, {"8": 0.9, "16": 0.8, "32": 0.249, "64": 0.1}
    report = {
        "train": {"bigram_bits": 3.5},
        "val": {"in_train": seen, "bigram_bits": 3.749},
        "test": {"in_train": unlike, "bigram_bits": 3.751},
    }
    assert [*findings(report)] == [
        "25.1 % of the windows of 32 characters in val also occur in train, so a score on val measures memory as well "
        "as prediction; see `split.duplicates` and `split.strategy`",
        "most of test is unlike train: test has 3.75 bits per character under a bigram model of train, but 15 of 16 "
        "parts of train have at most 3.50; check whether works end with a license, notes or an index, and see "
        "`clean.rules` and `split.strategy`",
    ]
    without_bits = {name: {key: part[key] for key in part if key != "bigram_bits"} for name, part in report.items()}
    assert len([*findings(without_bits)]) == 1


@settings(max_examples=11)
@given(
    chars=st.lists(st.integers(0, 40), min_size=1, max_size=5),
    chosen=splits("tail", "contiguous"),
    dtype=st.sampled_from(["uint8", "uint32"]),
)
def test_splits_survive_a_round_trip(tmp_path_factory, chars, chosen, dtype):
    ids = np.arange(sum(chars)).astype(dtype)
    by_split = spans(works_of(chars), chosen)
    folder = tmp_path_factory.getbasetemp() / "split"
    save_in_characters(folder, ids, by_split)
    assert sorted(path.name for path in folder.iterdir()) == sorted(f"{name}.npy" for name in ["lengths", *by_split])
    loaded = load_splits(folder)
    assert list(loaded) == list(by_split)  # a split of an earlier run is removed
    lengths = load_lengths(folder)
    for name, span in by_split.items():
        assert lengths[name].tolist() == (span[:, 1] - span[:, 0]).tolist()
        assert loaded[name].dtype == np.dtype(dtype)
        assert loaded[name].tolist() == [id_ for start, stop in span for id_ in ids[start:stop].tolist()]


@pytest.mark.parametrize(("n", "advice"), [(8, "7 or less, "), (3, "2 or less, "), (2, ""), (0, "")])
def test_a_split_shorter_than_a_window_is_rejected_and_a_window_has_2_characters_or_more(n, advice):
    with pytest.raises(BukvaError) as error:
        check_lengths({"train": 1_000_000, "val": n}, 8, "model.block_size")
    assert str(error.value) == (
        f"params.yaml, model.block_size: a window of 8 ids and the id after it do not fit in val, which has only "
        f"{n} ids (tokenize.kind); use {advice}a larger split.val, or more text."
    )
    if advice:
        check_lengths({"train": n, "val": n}, int(advice[0]), "model.block_size")  # the suggestion is valid


def test_the_advice_about_a_window_fits_all_splits():
    with pytest.raises(BukvaError, match=r"fit in val, which has only 3 ids \(tokenize.kind\); use 2 or less"):
        check_lengths({"train": 6, "val": 3, "test": 4}, 8, "model.block_size")
