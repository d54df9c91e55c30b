"""Each row of a table is a text with the names that the row gives; a bad row does not hide the others."""

import csv
import json
from pathlib import Path

import pyarrow as pa
import pytest
from corpus.sources.formats.made import jsonl, parquet

from bukva.corpus.sources.formats import READERS, tables
from bukva.corpus.sources.formats.base import BadTextError, Text, TextFile


def rows(path: Path, column: str = "text") -> list[Text | str]:
    """Return the rows of a table: a text, or the message of its error."""
    read = READERS[path.suffix](TextFile(path, f"books/{path.name}", "utf-8", column))
    return [str(row) if isinstance(row, BadTextError) else row for row in read]


def texts(path: Path, column: str = "text") -> list[str]:
    return [row if isinstance(row, str) else row.content for row in rows(path, column)]


def file(path: Path, content: str | bytes) -> Path:
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def test_a_row_gives_its_text_and_names(tmp_path) -> None:
    row = {"text": "нет", "content": "Ёж\n", "title": "  Нос \n повесть ", "author": "Гоголь", "category": "prose"}
    row |= {"year": 1836, "x": []}
    expected = [Text("Ёж\n", 1, "Нос повесть", "Гоголь", "prose", "1836")]
    assert rows(jsonl(tmp_path / "a.jsonl", [row]), "content") == expected
    assert rows(parquet(tmp_path / "a.parquet", {key: [value] for key, value in row.items()}), "content") == expected


def test_the_names_of_columns_may_be_in_capital_letters_and_the_text_is_no_name(tmp_path) -> None:
    row = {"Title": "Ёж", " Author": "Гоголь", "YEAR": 1836}
    expected = [Text("Ёж", 1, "", "Гоголь", "", "1836")]
    assert rows(jsonl(tmp_path / "a.jsonl", [row]), "Title") == expected
    assert rows(file(tmp_path / "a.csv", "Title; Author;YEAR\nЁж;Гоголь;1836\n"), "Title") == expected
    assert rows(parquet(tmp_path / "a.parquet", {key: [value] for key, value in row.items()}), "Title") == expected


BAD_LINES = {
    "{": "is not JSON (Expecting property name enclosed in double quotes)",
    '{"text": ' + "9" * 5003 + "}": "is not JSON (too large or too deep)",
    "[]": "has no text in column 'text'",
    '{"text": " \\n"}': "has no text in column 'text'",
    '{"text": 7}': "has no text in column 'text'",
    '{"id": 7, "content": "x"}': "has no text in column 'text'; its columns are: id, content",
    '{"text": "\\ud83d"}': "contains half a character (a lone surrogate)",
    '{"text": "x\\u0000"}': "contains NUL (U+0000)",
}


def test_a_bad_line_is_an_error_of_its_own_and_an_empty_one_is_none(tmp_path) -> None:
    path = jsonl(tmp_path / "a.jsonl", [{"text": "раз"}, "", *BAD_LINES])
    with path.open("a", encoding="utf-8") as file:
        file.write('\r\n{"text": "два"}')
    bad = [
        f"books/a.jsonl, row {n}: {why}. Correct the row or remove it." for n, why in enumerate(BAD_LINES.values(), 3)
    ]
    assert texts(path) == ["раз", *bad, "два"]


def test_bad_rows_of_a_table_are_errors_of_their_own(tmp_path) -> None:
    bad = ["books/a.parquet, row 2: is not UTF-8. Correct the row or remove it."]
    bad += [f"books/a.parquet, row {n}: has no text in column 'text'. Correct the row or remove it." for n in (3, 4)]
    column = pa.array([b"a", b"\xff", b"", None, b"b"], pa.binary()).view(pa.string())
    assert texts(parquet(tmp_path / "a.parquet", {"text": column})) == ["a", *bad, "b"]


