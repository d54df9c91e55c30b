"""Read tables: .csv, .tsv, .json, .jsonl (one JSON object per line) and .parquet. Each row contains one text.

One column contains the texts. If the columns title (or work), author, category and year exist, they describe the texts.
The names of these columns may be in upper or lower case. Other columns are ignored. All file types except .json are
read row by row.
"""

import csv
import io
import itertools
import json
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from bukva.corpus.sources.formats.base import NO_TEXTS, BadTextError, Text, TextFile, metadata_value
from bukva.corpus.sources.formats.encodings import NUL

if TYPE_CHECKING:
    import pyarrow.parquet as pq

METADATA_COLUMNS = ("title", "work", "author", "category", "year")
# Maximum length of a line or cell, which is parsed as a whole. The longest novels have 4 million characters.
MAX_LINE_CHARS = 1 << 24
MAX_SAMPLE_CHARS = 1 << 20  # length of the sample from which the delimiter and the use of quotes are guessed
DELIMITERS = ",;\t|"
NO_DELIMITER = "\x1f"  # for a table with one column, whose text may contain any of DELIMITERS
BATCH_ROWS = 64  # rows in memory at a time; few, because a row may be a book
BUFFER_BYTES = 1 << 20


def read_jsonl(file: TextFile) -> Iterator[Text]:
    """Yield the text of each line. The line number becomes the row number. Empty lines are skipped.

    Raises:
        BadTextError: the file cannot be read, or has a line of more than MAX_LINE_CHARS.
    """
    yield from _texts_of_lines(_lines(file.pieces(), file, "Write one JSON object per line"), file)


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
    """Yield the lines of a text without their line feeds."""
    rest = ""
    for piece in pieces:
        *lines, rest = (rest + piece).split("\n")
        yield from lines
        if len(rest) > MAX_LINE_CHARS:
            why = f"has a line of more than {MAX_LINE_CHARS} characters"
            raise BadTextError(file.display_name, why, advice)
    yield rest


def read_json(file: TextFile) -> Iterator[Text]:
    """Yield the texts of a .json file that contains a string or object, or a list of strings and objects.

    A .json file with one object per line is read like .jsonl.

    Raises:
        BadTextError: the file cannot be read, is larger than MAX_WHOLE_BYTES, is not JSON, or contains neither a string
            nor an object with the key `file.column`.
    """
    content = file.whole("Convert it to .jsonl with `jq -c '.[]' FILE.json > FILE.jsonl`")
    try:
        value = json.loads(content)
    except (ValueError, RecursionError) as error:
        if isinstance(error, json.JSONDecodeError) and error.msg == "Extra data":
            yield from _texts_of_lines(content.split("\n"), file)
            return
        why = (
            f"{error.msg}, line {error.lineno}" if isinstance(error, json.JSONDecodeError) else "too large or too deep"
        )
        raise BadTextError(file.display_name, f"is not JSON ({why})", "Correct it or remove it") from None
    rows = [
        {file.column: row} if isinstance(row, str) else row for row in (value if isinstance(value, list) else [value])
    ]
    objects = [row for row in rows if isinstance(row, Mapping)]
    if rows and not any(file.column in row for row in objects):
        raise _no_column(file, objects[0] if objects else ())
    for number, row in enumerate(rows, start=1):
        yield _text_of(row, number if isinstance(value, list) else 0, file)


