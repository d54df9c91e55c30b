"""Each row of a table is a text with the names that the row gives; a bad row does not hide the others."""

import json
from pathlib import Path

import pyarrow as pa
import pytest
from corpus.sources.formats.made import jsonl, parquet
from hypothesis import given
from hypothesis import strategies as st

from bukva.corpus.sources.formats import jsonl as lines
from bukva.corpus.sources.formats.base import BadRowError, Text, TextFile, UnreadableError
from bukva.corpus.sources.formats.jsonl import read_jsonl
from bukva.corpus.sources.formats.parquet import BATCH_ROWS, read_parquet


def rows(path: Path, column: str = "text") -> list[Text]:
    """The texts of a table; each has its text, or the sentence of its error."""
    read = read_jsonl if path.suffix == ".jsonl" else read_parquet
    return [
        Text([content(text)], text.row, text.title, text.author, text.category, text.year)
        for text in read(TextFile(path, f"books/{path.name}", "utf-8", column))
    ]


def content(text: Text) -> str:
    try:
        return "".join(text.pieces)
    except BadRowError as error:
        return str(error)


def test_a_row_gives_its_text_and_names(tmp_path) -> None:
    row = {"text": "Ёж\n", "title": "  Нос \n повесть ", "author": "Гоголь", "category": "prose", "year": 1836, "x": []}
    expected = [Text(["Ёж\n"], 1, "Нос повесть", "Гоголь", "prose", "1836")]
    assert rows(jsonl(tmp_path / "a.jsonl", [row])) == expected
    table = parquet(tmp_path / "a.parquet", {key: [value] for key, value in row.items()})
    assert rows(table) == expected


def test_the_column_work_is_a_title_and_names_that_are_no_text_are_ignored(tmp_path) -> None:
    row = {"text": "x", "work": "Нос", "author": None, "category": ["a"], "year": True}
    assert rows(jsonl(tmp_path / "a.jsonl", [row])) == [Text(["x"], 1, "Нос")]
    assert rows(jsonl(tmp_path / "a.jsonl", [{"text": "x", "author": "a" * 5003}]))[0].author == "a" * 100


def test_another_column_can_hold_the_text(tmp_path) -> None:
    assert rows(jsonl(tmp_path / "a.jsonl", [{"text": "нет", "content": "да"}]), "content") == [Text(["да"], 1)]
    assert rows(parquet(tmp_path / "a.parquet", {"text": ["нет"], "content": ["да"]}), "content") == [Text(["да"], 1)]


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0")), max_size=5))
def test_every_text_of_json_lines_is_the_text_that_json_wrote(tmp_path_factory, texts) -> None:
    path = tmp_path_factory.mktemp("a") / "a.jsonl"
    path.write_text("".join(json.dumps({"text": f"x{text}"}) + "\n" for text in texts))
    assert [text.pieces for text in rows(path)] == [[f"x{text}"] for text in texts]


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("{", "is not JSON (Expecting property name enclosed in double quotes)"),
        ("not JSON", "is not JSON (Expecting value)"),
        ("[" * 100_003, "is not JSON (too large or too deep)"),
        ('{"text": ' + "9" * 5003 + "}", "is not JSON (too large or too deep)"),
        ("[]", "is not an object with column 'text'"),
        ("{}", "has no text in column 'text'"),
        ('{"text": null}', "has no text in column 'text'"),
        ('{"text": " \\n"}', "has no text in column 'text'"),
        ('{"text": 7}', "has no text in column 'text'"),
        ('{"text": "\\ud83d"}', "contains half a character (a lone surrogate)"),
        ('{"text": "x", "author": "\\ud83d"}', "contains half a character (a lone surrogate)"),
        ('{"text": "x\\u0000"}', "contains NUL (U+0000)"),
    ],
    ids=lambda value: ascii(value[:20]),
)
def test_a_bad_line_is_an_error_of_its_own(line, why, tmp_path) -> None:
    table = jsonl(tmp_path / "a.jsonl", [{"text": "раз"}, "", line, {"text": "два"}])
    bad = f"books/a.jsonl, row 3: {why}; correct the row or remove it."
    assert rows(table) == [Text(["раз"], 1), Text([bad], 3), Text(["два"], 4)]


