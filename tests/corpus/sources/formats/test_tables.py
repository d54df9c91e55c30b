"""Each row of a table is a text with the names that the row gives; a bad row does not hide the others."""

import csv
import json
from pathlib import Path

import pyarrow as pa
import pytest
from corpus.sources.formats.made import file, jsonl, parquet

from bukva.corpus.sources.formats import READERS, tables
from bukva.corpus.sources.formats.base import BadTextError, Text, TextFile


def rows(path: Path, column: str = "text") -> list[Text | str]:
    """Return the rows of a table: a text, or the message of its error without the advice."""
    read = READERS[path.suffix](TextFile(path, f"books/{path.name}", "utf-8", column))
    bad = ". Correct the row or remove it."
    return [str(row).removesuffix(bad) if isinstance(row, BadTextError) else row for row in read]


def texts(path: Path, column: str = "text") -> list[str]:
    return [row if isinstance(row, str) else row.content for row in rows(path, column)]


def fails(words: str, path: Path, column: str = "text") -> None:
    with pytest.raises(BadTextError, match=words):
        rows(path, column)


def as_table(folder: Path, kind: str, row: dict[str, object]) -> Path:
    if kind == "csv":
        return file(folder / "a.csv", f"{';'.join(row)}\n{';'.join(map(str, row.values()))}\n")
    columns = {key: [value] for key, value in row.items()}
    return jsonl(folder / "a.jsonl", [row]) if kind == "jsonl" else parquet(folder / "a.parquet", columns)


@pytest.mark.parametrize("kind", ["jsonl", "parquet", "csv"])
def test_a_row_gives_its_text_and_names_whose_columns_may_be_in_capital_letters(kind, tmp_path) -> None:
    row = {"text": "нет", "content": "Ёж", "title": "  Нос   повесть ", "author": "Гоголь", "category": "prose"}
    row |= {"year": 1836, "x": 7}
    expected = [Text("Ёж", 1, "Нос повесть", "Гоголь", "prose", "1836")]
    assert rows(as_table(tmp_path, kind, row), "content") == expected
    capital = {"Title": "Ёж", " Author": "Гоголь", "YEAR": 1836}  # the text is no name
    assert rows(as_table(tmp_path, kind, capital), "Title") == [Text("Ёж", 1, "", "Гоголь", "", "1836")]


BAD_LINES = {
    "{": "is not JSON (Expecting property name enclosed in double quotes)",
    '{"text": ' + "9" * 5003 + "}": "is not JSON (too large or too deep)",
    '{"text": " \\n"}': "has no text in column 'text'",
    '{"id": 7, "content": "x"}': "has no text in column 'text'",
    '{"text": "\\ud83d"}': "contains half a character (a lone surrogate)",
    '{"text": "x\\u0000"}': "contains NUL (U+0000)",
}


def test_bad_rows_are_errors_of_their_own_and_an_empty_line_is_none(tmp_path) -> None:
    path = jsonl(tmp_path / "a.jsonl", [{"text": "раз"}, "", *BAD_LINES, '\r\n{"text": "два"}'])
    bad = [f"books/a.jsonl, row {n}: {why}" for n, why in enumerate(BAD_LINES.values(), 3)]
    assert texts(path) == ["раз", *bad, "два"]
    column = pa.array([b"a", b"\xff", b"", None, b"b"], pa.binary()).view(pa.string())
    bad = ["books/a.parquet, row 2: is not UTF-8"]
    bad += [f"books/a.parquet, row {n}: has no text in column 'text'" for n in (3, 4)]
    assert texts(parquet(tmp_path / "a.parquet", {"text": column})) == ["a", *bad, "b"]


def test_a_parquet_without_the_column_or_damaged_is_an_error(tmp_path) -> None:
    table = parquet(tmp_path / "a.parquet", {"id": [1], "content": ["x"]})
    fails(r"^books/a\.parquet: has no column 'text'; its columns are: id, content\. Set download\.text_column", table)
    fails(r"column 'id' is int64\. Set download\.text_column to a column of text \(columns: id, content\)", table, "id")
    whole = parquet(tmp_path / "a.parquet", {"text": [f"строка {n}" for n in range(101)]}).read_bytes()
    for raw in (b"", whole[: len(whole) // 2], whole[:-5], b"PAR1" + b"\xff" * 100 + b"PAR1"):
        words = r"^books/b\.parquet: is damaged, or is not Parquet \(.+\)\. Write the file"
        fails(words, file(tmp_path / "b.parquet", raw))


POEM = 'Раз,\nдва; "три"\t|четыре'


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
@pytest.mark.parametrize("line_end", ["\r\n", "\n", "\r"])
def test_a_table_is_read_with_the_delimiter_that_its_first_row_has(delimiter, line_end, tmp_path) -> None:
    path = tmp_path / "a.csv"
    with path.open("w", encoding="utf-8-sig", newline="") as written:
        writer = csv.writer(written, delimiter=delimiter, lineterminator=line_end)
        writer.writerows([["id", " text ", "author", "year"], [1, POEM, "Блок", 1908], [], ["2", "x", "", ""]])
    assert rows(path) == [Text(POEM, 1, "", "Блок", "", "1908"), Text("x", 2)]


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("sep=;\nid;text\n1;раз\n", ["раз"]),  # this line tells Excel the delimiter
        ('text\nраз, два; три\n"четыре,\nпять"\n', ["раз, два; три", "четыре,\nпять"]),  # one column, no delimiter
        # quotes are a part of the texts where rows would be wrong otherwise
        ('id\ttext\n1\t"Да", - сказал он\n2\tнет"\n3\t"раз\n', ['"Да", - сказал он', 'нет"', '"раз']),
        ('id\ttext\n1\t"Да ""да""\nнет"\n', ['Да "да"\nнет']),
        ("text,x,x\na,b,c\n", ["a"]),
    ],
    ids=range(5),
)
def test_delimiters_and_quotes_are_found_by_what_fits_the_table(content, expected, tmp_path) -> None:
    assert texts(file(tmp_path / "a.tsv", content)) == expected


