"""Read tables: .csv, .tsv, .json, .jsonl (one JSON object per line) and .parquet. Each row contains one text.

One column contains the texts. If the columns title (or work), author, category and year exist, they describe the texts.
The names of these columns may be in upper or lower case. Other columns are ignored.
"""

import csv
import io
import json
import sys
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from bukva.corpus.sources.formats.base import NO_TEXTS, BadTextError, Text, TextFile, metadata_value, short
from bukva.corpus.sources.formats.encodings import NUL

if TYPE_CHECKING:
    import pyarrow.parquet as pq

METADATA_COLUMNS = ("title", "work", "author", "category", "year")
DELIMITERS = ",;\t|"
NO_DELIMITER = "\x1f"  # for a table with one column, whose text may contain any of DELIMITERS
MAX_JSON_CHARS = 1 << 28  # a parsed .json needs several times its size in memory
BATCH_ROWS = 64  # rows in memory at a time; few, because a row may be a book
BUFFER_BYTES = 1 << 20


def read_jsonl(file: TextFile) -> Iterator[Text | BadTextError]:
    """Yield the text of each line. The line number becomes the row number. Empty lines are skipped."""
    yield from _texts_of_lines(file.text(), file)


def _texts_of_lines(content: str, file: TextFile) -> Iterator[Text | BadTextError]:
    for number, line in enumerate(content.split("\n"), start=1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except (ValueError, RecursionError) as error:
            yield _bad_row(file, number, f"is not JSON ({_fault(error)})")
        else:
            yield _text_of(row, number, file)


def _fault(error: Exception) -> str:
    return error.msg if isinstance(error, json.JSONDecodeError) else "too large or too deep"


def read_json(file: TextFile) -> Iterator[Text | BadTextError]:
    """Yield the texts of a .json file that contains a string or object, or a list of strings and objects.

    A .json file with one object per line is read like .jsonl.
    """
    content = file.text()
    if len(content) > MAX_JSON_CHARS:
        advice = "Convert it to .jsonl with `jq -c '.[]' FILE.json > FILE.jsonl`"
        raise BadTextError(file.display_name, f"has more than {MAX_JSON_CHARS} characters", advice)
    try:
        value = json.loads(content)
    except (ValueError, RecursionError) as error:
        if isinstance(error, json.JSONDecodeError) and error.msg == "Extra data":
            yield from _texts_of_lines(content, file)
            return
        line = f", line {error.lineno}" if isinstance(error, json.JSONDecodeError) else ""
        why = f"is not JSON ({_fault(error)}{line})"
        raise BadTextError(file.display_name, why, "Correct it or remove it") from None
    rows = [
        {file.column: row} if isinstance(row, str) else row for row in (value if isinstance(value, list) else [value])
    ]
    objects = [row for row in rows if isinstance(row, Mapping)]
    if rows and not any(file.column in row for row in objects):
        raise _no_column(file, objects[0] if objects else ())
    for number, row in enumerate(rows, start=1):
        yield _text_of(row, number if isinstance(value, list) else 0, file)


def read_csv(file: TextFile) -> Iterator[Text | BadTextError]:
    """Yield the text of each row of a .csv or .tsv file, whose first row is the header.

    The row after the header has number 1, and empty rows are not counted. Quoted cells may contain line ends.
    """
    lines = io.StringIO(file.text(), newline=None).readlines()
    if lines and lines[0].startswith("sep="):  # this line declares the delimiter for Excel
        del lines[0]
    delimiter = _delimiter(lines, file.column)
    records = _records(lines, delimiter, _quoting(lines, delimiter))
    header = _header(records)
    if file.column not in header:
        raise _no_column(file, header)
    names = [cell if cell == file.column else cell.lower() for cell in header]
    if twice := [name for name in names if name in (file.column, *METADATA_COLUMNS) and names.count(name) > 1]:
        raise BadTextError(file.display_name, f"has several columns {twice[0]!r}", "Rename all but one of them")
    for number, record in enumerate(records, start=1):
        if isinstance(record, csv.Error):
            yield _bad_row(file, number, f"has invalid quotes ({record})")
        elif len(record) != len(header):
            yield _bad_row(file, number, f"has {len(record)} cells, but the header has {len(header)}")
        else:
            yield _text_of(dict(zip(header, record, strict=True)), number, file)


def _records(lines: Iterable[str], delimiter: str, quoting: Any = csv.QUOTE_MINIMAL) -> Iterator[list[str] | csv.Error]:
    """Yield each row as a list of cells."""
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


def _header(records: Iterator[list[str] | csv.Error]) -> list[str]:
    record = next(records, [])
    return [] if isinstance(record, csv.Error) else [cell.strip() for cell in record]


def _delimiter(lines: list[str], column: str) -> str:
    """Guess the delimiter of a table from its header."""
    headers = {char: _header(_records(lines, char)) for char in DELIMITERS}
    if all(header == [column] for header in headers.values()):
        return NO_DELIMITER
    return max(headers, key=lambda char: (column in headers[char], len(headers[char])))


def _quoting(lines: list[str], delimiter: str) -> int:
    """Return csv.QUOTE_NONE if quotes are part of the texts, or csv.QUOTE_MINIMAL if quotes enclose cells."""

    def n_invalid(quoting: int) -> int:
        records = _records(lines, delimiter, quoting)
        n_columns = len(_header(records))
        return sum(isinstance(record, csv.Error) or len(record) != n_columns for record in records)

    if delimiter != "\t" or n_invalid(csv.QUOTE_MINIMAL) <= n_invalid(csv.QUOTE_NONE):
        return csv.QUOTE_MINIMAL
    return csv.QUOTE_NONE


def _no_column(file: TextFile, columns: Iterable[str]) -> BadTextError:
    why = f"has no column {file.column!r}; its columns are: {_listed(columns)}"
    return BadTextError(file.display_name, why, "Set download.text_column to a column of text", NO_TEXTS)


def _listed(columns: Iterable[str]) -> str:
    return " ".join(", ".join(columns).split())[:200] or "none"


def read_parquet(file: TextFile) -> Iterator[Text | BadTextError]:
    """Yield the text of each row of a .parquet file. Only BATCH_ROWS rows and one page are in memory at a time."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        with file.path.open("rb") as raw, pq.ParquetFile(raw, buffer_size=BUFFER_BYTES, pre_buffer=False) as table:
            yield from _rows(table, file)
    except (pa.ArrowException, OSError) as error:  # pyarrow raises both for a damaged file
        if isinstance(error, OSError) and error.errno:
            raise file.unreadable(error) from None
        why = f"is damaged, or is not Parquet ({short(error)})"
        raise BadTextError(file.display_name, why, "Write the file again") from None


def _rows(table: "pq.ParquetFile", file: TextFile) -> Iterator[Text | BadTextError]:
    schema = table.schema_arrow
    kind = str(schema.field(file.column).type) if file.column in schema.names else "missing"
    if "string" not in kind:
        why = f"column {file.column!r} is {kind}"
        known = ", ".join(schema.names)[:200] or "none"
        raise BadTextError(file.display_name, why, f"Set download.text_column to a column of text (columns: {known})")
    others = (name for name in schema.names if name != file.column)
    columns = [file.column, *(name for name in others if name.strip().lower() in METADATA_COLUMNS)]
    number = 0
    for batch in table.iter_batches(BATCH_ROWS, columns=columns, use_threads=False):
        for index in range(batch.num_rows):
            number += 1
            try:
                row = {name: batch.column(name)[index].as_py() for name in columns}
            except UnicodeDecodeError:
                yield _bad_row(file, number, "is not UTF-8")
            else:
                yield _text_of(row, number, file)


def _text_of(row: Any, number: int, file: TextFile) -> Text | BadTextError:
    text = row.get(file.column) if isinstance(row, Mapping) else None
    if isinstance(text, list) and all(isinstance(line, str) for line in text):
        text = "\n".join(text)  # lines or paragraphs
    if not isinstance(text, str) or not text.strip():
        missing = isinstance(row, Mapping) and file.column not in row
        columns = f"; its columns are: {_listed(row)}" if missing else ""
        return _bad_row(file, number, f"has no text in column {file.column!r}{columns}")
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
