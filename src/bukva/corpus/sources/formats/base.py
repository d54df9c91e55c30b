"""What a reader of a file type takes and gives, and the errors of a file that has no readable text.

A reader is a function from a file that is not read yet to the texts in it. A text is read only while its pieces are
taken, so a text can be larger than the memory where the type allows it.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from bukva.core.errors import BukvaError
from bukva.corpus.sources.formats.encodings import BadEncodingError, decoded, detected

# A file that is parsed as a whole: HTML, Markdown, a chapter of an epub. The longest novels have 4 MB.
MAX_WHOLE_BYTES = 16 << 20
NO_TEXTS = "files_not_texts"  # the kind of error of a file that is not meant to have texts, as its content shows
MAX_NAME_CHARS = 100  # of what becomes a part of a work's name
MARKUP = re.compile(r"\s*(\{\\rtf|<!doctype html|<html|<\?xml|<FictionBook|%PDF)", re.IGNORECASE)
YEARS = re.compile(r"(?<!\d)(\d{4})(?:\s*[-–—]\s*(\d{4}))?(?!\d)")


def name_of(value: object) -> str:
    """Return a title, author or year of a file in one short line; empty if it is neither text nor a whole number."""
    if isinstance(value, bool) or not isinstance(value, str | int):
        return ""
    return " ".join(str(value)[: 10 * MAX_NAME_CHARS].split())[:MAX_NAME_CHARS]


def year_of(*dates: str | None) -> str:
    """Return the year, or the range of years, in the first of these dates that has one; empty if none has."""
    for date in dates:
        if date and (found := YEARS.search(date)):
            return "-".join(filter(None, found.groups()))
    return ""


def printable(name: str) -> str:
    """A file name that a terminal can show: bytes that are not UTF-8 are escaped."""
    return name.encode(errors="backslashreplace").decode()


class BadTextError(BukvaError):
    """A file or a row without readable text. A download leaves it out and counts it as of this `kind`, unless
    download.strict is true."""

    def __init__(self, place: str, why: str, advice: str, kind: str = "files_unreadable") -> None:
        self.kind, self.name = kind, f"{printable(place)} ({why})"
        super().__init__(f"{printable(place)}: {why}; {advice}.")


@dataclass(frozen=True)
class TextFile:
    """A file that is not read yet.

    `place` is its path as errors name it; `encoding` is a codec of Python, or auto; `column` is the text column of a
    table. `note` is called with what is guessed or left out: a kind (bukva.corpus.sources.works.KINDS) and a detail.
    """

    path: Path
    place: str
    encoding: str = "utf-8"
    column: str = "text"
    note: Callable[[str, str], None] = lambda _kind, _detail: None

    def note_left_out(self, counts: Mapping[str, int]) -> None:
        """Report how many parts of each name are left out; nothing where there are none."""
        if listed := ", ".join(f"{name}: {n}" for name, n in counts.items() if n):
            self.note("files_with_parts_left_out", listed)

    def pieces(self, opened: Callable[[], IO[bytes]] | None = None) -> Iterator[str]:
        """The characters of the file, a piece at a time, without a byte order mark.

        Args:
            opened: opens the bytes, where they are a part of the file.

        Raises:
            BadTextError: the file cannot be read or has another encoding.
        """
        opened = opened or (lambda: self.path.open("rb"))
        try:
            encoding = self.encoding
            if encoding == "auto":
                encoding = detected(opened)
                if encoding != "utf-8":
                    self.note("files_in_detected_encoding", encoding)
            with opened() as file:
                yield from decoded(file, encoding)
        except OSError as error:
            raise self.unreadable(error) from None
        except BadEncodingError as error:
            advice = "set download.encoding, convert the file (iconv -f cp1251 -t utf-8), or remove it"
            raise BadTextError(self.place, str(error), advice) from None

    def whole(self, advice: str = "divide it, or save it as .txt") -> str:
        """All characters of a small file.

        Args:
            advice: what to do with a larger one.

        Raises:
            BadTextError: as for pieces; or the file exceeds MAX_WHOLE_BYTES.
        """
        try:
            n_bytes = self.path.stat().st_size
        except OSError as error:
            raise self.unreadable(error) from None
        if n_bytes > MAX_WHOLE_BYTES:
            why = f"has {n_bytes} bytes, and a file of this type may have {MAX_WHOLE_BYTES}"
            raise BadTextError(self.place, why, advice)
        return "".join(self.pieces())

    def unreadable(self, error: OSError) -> BadTextError:
        """The error of a file that the operating system does not let us read."""
        return BadTextError(self.place, f"cannot be read ({error.strerror or error})", "check the file")


@dataclass(frozen=True)
class Text:
    """A text of a file, in pieces, with the title, author, category and year that the file gives.

    `row` is the place of the text in a table, counted from 1; 0 if the file is one text.
    """

    pieces: Iterable[str]
    row: int = 0
    title: str = ""
    author: str = ""
    category: str = ""
    year: str = ""


Reader = Callable[[TextFile], Iterator[Text]]
"""The texts of a file. A table gives any number of them, every other file one."""


def read_plain(file: TextFile) -> Iterator[Text]:
    """Plain text of any size: a file is one text, as it is, and never in memory as a whole."""
    yield Text(_noting_markup(file) if file.path.suffix.lower() == ".txt" else file.pieces())


def _noting_markup(file: TextFile) -> Iterator[str]:
    """The characters of a .txt; report one that begins like a file of another type, such as a document renamed."""
    is_first = True
    for piece in file.pieces():
        if is_first and (found := MARKUP.match(piece)):
            file.note("texts_with_markup", found[1])
        is_first = False
        yield piece
