"""reports/split.json counts every character, measures how alike the splits are, and names what train knows of them."""

import json

import pandas as pd
import pytest
from dvc.render.converter.vega import get_datapoints
from hypothesis import given, settings
from hypothesis import strategies as st
from works import split, splits, works_of

from bukva.corpus.collection import Document, write_collection
from bukva.corpus.splits.division import divide, rows_of
from bukva.corpus.splits.folder import names_in
from bukva.corpus.splits.report import _chars, _contents, report, tell_missed_shares
from bukva.corpus.splits.strategies import spans

PASSAGE = "Мороз и солнце; день чудесный! Ещё ты дремлешь, друг прелестный."


def line(number):
    """Text that no other number has."""
    return f"Строка {number * number * 7919 % 100_003} из {number}, а за ней {number * 104_729 % 99_991}.\n"


def text_of(first, n=97):
    return "".join(map(line, range(first, first + n)))


@pytest.fixture
def corpus(tmp_path):
    """Two works; the end of the first, which is test, has a passage of the beginning of the second."""
    first, second = text_of(0), text_of(1000)
    works = {
        Document("poems", "Блок", "a", "1908"): first[:-11] + PASSAGE + first[-11:],
        Document("prose", "Чехов", "b", "1890-1891"): second[:501] + PASSAGE + second[501:],
    }
    return tmp_path, write_collection(tmp_path / "clean", ((work, [text]) for work, text in works.items()))


def test_the_longest_passage_of_test_in_train_is_named_with_both_works_before_and_after(corpus):
    folder, table = corpus
    chosen = split(0.8, 0.1, 0.1, duplicates="remove")
    shares = divide(folder / "clean", table, chosen)
    found = report(folder / "clean", table, shares, chosen)
    before, after = (found["test"]["longest"][when] for when in ("before", "after"))
    assert (before["work"], before["of_train"]) == ("poems/Блок/a", "prose/Чехов/b")
    assert before["chars"] >= len(PASSAGE)
    assert PASSAGE[:90] in before["text"]
    assert after is None or after["chars"] < chosen.duplicate_chars
    for n, shares_in_train in ((n, found["test"]["in_train"]) for n in ("32", "64")):
        assert shares_in_train["before"][n] > 0
        assert shares_in_train["after"][n] == 0
    assert found["val"]["longest"]["before"] is None or found["val"]["longest"]["before"]["chars"] < 31
    assert json.loads(json.dumps(found)) == found


def test_the_decades_are_counted_and_dvc_draws_the_authors_of_the_last_split(tmp_path):
    """DVC joins all lists of objects in a file, row by row: a list of decades would be longer than that of authors."""
    works = [(Document("prose", "A", f"w{year}", year), "x" * 70) for year in ("1799-1803", "1850", "1857", None)]
    table, chosen = write_collection(tmp_path, works), split(0.8, 0.1, 0.1)
    found = report(tmp_path, table, rows_of(spans(table, chosen)), chosen)
    assert found["test"]["decades"] == {"-": 7, "1790s": 7, "1850s": 14}
    assert sum(part["decades"]["1850s"] for part in found.values()) == 140
    assert [(row["author"], row["chars"]) for row in get_datapoints(found)] == [("A", 28)]


def test_where_nothing_is_kept_apart_before_and_after_are_equal(corpus):
    folder, table = corpus
    chosen = split(0.8, 0.1, 0.1)
    found = report(folder / "clean", table, divide(folder / "clean", table, chosen), chosen)
    for name in ("val", "test"):
        for key in ("in_train", "longest"):
            assert found[name][key]["before"] == found[name][key]["after"]


def test_the_distance_is_0_where_every_work_is_cut_alike_and_1_where_no_author_is_common(tmp_path):
    works = [(Document("prose", author, "w", year), "x" * 100) for author, year in (("A", "1850"), ("B", "1899"))]
    table = write_collection(tmp_path, works)
    chosen = split(0.8, 0.2, 0)
    alike = report(tmp_path, table, rows_of(spans(table, chosen)), chosen)
    assert alike["val"]["distance"] == {"author": 0.0, "category": 0.0, "decade": 0.0}
    whole = split(0.5, 0.5, 0, "by_author")
    apart = report(tmp_path, table, rows_of(spans(table, whole)), whole)
    assert apart["val"]["distance"] == {"author": 0.5, "category": 0.0, "decade": 0.5}


def test_a_share_that_is_not_the_one_asked_for_is_told():
    def told(chars, chosen):
        notes = []
        tell_missed_shares(rows_of(spans(works_of(chars), chosen)), chosen, notes.append)
        return notes

    # of nine characters the last one is test, and val has none
    assert told([9] * 7, split(0.9, 0.05, 0.05)) == [
        "split: val has 0 % of the characters, not 5 %; test has 11.1 % of the characters, not 5 % "
        "(split.strategy tail, split.duplicates keep)"
    ]
    assert told([9] * 700, split(0.9, 0.05, 0.05, "contiguous")) == []
    assert told([700, 300], split(0.7, 0.25, 0.05)) == []
    assert told([810, 190], split(0.8, 0.2, 0, "by_work")) == []
    assert len(told([850, 150], split(0.8, 0.2, 0, "by_work"))) == 1


# ---- the counts


def summary(table, by_split):
    shares = rows_of(by_split)
    parts = {name: _contents(table, _chars(shares, name, len(table))) for name in names_in(shares)}
    return {name: {key: part[key] for key in part if key != "distance"} for name, part in parts.items()}


def table(rows):
    return pd.DataFrame(rows, columns=["category", "author", "work", "chars"]).assign(year="1899")


def test_the_summary_counts_splits_categories_and_authors():
    rows = [("poems", "Blok", "a", 10), ("poems", "Blok", "b", 10), ("poems", "NA", "c", 20), ("prose", "-", "d", 0)]
    counted = summary(table(rows), spans(table(rows), split(0.8, 0.2, 0)))
    assert counted == {
        name: {
            "chars": 2 * n,
            "categories": [{"category": "poems", "chars": 2 * n}, {"category": "prose", "chars": 0}],
            "decades": {"1890s": 2 * n},
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
@given(rows, splits("tail", "contiguous"))
def test_the_summary_adds_up(rows, chosen):
    works = table(rows)
    counted = summary(works, spans(works, chosen))
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
