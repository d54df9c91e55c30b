"""Types that the readers of all file formats share, and the reader of plain text."""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from bukva.core.errors import BukvaError
from bukva.corpus.sources.encodings import BadEncodingError, decode, detect_encoding

NO_TEXTS = "files_not_texts"  # `kind` of the error for a file whose content shows that it is not meant to contain texts
MAX_METADATA_CHARS = 100  # maximum length of a title, author or year
# matches the start of a file that is not plain text
MARKUP = re.compile(r"\s*(\{\\rtf|<!doctype html|<html|<\?xml|<FictionBook|%PDF)", re.IGNORECASE)
YEARS = re.compile(r"(?<!\d)(\d{4})(?:\s*[-–—]\s*(\d{4}))?(?!\d)")  # a year, or a range such as 1830-1833


def metadata_value(value: object) -> str:
    """Return a title, author or year as one short line, or "" if `value` is neither a string nor an integer."""
    if isinstance(value, bool) or not isinstance(value, str | int):
        return ""
    return " ".join(str(value)[: 10 * MAX_METADATA_CHARS].split())[:MAX_METADATA_CHARS]


def year_of(*dates: str | None) -> str:
    """Return the first year (1830) or range of years (1830-1833) in `dates`, or "" if no date contains a year."""
    found = (match for date in dates if date and (match := YEARS.search(date)))
    return next(("-".join(filter(None, match.groups())) for match in found), "")


def printable(name: str) -> str:
    """Return a file name that can be printed. Bytes that are not UTF-8 become escape sequences."""
    return name.encode(errors="backslashreplace").decode()


def short(error: object) -> str:
    """Return the start of an error message of a library as one line."""
    return " ".join(str(error).split())[:100]


class BadTextError(BukvaError):
    """Error for a file or row without readable text, which is left out and counted under `kind` (KINDS in works.py).

    `why` is a phrase that follows the name, such as `contains no text`. `advice` is a sentence without its period.
    """

    def __init__(self, display_name: str, why: str, advice: str, kind: str = "files_unreadable") -> None:
        self.kind, self.name, self.why = kind, printable(display_name), why
        super().__init__(f"{self.name}: {why}. {advice}.")


@dataclass(frozen=True)
class TextFile:
    """A file that has not been read yet, and the options for reading it."""

    path: Path
    display_name: str  # path of the file as messages show it
    encoding: str = "utf-8"  # name of a Python codec, or `auto` to detect the encoding
    column: str = "text"  # name of the column with the texts, if the file is a table
    # called with a key of KINDS in works.py, and a detail for the message, when something is guessed or left out
    note: Callable[[str, str], None] = lambda _kind, _detail: None

    def note_left_out(self, counts: Mapping[str, int]) -> None:
        """Report how many parts of the file were left out, by kind, such as 3 `notes`."""
        if listed := ", ".join(f"{name}: {n}" for name, n in counts.items() if n):
            self.note("files_with_parts_left_out", listed)

    def text(self, raw: bytes | None = None) -> str:
        """Return the decoded text of the file, or of `raw`, which is a file inside it, or raise a BadTextError."""
        try:
            raw = self.path.read_bytes() if raw is None else raw
            encoding = detect_encoding(raw) if self.encoding == "auto" else self.encoding
            text = decode(raw, encoding)
        except OSError as error:
            raise self.unreadable(error) from None
        except BadEncodingError as error:
            advice = "Set download.encoding, convert the file (`iconv -f cp1251 -t utf-8`), or remove it"
            raise BadTextError(self.display_name, str(error), advice) from None
        if encoding not in ("utf-8", self.encoding):
            self.note("files_in_detected_encoding", encoding)
        return text

    def unreadable(self, error: OSError) -> BadTextError:
        return BadTextError(self.display_name, f"cannot be read ({error.strerror or error})", "Check the file")


@dataclass(frozen=True)
class Text:
    """One text of a file, with its title, author, category and year. A value that the file does not contain is ""."""

    content: str
    row: int = 0  # number of the row in a table, from 1
    title: str = ""
    author: str = ""
    category: str = ""
    year: str = ""


# Function that yields the texts of a file: any number for a table, one for every other type. A bad row of a table is
# yielded as an error, and the rows after it are still read.
Reader = Callable[[TextFile], Iterator[Text | BadTextError]]


def read_plain(file: TextFile) -> Iterator[Text]:
    """Yield the unchanged text of a plain text file. A .txt that begins like another type is reported."""
    text = file.text()
    if file.path.suffix.lower() == ".txt" and (match := MARKUP.match(text)):
        file.note("texts_with_markup", match[1])
    yield Text(text)
