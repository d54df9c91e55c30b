"""Read tables: .csv, .tsv, .json, .jsonl (one JSON object per line) and .parquet. Each row contains one text.

One column contains the texts. If the columns title (or work), author, category and year exist, they describe the texts.
The names of these columns may be in upper or lower case. Other columns are ignored. The column of the texts can be
nested: `doc.text` is the key `text` of the objects in column `doc`.
"""

import csv
import io
import json
import sys
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from bukva.corpus.sources.encodings import NUL
from bukva.corpus.sources.formats.base import NO_TEXTS, BadTextError, Text, TextFile, metadata_value, short

METADATA_COLUMNS = ("title", "work", "author", "category", "year")
DELIMITERS = ",;\t|"
NO_DELIMITER = "\x1f"  # for a table with one column, whose text may contain any of DELIMITERS
ABSENT = object()  # value of a column that a row does not have
MAX_NESTED = 9  # levels of nested objects whose columns a message lists
MAX_JSON_CHARS = 1 << 28  # a parsed .json needs several times its size in memory
JSON_SPACES = " \t\n\r"
TOO_LARGE = "too large or too deep"  # a number or nested lists in JSON
BATCH_ROWS = 64  # rows in memory at a time; few, because a row may be a book
BUFFER_BYTES = 1 << 20


def read_jsonl(file: TextFile, content: str | None = None) -> Iterator[Text | BadTextError]:
    """Yield the text of each line. The line number becomes the row number. Empty lines are skipped."""
    lines = (file.text() if content is None else content).split("\n")
    _check_column(file, (row for _, row in _parsed(lines) if not isinstance(row, Exception)))
    for number, row in _parsed(lines):
        if isinstance(row, Exception):
            yield _bad_row(file, number, f"is not JSON ({getattr(row, 'msg', TOO_LARGE)})")
        else:
            yield _text_of(row, number, file)


def _parsed(lines: Iterable[str]) -> Iterator[tuple[int, Any]]:
    """Yield the number of each line that is not empty, and its JSON or the exception that it raises."""
    for number, line in enumerate(lines, start=1):
        if line.strip():
            try:
                yield number, json.loads(line)
            except (ValueError, RecursionError) as error:
                yield number, error


def read_json(file: TextFile) -> Iterator[Text | BadTextError]:
    """Yield the texts of a .json with a string or object, or a list of them. With one on each line, it is a .jsonl."""
    content = file.text()
    if len(content) > MAX_JSON_CHARS:
        advice = "Convert it to .jsonl with `jq -c '.[]' FILE.json > FILE.jsonl`"
        raise BadTextError(file.display_name, f"has more than {MAX_JSON_CHARS} characters", advice)
    try:
        value, end = json.JSONDecoder().raw_decode(content, len(content) - len(content.lstrip(JSON_SPACES)))
    except (ValueError, RecursionError) as error:
        why = f"{error.msg}, line {error.lineno}" if isinstance(error, json.JSONDecodeError) else TOO_LARGE
        raise BadTextError(file.display_name, f"is not JSON ({why})", "Correct it or remove it") from None
    if content[end:].strip(JSON_SPACES):
        yield from read_jsonl(file, content)
        return
    is_list = isinstance(value, list)
    rows = [{file.column: row} if isinstance(row, str) else row for row in (value if is_list else [value])]
    _check_column(file, rows)
    for number, row in enumerate(rows, start=1):
        yield _text_of(row, number if is_list else 0, file)


def read_csv(file: TextFile) -> Iterator[Text | BadTextError]:
    """Yield the text of each row of a .csv or .tsv file, whose first row is the header.

    The row after the header has number 1, and empty rows are not counted. Quoted cells may contain line ends.
    """
    lines = io.StringIO(file.text(), newline=None).readlines()
    if lines and lines[0].startswith("sep="):  # this line declares the delimiter for Excel
        del lines[0]
    headers = {char: _cells(next(_records(lines, char), [])) for char in DELIMITERS}
    delimiter = max(headers, key=lambda char: (file.column in headers[char], len(headers[char])))
    if all(header == [file.column] for header in headers.values()):
        delimiter = NO_DELIMITER
    records = [*_records(lines, delimiter)]
    if delimiter == "\t":  # quotes may be part of the texts
        records = min(records, [*_records(lines, delimiter, csv.QUOTE_NONE)], key=_n_invalid)
    header = _cells(records[0]) if records else []
    if file.column not in header:
        raise _no_column(file, header)
    names = [cell if cell == file.column else cell.lower() for cell in header]
    if twice := [name for name in names if name in (file.column, *METADATA_COLUMNS) and names.count(name) > 1]:
        raise BadTextError(file.display_name, f"has several columns {twice[0]!r}", "Rename all but one of them")
    for number, record in enumerate(records[1:], start=1):
        if isinstance(record, csv.Error):
            yield _bad_row(file, number, f"has invalid quotes ({record})")
        elif len(record) != len(header):
            yield _bad_row(file, number, f"has {len(record)} cells, but the header has {len(header)}")
        else:
            yield _text_of(dict(zip(header, record, strict=True)), number, file)