def read_csv(file: TextFile) -> Iterator[Text]:
    """Yield the text of each row of a .csv or .tsv file, whose first row is the header.

    The delimiter and the use of quotes are guessed from the start of the file. The row after the header has number 1,
    and empty rows are not counted. Quoted cells may contain line ends.

    Raises:
        BadTextError: the file cannot be read, or has no text column.
    """
    decoder = io.IncrementalNewlineDecoder(None, translate=True)
    lines = _lines(map(decoder.decode, file.pieces()), file, "Check its quotes and line ends")
    n_chars, sample = 0, list[str]()
    for line in lines:
        sample.append(f"{line}\n")
        n_chars += len(line)
        if n_chars > MAX_SAMPLE_CHARS:
            break
    if sample and sample[0].startswith("sep="):  # this line declares the delimiter for Excel
        del sample[0]
    delimiter = _delimiter(sample, file.column)
    records = _records(itertools.chain(sample, (f"{line}\n" for line in lines)), delimiter, _quoting(sample, delimiter))
    header = _header(records)
    if file.column not in header:
        raise _no_column(file, header)
    known = [
        name
        for name in (cell if cell == file.column else cell.lower() for cell in header)
        if name in (file.column, *METADATA_COLUMNS)
    ]
    if twice := [name for name in known if known.count(name) > 1]:
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
    """Guess the delimiter of a table from its header."""
    headers = {char: _header(_records(sample, char)) for char in DELIMITERS}
    if all(header == [column] for header in headers.values()):
        return NO_DELIMITER
    return max(headers, key=lambda char: (column in headers[char], len(headers[char])))


def _quoting(sample: list[str], delimiter: str) -> int:
    """Return csv.QUOTE_NONE if quotes are part of the texts, or csv.QUOTE_MINIMAL if quotes enclose cells."""

    def n_invalid(quoting: int) -> int:
        records = _records(sample, delimiter, quoting)
        n_columns = len(_header(records))
        return sum(isinstance(record, csv.Error) or len(record) != n_columns for record in records)

    if delimiter != "\t" or n_invalid(csv.QUOTE_MINIMAL) <= n_invalid(csv.QUOTE_NONE):
        return csv.QUOTE_MINIMAL
    return csv.QUOTE_NONE


def _no_column(file: TextFile, columns: Iterable[str]) -> BadTextError:
    why = f"has no column {file.column!r}; its columns are: {_listed(columns)}"
    return BadTextError(file.display_name, why, "Set download.text_column to a column of text", NO_TEXTS)


def _no_text(file: TextFile, row: Any) -> str:
    """Return the reason why `row` has no text. If the text column is missing, the reason lists the columns."""
    missing = isinstance(row, Mapping) and file.column not in row
    return f"has no text in column {file.column!r}" + (f"; its columns are: {_listed(row)}" if missing else "")


def _listed(columns: Iterable[str]) -> str:
    return " ".join(", ".join(columns).split())[:200] or "none"


def read_parquet(file: TextFile) -> Iterator[Text]:
    """Yield the text of each row of a .parquet file.

    Only BATCH_ROWS rows and one page, a compressed block of the file, are in memory at a time. The size of a page
    depends on the program that wrote the file.

    Raises:
        BadTextError: the file cannot be read, is damaged, is not Parquet, or has no text column.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        with file.path.open("rb") as raw, pq.ParquetFile(raw, buffer_size=BUFFER_BYTES, pre_buffer=False) as table:
            yield from _rows(table, file)
    except (pa.ArrowException, OSError) as error:  # pyarrow raises both for a damaged file
        if isinstance(error, OSError) and error.errno:
            raise file.unreadable(error) from None
        why = f"is damaged, or is not Parquet ({' '.join(str(error).split())[:100]})"
        raise BadTextError(file.display_name, why, "Write the file again") from None


def _rows(table: "pq.ParquetFile", file: TextFile) -> Iterator[Text]:
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


def _text_of(row: Any, number: int, file: TextFile) -> Text:
    """Return the text and metadata of `row`. If the row is invalid, consuming its pieces raises a BadTextError."""
    text = row.get(file.column) if isinstance(row, Mapping) else None
    if isinstance(text, list) and all(isinstance(line, str) for line in text):
        text = "\n".join(text)  # lines or paragraphs
    if not isinstance(text, str) or not text.strip():
        return _bad_row(file, number, _no_text(file, row))
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
    return Text([text], number, title, **metadata)


def _bad_row(file: TextFile, number: int, why: str) -> Text:
    """Return a text for row `number`."""

    def pieces() -> Iterator[str]:
        yield from ()
        display_name = f"{file.display_name}, row {number}" if number else file.display_name
        raise BadTextError(display_name, why, "Correct the row or remove it", "bad_rows")

    return Text(pieces(), number)
