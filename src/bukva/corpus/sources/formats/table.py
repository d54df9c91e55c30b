"""What the tables (.jsonl and .parquet) have in common: a row is a text, and some columns say what it is.

The columns title (or work), author, category and year are used where a row has them; others are ignored.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from bukva.corpus.sources.formats.base import BadRowError, Text, TextFile
from bukva.corpus.sources.formats.encodings import NUL

NAMES = ("title", "work", "author", "category", "year")
MAX_NAME_CHARS = 100  # of what becomes a part of a work's name


def text_of(row: Mapping[str, Any], number: int, file: TextFile) -> Text:
    """The text of a row, or a bad row if there is none."""
    text = row.get(file.column)
    if not isinstance(text, str) or not text.strip():
        return bad_row(file, number, f"has no text in column {file.column!r}")
    names = {key: _name(row.get(key)) for key in NAMES}
    try:
        "".join([text, *names.values()]).encode()
    except UnicodeEncodeError:  # JSON can write half of a character: "\ud83d"
        return bad_row(file, number, "contains half a character (a lone surrogate)")
    if NUL in text:
        return bad_row(file, number, "contains NUL (U+0000)")
    work = names.pop("work")
    title = names.pop("title") or work
    return Text([text], number, title, **names)


def bad_row(file: TextFile, number: int, why: str) -> Text:
    """A text whose pieces raise a BadRowError: only this row is left out, the next ones are read."""

    def pieces() -> Iterator[str]:
        yield from ()
        raise BadRowError(file.place, number, why)

    return Text(pieces(), number)


def _name(value: object) -> str:
    """A value of a table as a part of a work's name or as its year; empty if it is no name."""
    if isinstance(value, bool) or not isinstance(value, str | int):
        return ""
    return " ".join(str(value)[: 10 * MAX_NAME_CHARS].split())[:MAX_NAME_CHARS]
