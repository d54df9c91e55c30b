"""A collection of documents: one text, and the table that says which part of it is which work.

On disk it is text.txt, UTF-8, all works one after the other with nothing between them, and documents.parquet: one row
per work, sorted by (category, author, work) by code points. A category or author that the corpus does not give is `-`.
Neither file is ever in memory as a whole: a work is a stream of pieces, and can be larger than the memory.
"""

import codecs
import hashlib
import itertools
from collections.abc import Callable, Iterable, Iterator
from dataclasses import astuple, dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, NamedTuple

from bukva.core.errors import BukvaError
from bukva.core.files import PIECE_BYTES

if TYPE_CHECKING:
    import pandas as pd

MISSING = "-"
TEXT = "text.txt"
TABLE = "documents.parquet"
TYPES = {
    "category": "str",
    "author": "str",
    "work": "str",
    "year": "str",
    "start": "int64",  # position of the first character in text.txt
    "chars": "int64",
    "start_byte": "int64",
    "bytes": "int64",
    "sha256": "str",
}


@dataclass(frozen=True)
class Document:
    """Category, author and name of a text. The year is text, because it can be a range (1863-1869); None if unknown."""

    category: str
    author: str
    work: str
    year: str | None = None

    @property
    def key(self) -> tuple[str, str, str]:
        """What works are sorted by, and no two works of a collection have in common."""
        return self.category, self.author, self.work

    @property
    def name(self) -> str:
        """The work as messages name it."""
        return "/".join(self.key)


class _Row(NamedTuple):
    """A text in the file that is being written."""

    document: Document
    chars: int
    start_byte: int
    bytes: int
    sha256: str


class Utf8(NamedTuple):
    """A piece of text as it is on the disk, and how many characters it has."""

    raw: bytes
    chars: int


OnBad = Callable[[Document, BukvaError], None]


def write_collection(
    folder: Path, texts: Iterable[tuple[Document, Iterable[str | Utf8]]], on_bad: OnBad | None = None
) -> "pd.DataFrame":
    """Write the text and the table; returns it as read_table does.

    The caller makes sure that the folder appears complete or not at all (bukva.core.files.atomic_folder).

    Args:
        folder: made if it does not exist.
        texts: the works in any order, each as pieces of its text.
        on_bad: called with a work whose pieces raise a BukvaError; such a work is left out. Without it that is raised.

    Raises:
        BukvaError: two works have the same category, author and name.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / TEXT).open("wb") as file:
        written = [row for document, pieces in texts if (row := _write(file, document, pieces, on_bad))]
    rows = sorted(written, key=lambda row: row.document.key)
    for first, second in itertools.pairwise(row.document for row in rows):
        if first.key == second.key:
            raise BukvaError(f"{first.name}: two works have this name; rename one of them.")
    if rows != written:
        _reorder(folder / TEXT, rows)
    _table(rows).to_parquet(folder / TABLE, index=False)
    return read_table(folder)


def read_table(folder: Path) -> "pd.DataFrame":
    """The table of a collection: one row per work, sorted; only a year can be missing."""
    import pandas as pd

    return pd.read_parquet(folder / TABLE)


def documents(table: "pd.DataFrame") -> Iterator[Document]:
    """The rows of a table."""
    for category, author, work, year in table[["category", "author", "work", "year"]].itertuples(index=False):
        yield Document(category, author, work, year if isinstance(year, str) else None)


def read_texts(folder: Path, table: "pd.DataFrame") -> Iterator[tuple[Document, Iterator[str]]]:
    """The rows of a table, each with the pieces of its text, every character as it was written.

    A piece ends where a line ends, unless the line is longer than PIECE_BYTES. Take the pieces of a work before the
    next work.
    """
    for document, pieces in read_encoded(folder, table):
        yield document, map(bytes.decode, pieces)


def read_encoded(folder: Path, table: "pd.DataFrame") -> Iterator[tuple[Document, Iterator[bytes]]]:
    """The same in UTF-8."""
    with (folder / TEXT).open("rb") as file:
        for document, start, n_bytes in zip(documents(table), table["start_byte"], table["bytes"], strict=True):
            file.seek(start)
            yield document, _pieces(file, int(n_bytes))


def _pieces(file: IO[bytes], n_bytes: int) -> Iterator[bytes]:
    text = b""
    while n_bytes:
        raw = file.read(min(PIECE_BYTES, n_bytes))
        n_bytes -= len(raw)
        text += raw
        stop = _last_end(text) if n_bytes else len(text)
        if stop:
            yield text[:stop]
        text = text[stop:]


def _last_end(text: bytes) -> int:
    """Where the last line of a piece ends; a line of more than a piece is cut at a space, or else at any character."""
    return text.rfind(b"\n") + 1 or text.rfind(b" ") + 1 or _last_char_end(text)


def _last_char_end(text: bytes) -> int:
    """Where the last whole character ends that is not the first of CR LF."""
    decoder = codecs.getincrementaldecoder("utf-8")()
    chars = decoder.decode(text)
    begun, _ = decoder.getstate()
    return len(text) - len(begun) - chars.endswith("\r")


def _write(file: IO[bytes], document: Document, pieces: Iterable[str | Utf8], on_bad: OnBad | None) -> "_Row | None":
    """Append one text; returns its row, or None if its pieces raised and it was left out."""
    start, chars, digest = file.tell(), 0, hashlib.sha256()
    try:
        for piece in pieces:
            raw, n_chars = piece if isinstance(piece, Utf8) else (piece.encode(), len(piece))
            file.write(raw)
            digest.update(raw)
            chars += n_chars
    except BukvaError as error:
        if on_bad is None:
            raise
        file.seek(start)
        file.truncate()
        on_bad(document, error)
        return None
    return _Row(document, chars, start, file.tell() - start, digest.hexdigest())


def _reorder(path: Path, rows: list["_Row"]) -> None:
    """Write the texts again in the order of the rows, a piece at a time."""
    unordered = path.rename(path.with_suffix(".unordered"))
    with unordered.open("rb") as source, path.open("wb") as target:
        for row in rows:
            source.seek(row.start_byte)
            for start in range(0, row.bytes, PIECE_BYTES):
                target.write(source.read(min(PIECE_BYTES, row.bytes - start)))
    unordered.unlink()


def _table(rows: list["_Row"]) -> "pd.DataFrame":
    import pandas as pd

    described = [(*astuple(row.document), 0, row.chars, 0, row.bytes, row.sha256) for row in rows]
    table = pd.DataFrame(described, columns=list(TYPES)).astype(TYPES)
    for start, size in (("start", "chars"), ("start_byte", "bytes")):
        table[start] = table[size].cumsum() - table[size]
    return table
