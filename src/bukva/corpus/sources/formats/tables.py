"""Tables: .jsonl, where each line is an object, and .parquet. Each row is a text, read when its turn comes.

The columns title (or work), author, category and year are used where a row has them; others are ignored.
"""

import json
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from bukva.corpus.sources.formats.base import BadTextError, Text, TextFile, name_of
from bukva.corpus.sources.formats.encodings import NUL

if TYPE_CHECKING:
    import pyarrow.parquet as pq

NAMES = ("title", "work", "author", "category", "year")
MAX_LINE_CHARS = 1 << 24  # a line is parsed as a whole; the longest novels have 4 million characters
BATCH_ROWS = 64  # a row may be a book
BUFFER_BYTES = 1 << 20


def read_jsonl(file: TextFile) -> Iterator[Text]:
    """The text of each line; a row has the number of its line. Empty lines are skipped.

    Raises:
        BadTextError: the file cannot be read, or has a line of more than MAX_LINE_CHARS.
    """
    for number, line in enumerate(_lines(file), start=1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except (ValueError, RecursionError) as error:
            why = error.msg if isinstance(error, json.JSONDecodeError) else "too large or too deep"
            yield _bad_row(file, number, f"is not JSON ({why})")
            continue
        yield _text_of(row, number, file)


def _lines(file: TextFile) -> Iterator[str]:
    rest = ""
    for piece in file.pieces():
        *lines, rest = (rest + piece).split("\n")
        yield from lines
        if len(rest) > MAX_LINE_CHARS:
            why = f"has a line of more than {MAX_LINE_CHARS} characters"
            raise BadTextError(file.place, why, "write one JSON object on each line")
    yield rest


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
    columns = [file.column, *(name for name in NAMES if name in schema.names and name != file.column)]
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
        return _bad_row(file, number, f"has no text in column {file.column!r}")
    names = {key: name_of(row.get(key)) for key in NAMES}
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
        raise BadTextError(f"{file.place}, row {number}", why, "correct the row or remove it", "bad_rows")

    return Text(pieces(), number)
