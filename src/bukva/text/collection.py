"""Read and write collections of works (the texts of a corpus).

A collection is a folder with two files. text.txt contains the text of all works in UTF-8, joined without separators.
documents.parquet is the table of works. It has one row for each work, with the position of the work in text.txt. The
rows are sorted by the code points of (category, author, work). If the corpus does not give the category or the author
of a work, the value is `-`. Works are read and written in pieces, so a work can be larger than the memory.
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
KEY = ["category", "author", "work"]  # these columns identify a work; the table is sorted by them
CONTINUATION = bytes(range(0x80, 0xC0))  # all UTF-8 bytes that continue a character


@dataclass(frozen=True)
class Document:
    """Category, author, name and year of a work (one text of the corpus).

    The year is a string, because it can be a range such as 1863-1869.
    """

    category: str
    author: str
    work: str
    year: str | None = None

    @property
    def name(self) -> str:
        """The category, author and name of the work, joined for messages."""
        return f"{self.category}/{self.author}/{self.work}"


def write_collection(
    folder: Path,
    texts: Iterable[tuple[Document, Iterable[str]]],
    on_bad: Callable[[BukvaError], None] | None = None,
) -> "pd.DataFrame":
    """Write the text and the table of a collection to a folder. Return the table (see `read_table`).

    After an error, the folder is incomplete. Callers therefore pass a temporary folder (see `atomic_folder`).

    Args:
        folder: folder of the collection. It is created if it does not exist.
        texts: the works, each with its text in pieces. The works can be in any order.
        on_bad: called with the error if reading a work raises a BukvaError. This work is then left out. By default, the
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
    """Return the table of works of the collection in `folder`.

    The columns are those of TYPES. Only the year can be missing.
    """
    import pandas as pd

    return pd.read_parquet(folder / TABLE)


def documents(table: "pd.DataFrame") -> Iterator[Document]:
    """Yield the work in each row of a table of works as a `Document`."""
    for category, author, work, year in table[["category", "author", "work", "year"]].itertuples(index=False):
        yield Document(category, author, work, year if isinstance(year, str) else None)


def decade(year: object) -> str:
    """Return the decade of a year, such as `1860s`. The result is `-` if `year` contains no 4-digit number.

    The decade of a range such as 1863-1869 is the decade of its first year.
    """
    match = re.search(r"\d{4}", year) if isinstance(year, str) else None  # a missing year in a table is not a string
    return f"{match.group()[:3]}0s" if match else MISSING


def read_texts(folder: Path, table: "pd.DataFrame") -> Iterator[tuple[Document, Iterator[str]]]:
    """Yield each work of `table` together with an iterator over the pieces of its text.

    Line ends are not converted. A piece ends at a line end, unless the line is longer than PIECE_BYTES. The pieces of a
    work must be read before the next work is requested.
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
    """Return where to cut a text into pieces: after its last line feed, else after its last space."""
    return text.rfind(b"\n") + 1 or text.rfind(b" ") + 1 or len(text.rstrip(CONTINUATION)) - 1


def _write(
    file: IO[bytes], document: Document, pieces: Iterable[str], on_bad: Callable[[BukvaError], None] | None
) -> dict[str, Any] | None:
    """Append one work to the file, and return its row of the table of works."""
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
    """Rewrite a text file so that its works are in the order of the table."""
    unordered = path.rename(path.with_suffix(".unordered"))
    with unordered.open("rb") as source, path.open("wb") as target:
        for first, n_bytes in zip(table["start_byte"], table["bytes"], strict=True):
            source.seek(first)
            for start in range(0, n_bytes, PIECE_BYTES):
                target.write(source.read(min(PIECE_BYTES, n_bytes - start)))
    unordered.unlink()
