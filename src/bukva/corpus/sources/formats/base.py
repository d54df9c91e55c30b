"""The types that all readers share: the file that a reader takes, the texts that it yields, and the error it raises.

A reader is a function that takes an unread file and yields the texts in it. A text is read while its pieces are
consumed, so it can be larger than the memory if its file type can be read in pieces.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from bukva.core.errors import BukvaError
from bukva.corpus.sources.formats.encodings import BadEncodingError, decode, detect_encoding

# Limit for everything that is parsed as a whole: HTML, Markdown, a chapter of an epub. The longest novels have 4 MB.
MAX_WHOLE_BYTES = 16 << 20
NO_TEXTS = "files_not_texts"  # kind of error for a file whose content shows that it is not meant to contain texts
MAX_METADATA_CHARS = 100  # of a title, author or year
MARKUP = re.compile(r"\s*(\{\\rtf|<!doctype html|<html|<\?xml|<FictionBook|%PDF)", re.IGNORECASE)
YEARS = re.compile(r"(?<!\d)(\d{4})(?:\s*[-–—]\s*(\d{4}))?(?!\d)")


def metadata_value(value: object) -> str:
    """Return a title, author or year as one short line. Return "" if it is neither a string nor an integer."""
    if isinstance(value, bool) or not isinstance(value, str | int):
        return ""
    return " ".join(str(value)[: 10 * MAX_METADATA_CHARS].split())[:MAX_METADATA_CHARS]


def year_of(*dates: str | None) -> str:
    """Return the year or range of years in the first date that contains one, or "" if none does."""
    for date in dates:
        if date and (match := YEARS.search(date)):
            return "-".join(filter(None, match.groups()))
    return ""


def printable(name: str) -> str:
    """Return a file name that a terminal can show, with bytes that are not UTF-8 escaped."""
    return name.encode(errors="backslashreplace").decode()


class BadTextError(BukvaError):
    """Error for a file or row without readable text.

    A download leaves out the file or row and counts it as a finding of this `kind`, unless download.strict is true.

    Args:
        display_name: path of the file, and number of the row, as the message shows them.
        why: what is wrong.
        advice: what to do; a sentence without its period.
        kind: one of KINDS in works.py.
    """

    def __init__(self, display_name: str, why: str, advice: str, kind: str = "files_unreadable") -> None:
        self.kind, self.name = kind, f"{printable(display_name)} ({why})"
        super().__init__(f"{printable(display_name)}: {why}. {advice}.")


@dataclass(frozen=True)
class TextFile:
    """A file that has not been read yet, and the options for reading it.

    Attributes:
        path: where the file is.
        display_name: its path as messages show it.
        encoding: a codec of Python, or `auto` to detect the encoding.
        column: text column, if the file is a table.
        note: called when something is guessed or left out, with a kind (KINDS in works.py) and a detail.
    """

    path: Path
    display_name: str
    encoding: str = "utf-8"
    column: str = "text"
    note: Callable[[str, str], None] = lambda _kind, _detail: None

    def note_left_out(self, counts: Mapping[str, int]) -> None:
        """Report how many parts of the file were left out, by the name of the part, if there are any."""
        if listed := ", ".join(f"{name}: {n}" for name, n in counts.items() if n):
            self.note("files_with_parts_left_out", listed)

    def pieces(self, open_bytes: Callable[[], IO[bytes]] | None = None) -> Iterator[str]:
        """Yield the text of the file in pieces, without a byte order mark.

        Args:
            open_bytes: opens the part of the file that contains the text; by default the whole file.

        Raises:
            BadTextError: the file cannot be read, or has another encoding.
        """
        open_bytes = open_bytes or (lambda: self.path.open("rb"))
        try:
            encoding = self.encoding
            if encoding == "auto":
                encoding = detect_encoding(open_bytes)
                if encoding != "utf-8":
                    self.note("files_in_detected_encoding", encoding)
            with open_bytes() as file:
                yield from decode(file, encoding)
        except OSError as error:
            raise self.unreadable(error) from None
        except BadEncodingError as error:
            advice = "Set download.encoding, convert the file (`iconv -f cp1251 -t utf-8`), or remove it"
            raise BadTextError(self.display_name, str(error), advice) from None

    def whole(self, advice: str = "Split it, or save it as .txt") -> str:
        """Return the whole text of a small file.

        Args:
            advice: the advice in the error for a larger file.

        Raises:
            BadTextError: the file cannot be read, has another encoding, or is larger than MAX_WHOLE_BYTES.
        """
        try:
            n_bytes = self.path.stat().st_size
        except OSError as error:
            raise self.unreadable(error) from None
        if n_bytes > MAX_WHOLE_BYTES:
            why = f"has {n_bytes} bytes, but the limit for this type is {MAX_WHOLE_BYTES}"
            raise BadTextError(self.display_name, why, advice)
        return "".join(self.pieces())

    def unreadable(self, error: OSError) -> BadTextError:
        """Return the error for a file that the operating system cannot read."""
        return BadTextError(self.display_name, f"cannot be read ({error.strerror or error})", "Check the file")


@dataclass(frozen=True)
class Text:
    """One text of a file, and the title, author, category and year in the file.

    Attributes:
        pieces: the text, read piece by piece.
        row: number of the row in a table, counted from 1; 0 if the file is a single text.
    """

    pieces: Iterable[str]
    row: int = 0
    title: str = ""
    author: str = ""
    category: str = ""
    year: str = ""


Reader = Callable[[TextFile], Iterator[Text]]
"""Yields the texts of a file: any number for a table, exactly one for every other type."""


def read_plain(file: TextFile) -> Iterator[Text]:
    """Yield the unchanged text of a file of any size. The file is never in memory as a whole."""
    yield Text(_pieces_with_markup_check(file) if file.path.suffix.lower() == ".txt" else file.pieces())


def _pieces_with_markup_check(file: TextFile) -> Iterator[str]:
    """Yield the text of a .txt. Report a file that begins like another type, such as a renamed document."""
    is_first = True
    for piece in file.pieces():
        if is_first and (match := MARKUP.match(piece)):
            file.note("texts_with_markup", match[1])
        is_first = False
        yield piece