def test_bad_rows_and_columns_of_a_csv_are_errors_of_their_own(tmp_path) -> None:
    path = file(tmp_path / "a.csv", 'id,text\n1,раз\n2,a,b\n3,"x"y\n4\n5,\n6,два\n7,"open\n8,lost\n')
    why = {
        2: "has 3 cells, but the header has 2",
        3: "has invalid quotes (',' expected after '\"')",
        4: "has 1 cells, but the header has 2",
        5: "has no text in column 'text'",
        7: "has invalid quotes (unexpected end of data)",
    }
    bad = {number: f"books/a.csv, row {number}: {what}" for number, what in why.items()}
    assert texts(path) == ["раз", *(bad[n] for n in (2, 3, 4, 5)), "два", bad[7]]
    fails(r"has several columns 'text'\. Rename all but", file(path, "text,id,text\na,b,c\n"))
    words = r"^books/a\.csv: has no column 'text'; its columns are: id, Text, a b\. Set download\.text_column to"
    fails(words, file(path, 'id;Text;"a\nb"\n1;x;y\n'))
    fails("its columns are: none", file(path, ""))


def test_a_text_that_is_a_list_of_lines_is_read_line_by_line(tmp_path) -> None:
    row = {"text": ["раз", "два"]}
    assert texts(file(tmp_path / "a.json", json.dumps([row, {"text": "три"}]))) == ["раз\nдва", "три"]
    assert texts(parquet(tmp_path / "a.parquet", {"text": [["раз", "два"]]})) == ["раз\nдва"]
    for bad in ([], [1], ["раз", None]):
        assert "row 1: has no text in column 'text'" in texts(file(tmp_path / "a.json", json.dumps([{"text": bad}])))[0]


def test_a_list_of_texts_or_of_objects_is_a_table_and_an_object_is_one_text(tmp_path) -> None:
    poem = {"text": "раз", "author": "Блок", "title": "А", "year": 1908, "category": "poems"}
    path = file(tmp_path / "a.json", json.dumps([poem, {"text": ""}, {"text": "два", "lines": [1]}, 7], indent=2))
    bad = [f"books/a.json, row {n}: has no text in column 'text'" for n in (2, 4)]
    assert rows(path) == [Text("раз", 1, "А", "Блок", "poems", "1908"), bad[0], Text("два", 3), bad[1]]
    assert texts(file(path, '\ufeff["раз", "два"]')) == ["раз", "два"]
    assert texts(file(path, '{"text": "раз"}\n{"text": "два"}\n')) == ["раз", "два"]  # one on each line
    assert rows(file(path, json.dumps(poem))) == [Text("раз", 0, "А", "Блок", "poems", "1908")]
    assert texts(file(path, '{"text": 1}')) == ["books/a.json: has no text in column 'text'"]


@pytest.mark.parametrize("kind", ["jsonl", "json", "parquet"])
def test_a_nested_column_is_listed_and_read_and_a_name_with_a_dot_goes_first(kind, tmp_path) -> None:
    whole, none = {"title": "Нос", "doc": {"id": 7, "part": {"text": "раз"}}}, {"title": "Шинель", "doc": None}
    path = tmp_path / f"a.{kind}"

    def table(records: list[dict[str, object]]) -> Path:
        if kind == "parquet":
            return parquet(path, pa.Table.from_pylist(records).to_pydict())
        return jsonl(path, records) if kind == "jsonl" else file(path, json.dumps(records))

    bad = f"books/a.{kind}, row 2: has no text in column 'doc.part.text'"
    assert rows(table([whole, none]), "doc.part.text") == [Text("раз", 1, "Нос"), bad]
    for column in ("text", "doc", "doc.part", "title.doc"):
        words = (
            rf"has no column '{column}'; its columns are: title, doc\.id, doc\.part\.text\. Set download\.text_column"
        )
        fails(words, table([whole, whole]), column)
    assert texts(table([{"doc.text": "раз", "doc": {"id": 1}}]), "doc.text") == ["раз"]


@pytest.mark.parametrize(
    ("content", "why"),
    [
        ('{"name": "x", "v": 1}', r"has no column 'text'; its columns are: name, v\. Set download\.text_column"),
        ("7", r"has no column 'text'; its columns are: none\. Set"),
        ('{\n"text"}', r"is not JSON \(Expecting ':' delimiter, line 2\)\. Correct it"),
        ("[" * 100_000, r"is not JSON \(too large or too deep\)\. Correct it"),
        ("1" * 150_001, r"has more than 150000 characters\. Convert it to \.jsonl with `jq -c '\.\[\]' FILE\.json > "),
    ],
    ids=range(5),
)
def test_json_without_texts_is_an_error_that_says_why(content, why, tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(tables, "MAX_JSON_CHARS", 150_000)
    fails(rf"^books/a\.json: {why}", file(tmp_path / "a.json", content))
