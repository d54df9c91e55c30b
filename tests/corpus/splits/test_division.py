"""The table of shares: text that repeats between works is cut out of train, or its works stay together."""

import pandas as pd
import pytest
from corpus.splits.made import PASSAGE, text_of
from works import split, works_of

from bukva.base.errors import BukvaError
from bukva.config.messages import WAY_BACK
from bukva.corpus.collection import TEXT, Document, write_collection
from bukva.corpus.splits import division
from bukva.corpus.splits.division import divide, rows_of
from bukva.corpus.splits.strategies import spans


def texts(folder, shares, name):
    """The texts of the shares of a split."""
    joined = (folder / TEXT).read_text()
    return [joined[start:stop] for start, stop in shares.loc[shares["split"] == name, ["start", "stop"]].to_numpy()]


def test_every_work_has_a_row_of_every_split_in_the_order_of_the_text():
    rows = rows_of(spans(works_of([10, 0, 20]), split(0.7, 0.2, 0.1)))
    assert rows.to_dict("list") == {
        "split": ["train", "val", "test"] * 3,
        "work": [0, 0, 0, 1, 1, 1, 2, 2, 2],
        "start": [0, 7, 9, 10, 10, 10, 10, 24, 28],
        "stop": [7, 9, 10, 10, 10, 10, 24, 28, 30],
    }


def test_what_val_and_test_share_with_train_is_cut_out_of_train_and_nothing_else(tmp_path):
    first, second, third = text_of(0), text_of(1000), text_of(2000)
    works = {
        "a": first[:-11] + PASSAGE + first[-11:],  # in test
        "b": second[:501] + PASSAGE + second[501:],  # in train
        "c": third[:301] + second[101:201] + third[301:],  # train on both sides
    }
    table = write_collection(tmp_path, ((Document("-", "-", name), [text]) for name, text in works.items()))
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


def test_copies_that_leave_nothing_of_train_are_refused(tmp_path):
    table = write_collection(tmp_path, ((Document("-", "-", name), [text_of(0)]) for name in "abc"))
    with pytest.raises(BukvaError) as error:
        divide(tmp_path, table, split(0.6, 0.2, 0.2, "by_work", "remove"))
    assert str(error.value) == (
        "params.yaml, split.duplicates: remove leaves nothing of train, because all of it stands in val or test, too; "
        f"use keep, or take the copies out of the texts.\n{WAY_BACK}"
    )
    assert set(divide(tmp_path, table, split(0.6, 0.2, 0.2, "by_work", "keep"))["split"]) == {"train", "val", "test"}


@pytest.mark.parametrize("strategy", ["by_work", "by_author"])
def test_works_that_share_much_are_in_one_split(strategy, tmp_path, monkeypatch):
    monkeypatch.setattr(division, "GROUP_CHARS", 499)
    common = text_of(5000, 23)
    works = {f"{number:02}": text_of(1000 * number, 31) for number in range(17)}
    for name in ("03", "07", "11"):
        works[name] += common
    documents = {name: Document("-", f"author {name}", name) for name in works}
    table = write_collection(tmp_path, ((documents[name], [text]) for name, text in works.items()))
    shares = divide(tmp_path, table, split(0.6, 0.2, 0.2, strategy, "group"))
    homes = shares[shares["stop"] > shares["start"]].set_index("work")["split"]
    assert homes[[3, 7, 11]].nunique() == 1
    assert homes.nunique() == 3
    assert sorted(homes.index) == list(range(17))
