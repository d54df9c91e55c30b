"""A collection of works: one text, and a table of the works with their positions in the text.

A collection is a folder with two files. text.txt contains all works in UTF-8, one after the other, with nothing between
them. documents.parquet has one row per work, sorted by the code points of (category, author, work). A category or
author that the corpus does not give is `-`. The text is never in memory as a whole: a work is a stream of pieces and
can be larger than the memory.
"""

import hashlib
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

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
KEY = ["category", "author", "work"]  # unique; the works are sorted by it
CONTINUATION = bytes(range(0x80, 0xC0))  # bytes of UTF-8 that continue a character


@dataclass(frozen=True)
class Document:
    """Category, author, name and year of a work. The year is text, because it can be a range (1863-1869)."""

    category: str
    author: str
    work: str
    year: str | None = None

    @property
    def name(self) -> str:
        """Full name of the work, for messages."""
        return f"{self.category}/{self.author}/{self.work}"


def write_collection(
    folder: Path,
    texts: Iterable[tuple[Document, Iterable[str]]],
    on_bad: Callable[[BukvaError], None] | None = None,
) -> "pd.DataFrame":
    """Write the text and the table. Return the table as read_table does.

    The caller must make sure that an incomplete folder is never visible (bukva.core.files.atomic_folder).

    Args:
        folder: created if it does not exist.
        texts: the works in any order, each as pieces of its text.
        on_bad: called with each BukvaError that is raised while a work is read; the work is left out. By default, the
            error is raised.

    Raises:
        BukvaError: two works have the same category, author and name.
    """
    import pandas as pd

    folder.mkdir(parents=True, exist_ok=True)
    with (folder / TEXT).open("wb") as file:
        rows = [row for document, pieces in texts if (row := _write(file, document, pieces, on_bad))]
    table = pd.DataFrame(rows, columns=list(TYPES)).astype(TYPES).sort_values(KEY)
    if table.duplicated(KEY).any():
        name = "/".join(table.loc[table.duplicated(KEY), KEY].iloc[0])
        raise BukvaError(f"{name}: two works have this name; rename one of them.")
    if not table.index.is_monotonic_increasing:
        _reorder(folder / TEXT, table)
    for start, size in (("start", "chars"), ("start_byte", "bytes")):
        table[start] = table[size].cumsum() - table[size]
    table.to_parquet(folder / TABLE, index=False)
    return read_table(folder)


def read_table(folder: Path) -> "pd.DataFrame":
    """Return the table of a collection: one row per work, sorted. Only the year can be missing."""
    import pandas as pd

    return pd.read_parquet(folder / TABLE)


def documents(table: "pd.DataFrame") -> Iterator[Document]:
    """Yield the works of a table."""
    for category, author, work, year in table[["category", "author", "work", "year"]].itertuples(index=False):
        yield Document(category, author, work, year if isinstance(year, str) else None)


def decade(year: object) -> str:
    """Return the decade of a year, such as 1860s, or `-` without a 4-digit year. For a range, use its first year."""
    match = re.search(r"\d{4}", year) if isinstance(year, str) else None  # a missing year in a table is not a string
    return f"{match.group()[:3]}0s" if match else MISSING


def read_texts(folder: Path, table: "pd.DataFrame") -> Iterator[tuple[Document, Iterator[str]]]:
    """Yield each work of a table with the pieces of its text, in which no character is changed.

    A piece ends at a line end, unless the line is longer than PIECE_BYTES. Read all pieces of a work before you request
    the next work.
    """
    with (folder / TEXT).open("rb") as file:
        for document, start, n_bytes in zip(documents(table), table["start_byte"], table["bytes"], strict=True):
            file.seek(start)
            yield document, map(bytes.decode, _pieces(file, int(n_bytes)))


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
    """Return where to cut a piece: after its last line end, else after its last space, else before its last character.

    The last character may be a carriage return, which must stay together with the line feed that follows it.
    """
    return text.rfind(b"\n") + 1 or text.rfind(b" ") + 1 or len(text.rstrip(CONTINUATION)) - 1


def _write(
    file: IO[bytes], document: Document, pieces: Iterable[str], on_bad: Callable[[BukvaError], None] | None
) -> dict[str, Any] | None:
    """Append one text. Return its row of the table, or None if a piece raised an error and the text was left out."""
    start, chars, digest = file.tell(), 0, hashlib.sha256()
    try:
        for piece in pieces:
            raw = piece.encode()
            file.write(raw)
            digest.update(raw)
            chars += len(piece)
    except BukvaError as error:
        if on_bad is None:
            raise
        file.seek(start)
        file.truncate()
        on_bad(error)
        return None
    position = {"start": 0, "chars": chars, "start_byte": start, "bytes": file.tell() - start}
    return asdict(document) | position | {"sha256": digest.hexdigest()}


def _reorder(path: Path, table: "pd.DataFrame") -> None:
    """Rewrite the texts in the order of the table, one piece at a time."""
    unordered = path.rename(path.with_suffix(".unordered"))
    with unordered.open("rb") as source, path.open("wb") as target:
        for first, n_bytes in zip(table["start_byte"], table["bytes"], strict=True):
            source.seek(first)
            for start in range(0, n_bytes, PIECE_BYTES):
                target.write(source.read(min(PIECE_BYTES, n_bytes - start)))
    unordered.unlink()