def test_a_table_without_the_column_is_an_error_that_names_its_columns(tmp_path) -> None:
    table = parquet(tmp_path / "a.parquet", {"id": [1], "content": ["x"]})
    words = r"column 'text' is missing\. Set download\.text_column to a column of text \(columns: id, content\)"
    with pytest.raises(BadTextError, match=rf"^books/a\.parquet: {words}"):
        rows(table)
    with pytest.raises(BadTextError, match=r"column 'id' is int64\. Set download\.text_column to"):
        rows(table, "id")


def test_a_damaged_table_is_an_error(tmp_path) -> None:
    whole = parquet(tmp_path / "a.parquet", {"text": [f"строка {n}" for n in range(101)]}).read_bytes()
    path = tmp_path / "b.parquet"
    for raw in (b"", whole[: len(whole) // 2], whole[:-5], b"PAR1" + b"\xff" * 100 + b"PAR1"):
        path.write_bytes(raw)
        with pytest.raises(
            BadTextError, match=r"^books/b\.parquet: is damaged, or is not Parquet \(.+\)\. Write the file"
        ):
            rows(path)


# ---- .csv and .tsv

POEM = 'Раз,\nдва; "три"\t|четыре'


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
@pytest.mark.parametrize("line_end", ["\r\n", "\n", "\r"])
def test_a_table_is_read_with_the_delimiter_that_its_first_row_has(delimiter, line_end, tmp_path) -> None:
    path = tmp_path / "a.csv"
    with path.open("w", encoding="utf-8-sig", newline="") as written:
        writer = csv.writer(written, delimiter=delimiter, lineterminator=line_end)
        writer.writerows([["id", " text ", "author", "year"], [1, POEM, "Блок", 1908], [], ["2", "x", "", ""]])
    assert rows(path) == [Text(POEM, 1, "", "Блок", "", "1908"), Text("x", 2)]


def test_a_line_that_tells_excel_the_delimiter_is_no_row(tmp_path) -> None:
    assert texts(file(tmp_path / "a.csv", "sep=;\nid;text\n1;раз\n")) == ["раз"]


def test_a_table_of_one_column_has_no_delimiter(tmp_path) -> None:
    path = file(tmp_path / "a.csv", 'text\nраз, два; три\n"четыре,\nпять"\n')
    assert texts(path) == ["раз, два; три", "четыре,\nпять"]


def test_quotes_in_a_tsv_are_a_part_of_its_texts_where_rows_would_be_wrong_otherwise(tmp_path) -> None:
    plain = 'id\ttext\n1\t"Да", - сказал он\n2\tнет"\n3\t"раз\n'
    assert texts(file(tmp_path / "a.tsv", plain)) == ['"Да", - сказал он', 'нет"', '"раз']
    assert texts(file(tmp_path / "b.tsv", 'id\ttext\n1\t"Да ""да""\nнет"\n')) == ['Да "да"\nнет']
    assert texts(file(tmp_path / "c.tsv", 'id\ttext\n1\t"Да ""да"""\n')) == ['Да "да"']


@pytest.mark.parametrize(("header", "name"), [("text,id,text", "text"), ("text,Author,author", "author")])
def test_two_columns_of_one_name_are_an_error(header, name, tmp_path) -> None:
    with pytest.raises(BadTextError, match=rf"^books/a\.csv: has several columns '{name}'\. Rename all but one"):
        rows(file(tmp_path / "a.csv", f"{header}\na,b,c\n"))
    assert texts(file(tmp_path / "b.csv", "text,x,x\na,b,c\n")) == ["a"]


def test_bad_rows_of_a_csv_are_errors_of_their_own(tmp_path) -> None:
    path = file(tmp_path / "a.csv", 'id,text\n1,раз\n2,a,b\n3,"x"y\n4\n5,\n6,два\n7,"open\n8,lost\n')
    why = {
        2: "has 3 cells, but the header has 2",
        3: "has invalid quotes (',' expected after '\"')",
        4: "has 1 cells, but the header has 2",
        5: "has no text in column 'text'",
        7: "has invalid quotes (unexpected end of data)",
    }
    bad = {number: f"books/a.csv, row {number}: {what}. Correct the row or remove it." for number, what in why.items()}
    assert texts(path) == ["раз", *(bad[n] for n in (2, 3, 4, 5)), "два", bad[7]]


def test_a_csv_without_the_column_names_its_columns_in_one_line(tmp_path) -> None:
    words = "has no column 'text'; its columns are: id, Text, a b. Set download.text_column to a column of text."
    with pytest.raises(BadTextError) as error:
        rows(file(tmp_path / "a.csv", 'id;Text;"a\nb"\n1;x;y\n'))
    assert (str(error.value), error.value.kind) == (f"books/a.csv: {words}", "files_not_texts")
    with pytest.raises(BadTextError, match="its columns are: none"):
        rows(file(tmp_path / "a.csv", ""))


# ---- .json


def test_a_text_that_is_a_list_of_lines_is_read_line_by_line(tmp_path) -> None:
    row = {"text": ["раз", "два"]}
    assert texts(file(tmp_path / "a.json", json.dumps([row, {"text": "три"}]))) == ["раз\nдва", "три"]
    assert texts(jsonl(tmp_path / "a.jsonl", [row])) == ["раз\nдва"]
    assert texts(parquet(tmp_path / "a.parquet", {"text": [["раз", "два"]]})) == ["раз\nдва"]
    for bad in ([], [1], ["раз", None]):
        assert "row 1: has no text in column 'text'" in texts(file(tmp_path / "a.json", json.dumps([{"text": bad}])))[0]


def test_a_list_of_texts_or_of_objects_is_a_table(tmp_path) -> None:
    poems = [{"text": "раз", "author": "Блок", "title": "А"}, {"text": ""}, {"text": "два", "lines": [1]}, 7]
    bad = [f"books/a.json, row {n}: has no text in column 'text'. Correct the row or remove it." for n in (2, 4)]
    expected = [Text("раз", 1, "А", "Блок"), bad[0], Text("два", 3), bad[1]]
    assert rows(file(tmp_path / "a.json", json.dumps(poems, indent=2))) == expected
    assert texts(file(tmp_path / "a.json", '\ufeff["раз", "два"]')) == ["раз", "два"]
    assert texts(file(tmp_path / "a.json", '{"text": "раз"}\n{"text": "два"}\n')) == ["раз", "два"]  # one on each line


def test_an_object_is_one_text_with_its_names(tmp_path) -> None:
    poem = {"text": "раз", "author": "Блок", "title": "А", "year": 1908, "category": "poems"}
    expected = [Text("раз", 0, "А", "Блок", "poems", "1908")]
    assert rows(file(tmp_path / "a.json", json.dumps(poem))) == expected
    assert "books/a.json: has no text in column 'text'. " in texts(file(tmp_path / "a.json", '{"text": 1}'))[0]


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (
            '{"name": "x", "version": 1}',
            "has no column 'text'; its columns are: name, version. Set download.text_column",
        ),
        ("[[1], 2]", "has no column 'text'; its columns are: none. Set"),
        ("7", "has no column 'text'; its columns are: none. Set"),
        ('{\n"text"}', "is not JSON (Expecting ':' delimiter, line 2). Correct it"),
        ("", "is not JSON (Expecting value, line 1). Correct it"),
        ("[" * 100_000, "is not JSON (too large or too deep). Correct it"),
    ],
    ids=range(6),
)
def test_json_without_texts_is_an_error_that_says_why(content, why, tmp_path) -> None:
    with pytest.raises(BadTextError) as error:
        rows(file(tmp_path / "a.json", content))
    assert str(error.value).startswith(f"books/a.json: {why}")


def test_a_large_json_is_an_error_with_the_command_that_divides_it(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(tables, "MAX_JSON_CHARS", 10)
    words = r"has more than 10 characters\. Convert it to \.jsonl with `jq -c '\.\[\]' FILE\.json > "
    with pytest.raises(BadTextError, match=words):
        rows(file(tmp_path / "a.json", '["123456789"'))
