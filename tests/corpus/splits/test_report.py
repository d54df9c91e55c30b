"""reports/split.json counts every character, measures how alike the splits are, and names what train knows of them."""

import json

import pytest
from corpus.splits.made import PASSAGE, text_of
from works import split, works_of

from bukva.corpus.collection import Document, write_collection
from bukva.corpus.splits.division import divide, rows_of
from bukva.corpus.splits.report import report, tell_missed_shares
from bukva.corpus.splits.strategies import spans


@pytest.fixture
def corpus(tmp_path):
    """Two works; the end of the first, which is test, has a passage of the beginning of the second."""
    first, second = text_of(0), text_of(1000)
    works = {
        Document("poems", "Блок", "a", "1908"): first[:-11] + PASSAGE + first[-11:],
        Document("prose", "Чехов", "b", "1890-1891"): second[:501] + PASSAGE + second[501:],
    }
    return tmp_path / "clean", write_collection(tmp_path / "clean", ((work, [text]) for work, text in works.items()))


def test_the_longest_passage_of_test_in_train_is_named_with_both_works_before_and_after(corpus):
    folder, table = corpus
    chosen = split(0.8, 0.1, 0.1, duplicates="remove")
    found = report(folder, table, divide(folder, table, chosen), chosen)
    before, after = (found["test"]["longest"][when] for when in ("before", "after"))
    assert (before["work"], before["of_train"]) == ("poems/Блок/a", "prose/Чехов/b")
    assert before["chars"] >= len(PASSAGE)
    assert PASSAGE[:90] in before["text"]
    assert after is None or after["chars"] < chosen.duplicate_chars
    for n in ("32", "64"):
        assert found["test"]["in_train"]["before"][n] > 0
        assert found["test"]["in_train"]["after"][n] == 0
    assert found["val"]["longest"]["before"] is None or found["val"]["longest"]["before"]["chars"] < 31
    assert json.loads(json.dumps(found)) == found
    keep = split(0.8, 0.1, 0.1)
    found = report(folder, table, divide(folder, table, keep), keep)
    for name in ("val", "test"):
        for key in ("in_train", "longest"):
            assert found[name][key]["before"] == found[name][key]["after"]
    assert found["test"]["longest"]["after"] == before


def test_the_report_counts_categories_decades_and_authors(tmp_path):
    works = [
        (Document("poems", "Blok", "a", "1799-1803"), "x" * 10),
        (Document("poems", "Blok", "b", "1850"), "x" * 10),
        (Document("poems", "NA", "c", "1857"), "x" * 20),
        (Document("prose", "-", "d"), "x" * 10),
    ]
    table, chosen = write_collection(tmp_path, works), split(0.8, 0.2, 0)
    found = report(tmp_path, table, rows_of(spans(table, chosen)), chosen)
    assert {name: {key: part[key] for key in list(part)[:5]} for name, part in found.items()} == {
        name: {
            "chars": 5 * n,
            "distance": {"author": 0.0, "category": 0.0, "decade": 0.0},
            "categories": [{"category": "poems", "chars": 4 * n}, {"category": "prose", "chars": n}],
            "decades": {"1790s": n, "1850s": 3 * n, "-": n},
            "authors": [
                {"category": "poems", "author": "Blok", "chars": 2 * n},
                {"category": "poems", "author": "NA", "chars": 2 * n},
                {"category": "prose", "author": "-", "chars": n},
            ],
        }
        for name, n in (("train", 8), ("val", 2))
    }


def test_the_distance_is_that_of_the_whole_where_no_author_is_common(tmp_path):
    works = [(Document("prose", author, "w", year), "x" * 100) for author, year in (("A", "1850"), ("B", "1899"))]
    table, chosen = write_collection(tmp_path, works), split(0.5, 0.5, 0, "by_author")
    apart = report(tmp_path, table, rows_of(spans(table, chosen)), chosen)
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
    assert told([810, 190], split(0.8, 0.2, 0, "by_work")) == []
    assert len(told([850, 150], split(0.8, 0.2, 0, "by_work"))) == 1
