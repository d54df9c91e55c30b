"""Tables: .csv, .tsv, .json, .jsonl, where each line is an object, and .parquet. Each row is a text.

The columns title (or work), author, category and year are used where a row has them, also as Title or TITLE; others are
ignored. All types but .json are read row by row.
"""

import csv
import io
import itertools
import json
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from bukva.corpus.sources.formats.base import NO_TEXTS, BadTextError, Text, TextFile, name_of
from bukva.corpus.sources.formats.encodings import NUL

if TYPE_CHECKING:
    import pyarrow.parquet as pq

NAMES = ("title", "work", "author", "category", "year")
MAX_LINE_CHARS = 1 << 24  # a line, or a cell, is parsed as a whole; the longest novels have 4 million characters
MAX_SAMPLE_CHARS = 1 << 20  # from which the dialect of a .csv is guessed
DELIMITERS = ",;\t|"
NO_DELIMITER = "\x1f"  # for a table of one column, whose text may have any of them
BATCH_ROWS = 64  # a row may be a book
BUFFER_BYTES = 1 << 20


def read_jsonl(file: TextFile) -> Iterator[Text]:
    """The text of each line; a row has the number of its line. Empty lines are skipped.

    Raises:
        BadTextError: the file cannot be read, or has a line of more than MAX_LINE_CHARS.
    """
    yield from _texts_of_lines(_lines(file.pieces(), file, "write one JSON object on each line"), file)


def _texts_of_lines(lines: Iterable[str], file: TextFile) -> Iterator[Text]:
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except (ValueError, RecursionError) as error:
            why = error.msg if isinstance(error, json.JSONDecodeError) else "too large or too deep"
            yield _bad_row(file, number, f"is not JSON ({why})")
            continue
        yield _text_of(row, number, file)


def _lines(pieces: Iterable[str], file: TextFile, advice: str) -> Iterator[str]:
    rest = ""
    for piece in pieces:
        *lines, rest = (rest + piece).split("\n")
        yield from lines
        if len(rest) > MAX_LINE_CHARS:
            why = f"has a line of more than {MAX_LINE_CHARS} characters"
            raise BadTextError(file.place, why, advice)
    yield rest


def read_json(file: TextFile) -> Iterator[Text]:
    """The texts of a list of strings or of objects, or the one text of an object; also of an object on each line.

    Raises:
        BadTextError: the file cannot be read, is too large, is not JSON, or has no texts.
    """
    content = file.whole("write one object on each line of a .jsonl file: jq -c '.[]' FILE.json > FILE.jsonl")
    try:
        value = json.loads(content)
    except (ValueError, RecursionError) as error:
        if isinstance(error, json.JSONDecodeError) and error.msg == "Extra data":
            yield from _texts_of_lines(content.split("\n"), file)
            return
        why = (
            f"{error.msg}, line {error.lineno}" if isinstance(error, json.JSONDecodeError) else "too large or too deep"
        )
        raise BadTextError(file.place, f"is not JSON ({why})", "correct it or remove it") from None
    rows = [
        {file.column: row} if isinstance(row, str) else row for row in (value if isinstance(value, list) else [value])
    ]
    objects = [row for row in rows if isinstance(row, Mapping)]
    if rows and not any(file.column in row for row in objects):
        raise _no_column(file, objects[0] if objects else ())
    for number, row in enumerate(rows, start=1):
        yield _text_of(row, number if isinstance(value, list) else 0, file)


def read_csv(file: TextFile) -> Iterator[Text]:
    """The text of each row of a table whose first row names its columns.

    The delimiter is the one of DELIMITERS with which the first row has the text column. A row is counted without the
    first one, and may have line ends in quotes.

    Raises:
        BadTextError: the file cannot be read, or has no such column.
    """
    decoder = io.IncrementalNewlineDecoder(None, translate=True)
    lines = _lines(map(decoder.decode, file.pieces()), file, "check its quotes and line ends")
    n_chars, sample = 0, list[str]()
    for line in lines:
        sample.append(f"{line}\n")
        n_chars += len(line)
        if n_chars > MAX_SAMPLE_CHARS:
            break
    if sample and sample[0].startswith("sep="):  # for Excel
        del sample[0]
    delimiter = _delimiter(sample, file.column)
    records = _records(itertools.chain(sample, (f"{line}\n" for line in lines)), delimiter, _quoting(sample, delimiter))
    header = _header(records)
    if file.column not in header:
        raise _no_column(file, header)
    for number, record in enumerate(records, start=1):
        if isinstance(record, csv.Error):
            yield _bad_row(file, number, f"has a mistake in its quotes ({record})")
        elif len(record) != len(header):
            yield _bad_row(file, number, f"has {len(record)} cells, and the first row {len(header)}")
        else:
            yield _text_of(dict(zip(header, record, strict=True)), number, file)


