"""Each row of a table is a text with the names that the row gives; a bad row does not hide the others."""

from pathlib import Path

import pyarrow as pa
import pytest
from corpus.sources.formats.made import jsonl, parquet

from bukva.corpus.sources.formats.base import BadTextError, Text, TextFile
from bukva.corpus.sources.formats.tables import read_jsonl, read_parquet


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
    except BadTextError as error:
        return str(error)


def test_a_row_gives_its_text_and_names(tmp_path) -> None:
    row = {"text": "нет", "content": "Ёж\n", "title": "  Нос \n повесть ", "author": "Гоголь", "category": "prose"}
    row |= {"year": 1836, "x": []}
    expected = [Text(["Ёж\n"], 1, "Нос повесть", "Гоголь", "prose", "1836")]
    assert rows(jsonl(tmp_path / "a.jsonl", [row]), "content") == expected
    assert rows(parquet(tmp_path / "a.parquet", {key: [value] for key, value in row.items()}), "content") == expected


BAD_LINES = {
    "{": "is not JSON (Expecting property name enclosed in double quotes)",
    '{"text": ' + "9" * 5003 + "}": "is not JSON (too large or too deep)",
    "[]": "has no text in column 'text'",
    '{"text": " \\n"}': "has no text in column 'text'",
    '{"text": 7}': "has no text in column 'text'",
    '{"text": "\\ud83d"}': "contains half a character (a lone surrogate)",
    '{"text": "x\\u0000"}': "contains NUL (U+0000)",
}


def test_a_bad_line_is_an_error_of_its_own_and_an_empty_one_is_none(tmp_path) -> None:
    path = jsonl(tmp_path / "a.jsonl", [{"text": "раз"}, "", *BAD_LINES])
    with path.open("a", encoding="utf-8") as file:
        file.write('\r\n{"text": "два"}')
    bad = [
        f"books/a.jsonl, row {n}: {why}; correct the row or remove it." for n, why in enumerate(BAD_LINES.values(), 3)
    ]
    assert [text.pieces for text in rows(path)] == [["раз"], *([each] for each in bad), ["два"]]


def test_bad_rows_of_a_table_are_errors_of_their_own(tmp_path) -> None:
    bad = ["books/a.parquet, row 2: is not UTF-8; correct the row or remove it."]
    bad += [f"books/a.parquet, row {n}: has no text in column 'text'; correct the row or remove it." for n in (3, 4)]
    texts = pa.array([b"a", b"\xff", b"", None, b"b"], pa.binary()).view(pa.string())
    found = rows(parquet(tmp_path / "a.parquet", {"text": texts}))
    assert [text.pieces for text in found] == [["a"], *([each] for each in bad), ["b"]]


def test_a_table_without_the_column_is_an_error_that_names_its_columns(tmp_path) -> None:
    table = parquet(tmp_path / "a.parquet", {"id": [1], "content": ["x"]})
    words = r"column 'text' is missing; set download\.text_column to a column of text \(columns: id, content\)"
    with pytest.raises(BadTextError, match=rf"^books/a\.parquet: {words}"):
        rows(table)
    with pytest.raises(BadTextError, match=r"column 'id' is int64; set download\.text_column to"):
        rows(table, "id")


def test_a_damaged_table_is_an_error(tmp_path) -> None:
    whole = parquet(tmp_path / "a.parquet", {"text": [f"строка {n}" for n in range(101)]}).read_bytes()
    path = tmp_path / "b.parquet"
    for raw in (b"", whole[: len(whole) // 2], whole[:-5], b"PAR1" + b"\xff" * 100 + b"PAR1"):
        path.write_bytes(raw)
        with pytest.raises(BadTextError, match=r"^books/b\.parquet: damaged, or not Parquet \(.+\); write the file"):
            rows(path)