def test_lines_may_end_with_carriage_returns_and_the_last_need_not_end(tmp_path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(b'\xef\xbb\xbf{"text": "a"}\r\n\r\n{"text": "b"}')
    assert rows(path) == [Text(["a"], 1), Text(["b"], 3)]


def test_a_line_above_the_bound_ends_the_file(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(lines, "MAX_LINE_CHARS", 5003)
    path = jsonl(tmp_path / "a.jsonl", [{"text": "раз"}, {"text": "x" * 3_000_017}])
    with pytest.raises(UnreadableError, match=r"^books/a\.jsonl: has a line of more than 5003 characters; write one"):
        rows(path)


def test_rows_of_all_groups_and_batches_are_read_in_their_order(tmp_path) -> None:
    texts = [f"{number}" for number in range(3 * BATCH_ROWS + 7)]
    found = rows(parquet(tmp_path / "a.parquet", {"text": texts}, row_group_size=101))
    assert [(text.pieces, text.row) for text in found] == [([text], n) for n, text in enumerate(texts, start=1)]


@pytest.mark.parametrize(
    "kind",
    [pa.string(), pa.large_string(), pa.dictionary(pa.int32(), pa.string())],
    ids=["short", "long", "dictionary"],
)
def test_text_of_any_arrow_type_is_read_and_rows_without_are_errors(kind, tmp_path) -> None:
    table = parquet(tmp_path / "a.parquet", {"text": pa.array(["раз", None, "", "два"], pa.string()).cast(kind)})
    bad = "books/a.parquet, row {}: has no text in column 'text'; correct the row or remove it."
    assert [text.pieces for text in rows(table)] == [["раз"], [bad.format(2)], [bad.format(3)], ["два"]]


def test_text_that_is_not_utf8_is_an_error_of_its_row(tmp_path) -> None:
    raw = pa.array([b"a", b"\xff", b"b"], pa.binary()).view(pa.string())
    bad = "books/a.parquet, row 2: is not UTF-8; correct the row or remove it."
    assert [text.pieces for text in rows(parquet(tmp_path / "a.parquet", {"text": raw}))] == [["a"], [bad], ["b"]]


def test_a_table_without_the_column_is_an_error_that_names_its_columns(tmp_path) -> None:
    table = parquet(tmp_path / "a.parquet", {"id": [1], "content": ["x"]})
    words = r"has no column 'text'; set download\.text_column to one of its columns \(id, content\)"
    with pytest.raises(UnreadableError, match=rf"^books/a\.parquet: {words}"):
        rows(table)
    with pytest.raises(UnreadableError, match=r"column 'id' has values of type int64; set download\.text_column to"):
        rows(table, "id")


def test_a_damaged_table_is_an_error_or_its_first_rows(tmp_path) -> None:
    whole = parquet(tmp_path / "a.parquet", {"text": [f"строка {n}" for n in range(101)]}).read_bytes()
    path = tmp_path / "b.parquet"
    for raw in (b"", b"x", whole[: len(whole) // 2], whole[:-5], b"PAR1" + b"\xff" * 100 + b"PAR1"):
        path.write_bytes(raw)
        with pytest.raises(UnreadableError, match=r"^books/b\.parquet: damaged, or not Parquet \(.+\); write the file"):
            rows(path)


def test_a_missing_file_is_reported(tmp_path) -> None:
    for name in ("a.jsonl", "a.parquet"):
        with pytest.raises(
            UnreadableError, match=rf"^books/{name}: cannot be read \(No such file or directory\); check"
        ):
            rows(tmp_path / name)