def _records(lines: Iterable[str], delimiter: str, quoting: Any = csv.QUOTE_MINIMAL) -> Iterator[list[str] | csv.Error]:
    """The rows that are not empty; the error of a row with wrong quotes. An open quote takes all rows that follow."""
    csv.field_size_limit(MAX_LINE_CHARS)
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


def _delimiter(sample: list[str], column: str) -> str:
    """The delimiter with which the first row has the text column; else the one that gives most columns."""
    headers = {char: _header(_records(sample, char)) for char in DELIMITERS}
    if all(header == [column] for header in headers.values()):
        return NO_DELIMITER
    return max(headers, key=lambda char: (column in headers[char], len(headers[char])))


def _quoting(sample: list[str], delimiter: str) -> int:
    """Whether a cell of a .tsv may be in quotes: not if quotes are a part of its texts, so rows would be wrong."""

    def n_wrong(quoting: int) -> int:
        records = _records(sample, delimiter, quoting)
        n_columns = len(_header(records))
        return sum(isinstance(record, csv.Error) or len(record) != n_columns for record in records)

    if delimiter != "\t" or n_wrong(csv.QUOTE_MINIMAL) <= n_wrong(csv.QUOTE_NONE):
        return csv.QUOTE_MINIMAL
    return csv.QUOTE_NONE


def _no_column(file: TextFile, columns: Iterable[str]) -> BadTextError:
    why = f"has no column {file.column!r}; its columns are: {_names(columns)}"
    return BadTextError(file.place, why, "set download.text_column to a column of text", NO_TEXTS)


def _no_text(file: TextFile, row: Any) -> str:
    """Return why a row has no text; a line of .jsonl may lack the column, and then those that it has are named."""
    missing = isinstance(row, Mapping) and file.column not in row
    return f"has no text in column {file.column!r}" + (f"; its columns are: {_names(row)}" if missing else "")


def _names(columns: Iterable[str]) -> str:
    return " ".join(", ".join(columns).split())[:200] or "none"


def read_parquet(file: TextFile) -> Iterator[Text]:
    """The text of each row. A batch of rows is in memory, and a page of the file, which its writer chose.

    Raises:
        BadTextError: the file is damaged or no Parquet, or has no such column of text.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        with file.path.open("rb") as raw, pq.ParquetFile(raw, buffer_size=BUFFER_BYTES, pre_buffer=False) as table:
            yield from _rows(table, file)
    except (pa.ArrowException, OSError) as error:  # the library's own errors are of both kinds
        if isinstance(error, OSError) and error.errno:
            raise file.unreadable(error) from None
        why = f"damaged, or not Parquet ({' '.join(str(error).split())[:100]})"
        raise BadTextError(file.place, why, "write the file again") from None


def _rows(table: "pq.ParquetFile", file: TextFile) -> Iterator[Text]:
    schema = table.schema_arrow
    kind = str(schema.field(file.column).type) if file.column in schema.names else "missing"
    if "string" not in kind:
        why = f"column {file.column!r} is {kind}"
        known = ", ".join(schema.names)[:200] or "none"
        raise BadTextError(file.place, why, f"set download.text_column to a column of text (columns: {known})")
    columns = [file.column, *(name for name in schema.names if name.strip().lower() in NAMES and name != file.column)]
    number = 0
    for batch in table.iter_batches(BATCH_ROWS, columns=columns, use_threads=False):
        for place in range(batch.num_rows):
            number += 1
            try:
                row = {name: batch.column(name)[place].as_py() for name in columns}
            except UnicodeDecodeError:
                yield _bad_row(file, number, "is not UTF-8")
            else:
                yield _text_of(row, number, file)


def _text_of(row: Any, number: int, file: TextFile) -> Text:
    """The text of a row, or a bad row if there is none."""
    text = row.get(file.column) if isinstance(row, Mapping) else None
    if not isinstance(text, str) or not text.strip():
        return _bad_row(file, number, _no_text(file, row))
    cells = {str(name).strip().lower(): cell for name, cell in row.items() if name != file.column}
    names = {key: name_of(cells.get(key)) for key in NAMES}
    try:
        "".join([text, *names.values()]).encode()
    except UnicodeEncodeError:  # JSON can write half of a character: "\ud83d"
        return _bad_row(file, number, "contains half a character (a lone surrogate)")
    if NUL in text:
        return _bad_row(file, number, "contains NUL (U+0000)")
    work = names.pop("work")
    title = names.pop("title") or work
    return Text([text], number, title, **names)


def _bad_row(file: TextFile, number: int, why: str) -> Text:
    """A text whose pieces raise a BadTextError: only this row is left out, the next ones are read."""

    def pieces() -> Iterator[str]:
        yield from ()
        place = f"{file.place}, row {number}" if number else file.place
        raise BadTextError(place, why, "correct the row or remove it", "bad_rows")

    return Text(pieces(), number)
