"""Types that the readers of all file formats share, and the reader of plain text.

A reader is a function that takes a file (`TextFile`) and yields the texts in the file (`Text`). The content of a text
is an iterable of strings, which are called pieces. A piece is read from the file when it is consumed. A text of some
file types, such as plain text, can therefore be larger than the memory.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from bukva.core.errors import BukvaError
from bukva.corpus.sources.formats.encodings import BadEncodingError, decode, detect_encoding

# Limit for everything that is read into memory as a whole, such as HTML, Markdown or one chapter of an epub. The
# longest novels have 4 MB.
MAX_WHOLE_BYTES = 16 << 20
NO_TEXTS = "files_not_texts"  # `kind` of the error for a file whose content shows that it is not meant to contain texts
MAX_METADATA_CHARS = 100  # maximum length of a title, author or year
# the start of a file that is not plain text
MARKUP = re.compile(r"\s*(\{\\rtf|<!doctype html|<html|<\?xml|<FictionBook|%PDF)", re.IGNORECASE)
# a year, or a range of years such as 1830-1833
YEARS = re.compile(r"(?<!\d)(\d{4})(?:\s*[-–—]\s*(\d{4}))?(?!\d)")


def metadata_value(value: object) -> str:
    """Return a title, author or year as one short line, or "" if `value` is neither a string nor an integer."""
    if isinstance(value, bool) or not isinstance(value, str | int):
        return ""
    return " ".join(str(value)[: 10 * MAX_METADATA_CHARS].split())[:MAX_METADATA_CHARS]


def year_of(*dates: str | None) -> str:
    """Return the first year (1830) or range of years (1830-1833) in `dates`, or "" if no date contains a year."""
    for date in dates:
        if date and (match := YEARS.search(date)):
            return "-".join(filter(None, match.groups()))
    return ""


def printable(name: str) -> str:
    """Return a file name that can be printed. Bytes that are not UTF-8 become escape sequences."""
    return name.encode(errors="backslashreplace").decode()


class BadTextError(BukvaError):
    """Error for a file or row without readable text.

    Stage download leaves out the file or row, and counts it under `kind`.

    Args:
        display_name: path of the file as the message shows it. For a row of a table, it has the form `path, row 3`.
        why: what is wrong with the file or row, as a phrase that follows the name, such as `contains no text`.
        advice: what to do, as a sentence without its period.
        kind: why the file or row is left out, as a key of KINDS in works.py.
    """

    def __init__(self, display_name: str, why: str, advice: str, kind: str = "files_unreadable") -> None:
        self.kind, self.name = kind, f"{printable(display_name)} ({why})"
        super().__init__(f"{printable(display_name)}: {why}. {advice}.")


@dataclass(frozen=True)
class TextFile:
    """A file that has not been read yet, and the options for reading it.

    Attributes:
        path: path of the file.
        display_name: path of the file as messages show it.
        encoding: name of a Python codec, or `auto` to detect the encoding.
        column: name of the column with the texts, if the file is a table.
        note: called when something is guessed or left out. Its arguments are a key of KINDS in works.py and a detail
            for the message.
    """

    path: Path
    display_name: str
    encoding: str = "utf-8"
    column: str = "text"
    note: Callable[[str, str], None] = lambda _kind, _detail: None

    def note_left_out(self, counts: Mapping[str, int]) -> None:
        """Call `note` if elements of the file were left out.

        `counts` gives the number of elements of each kind that were left out, such as 3 for `notes`.
        """
        if listed := ", ".join(f"{name}: {n}" for name, n in counts.items() if n):
            self.note("files_with_parts_left_out", listed)

    def pieces(self, open_bytes: Callable[[], IO[bytes]] | None = None) -> Iterator[str]:
        """Yield the decoded text of the file in pieces, without a byte order mark at its start.

        Args:
            open_bytes: opens the part of the file that contains the text, such as one file of a zip. By default, the
                whole file is the text.

        Raises:
            BadTextError: the file cannot be read, or its bytes are invalid in the encoding.
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
            advice: advice in the error for a file that is too large, as a sentence without its period.

        Raises:
            BadTextError: the file cannot be read, is larger than MAX_WHOLE_BYTES, or its bytes are invalid in the
                encoding.
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
        """Return a BadTextError that says why the operating system could not read the file."""
        return BadTextError(self.display_name, f"cannot be read ({error.strerror or error})", "Check the file")


@dataclass(frozen=True)
class Text:
    """One text of a file, with its title, author, category and year. A value that the file does not contain is "".

    Attributes:
        pieces: the text in pieces. They are read from the file while they are consumed.
        row: number of the row, counted from 1, if the file is a table. If the file is a single text, `row` is 0.
    """

    pieces: Iterable[str]
    row: int = 0
    title: str = ""
    author: str = ""
    category: str = ""
    year: str = ""


Reader = Callable[[TextFile], Iterator[Text]]
"""Function that yields the texts of a file: any number of texts for a table, one text for every other file type."""


def read_plain(file: TextFile) -> Iterator[Text]:
    """Yield the text of a plain text file. The text is unchanged, except for a byte order mark at its start.

    The file may be larger than the memory.
    """
    yield Text(_pieces_with_markup_check(file) if file.path.suffix.lower() == ".txt" else file.pieces())


def _pieces_with_markup_check(file: TextFile) -> Iterator[str]:
    """Yield the text of a .txt in pieces. Call `file.note` if the text begins like a file of another type."""
    is_first = True
    for piece in file.pieces():
        if is_first and (match := MARKUP.match(piece)):
            file.note("texts_with_markup", match[1])
        is_first = False
        yield piece
