"""JSON lines: each line is an object, and a row of a table."""

import json
from collections.abc import Iterator

from bukva.corpus.sources.formats.base import Text, TextFile, UnreadableError
from bukva.corpus.sources.formats.table import bad_row, text_of

MAX_LINE_CHARS = 1 << 24  # a line is parsed as a whole; the longest novels have 4 million characters


def read_jsonl(file: TextFile) -> Iterator[Text]:
    """The text of each line; a row has the number of its line. Empty lines are skipped.

    Raises:
        UnreadableError: the file cannot be read, or has a line of more than MAX_LINE_CHARS.
    """
    for number, line in enumerate(_lines(file), start=1):
        if line.strip():
            yield _text(line, number, file)


def _text(line: str, number: int, file: TextFile) -> Text:
    try:
        row = json.loads(line)
    except (ValueError, RecursionError) as error:
        why = error.msg if isinstance(error, json.JSONDecodeError) else "too large or too deep"
        return bad_row(file, number, f"is not JSON ({why})")
    if not isinstance(row, dict):
        return bad_row(file, number, f"is not an object with column {file.column!r}")
    return text_of(row, number, file)


def _lines(file: TextFile) -> Iterator[str]:
    rest = ""
    for piece in file.pieces():
        *lines, rest = (rest + piece).split("\n")
        yield from lines
        if len(rest) > MAX_LINE_CHARS:
            why = f"has a line of more than {MAX_LINE_CHARS} characters"
            raise UnreadableError(file.place, why, "write one JSON object on each line")
    yield rest