def _records(lines: Iterable[str], delimiter: str, quoting: Any = csv.QUOTE_MINIMAL) -> Iterator[list[str] | csv.Error]:
    """Yield each row that is not empty as a list of cells, or as the error that it raises."""
    csv.field_size_limit(sys.maxsize)
    reader = csv.reader(lines, delimiter=delimiter, quoting=quoting, strict=True)
    while True:
        try:
            if record := next(reader):
                yield record
        except StopIteration:
            return
        except csv.Error as error:
            yield error


def _cells(record: list[str] | csv.Error) -> list[str]:
    return [] if isinstance(record, csv.Error) else [cell.strip() for cell in record]


def _n_invalid(records: list[list[str] | csv.Error]) -> int:
    """Return the number of records that are errors, or have another number of cells than the first one."""
    n_columns = len(_cells(records[0])) if records else 0
    return sum(isinstance(record, csv.Error) or len(record) != n_columns for record in records)


def _check_column(file: TextFile, rows: Iterable[Any]) -> None:
    """Raise a BadTextError if there are rows of JSON, but none of them has the column with the texts."""
    columns: list[str] | None = None
    for row in rows:
        if _cell(row, file.column) is not ABSENT:
            return
        columns = columns or [*_columns(row)]
    if columns is not None:
        raise _no_column(file, columns)


def _cell(row: Any, column: str) -> Any:
    """Return the value in a column, which may be nested, or ABSENT. A name that contains a dot goes first."""
    if not isinstance(row, Mapping):
        return ABSENT
    name, _, rest = column.partition(".")
    if column not in row:
        return _cell(row.get(name), rest) if rest else ABSENT
    return ABSENT if isinstance(row[column], Mapping) else row[column]


def _columns(row: Any, prefix: str = "") -> Iterator[str]:
    """Yield the names of the columns of a row, in nested objects such as `doc.text`."""
    for name, value in row.items() if isinstance(row, Mapping) else ():
        nested = isinstance(value, Mapping) and prefix.count(".") < MAX_NESTED
        yield from _columns(value, f"{prefix}{name}.") if nested else [f"{prefix}{name}"]


def _no_column(file: TextFile, columns: Iterable[str]) -> BadTextError:
    why = f"has no column {file.column!r}; its columns are: {_listed(columns)}"
    return BadTextError(file.display_name, why, "Set download.text_column to a column of text", NO_TEXTS)


def _listed(columns: Iterable[str]) -> str:
    return " ".join(", ".join(columns).split())[:200] or "none"


def read_parquet(file: TextFile) -> Iterator[Text | BadTextError]:
    """Yield the text of each row of a .parquet file. Only BATCH_ROWS rows and one page are in memory at a time."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    number = 0
    try:
        with file.path.open("rb") as raw, pq.ParquetFile(raw, buffer_size=BUFFER_BYTES, pre_buffer=False) as table:
            names, types = table.schema_arrow.names, dict(_types(table.schema_arrow))
            if file.column not in types:
                raise _no_column(file, types)
            if "string" not in (kind := str(types[file.column])):
                advice = f"Set download.text_column to a column of text (columns: {_listed(types)})"
                raise BadTextError(file.display_name, f"column {file.column!r} is {kind}", advice)
            others = (name for name in names if name != file.column)
            columns = [file.column, *(name for name in others if name.strip().lower() in METADATA_COLUMNS)]
            for batch in table.iter_batches(BATCH_ROWS, columns=columns, use_threads=False):
                for index in range(batch.num_rows):
                    number += 1
                    try:
                        row = {name: batch.column(name)[index].as_py() for name in batch.schema.names}
                    except UnicodeDecodeError:
                        yield _bad_row(file, number, "is not UTF-8")
                    else:
                        yield _text_of(row, number, file)
    except (pa.ArrowException, OSError) as error:  # pyarrow raises both for a damaged file
        if isinstance(error, OSError) and error.errno:
            raise file.unreadable(error) from None
        why = f"is damaged, or is not Parquet ({short(error)})"
        raise BadTextError(file.display_name, why, "Write the file again") from None


def _types(fields: Any, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the name and the type of each column of a .parquet, in structs such as `doc.text`."""
    for field in fields:
        name, nested = f"{prefix}{field.name}", str(field.type).startswith("struct<")
        yield from _types(field.type, f"{name}.") if nested else [(name, field.type)]


def _text_of(row: Any, number: int, file: TextFile) -> Text | BadTextError:
    text = _cell(row, file.column)
    if isinstance(text, list) and all(isinstance(line, str) for line in text):
        text = "\n".join(text)  # lines or paragraphs
    if not isinstance(text, str) or not text.strip():
        return _bad_row(file, number, f"has no text in column {file.column!r}")
    cells = {str(name).strip().lower(): cell for name, cell in row.items() if name != file.column}
    metadata = {key: metadata_value(cells.get(key)) for key in METADATA_COLUMNS}
    try:
        "".join([text, *metadata.values()]).encode()
    except UnicodeEncodeError:  # JSON may contain half of a character: "\ud83d"
        return _bad_row(file, number, "contains half a character (a lone surrogate)")
    if NUL in text:
        return _bad_row(file, number, "contains NUL (U+0000)")
    work = metadata.pop("work")
    title = metadata.pop("title") or work
    return Text(text, number, title, **metadata)


def _bad_row(file: TextFile, number: int, why: str) -> BadTextError:
    display_name = f"{file.display_name}, row {number}" if number else file.display_name
    return BadTextError(display_name, why, "Correct the row or remove it", "bad_rows")
