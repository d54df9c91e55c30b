"""A collection of documents: a folder of texts and a table of their authors and categories.

On disk it is `category/author/work.txt`, UTF-8, and documents.csv beside the categories: one row per work, sorted by
(category, author, work) by code points. A category or author that the corpus does not give is `-`.
"""

import csv
import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from bukva.base.errors import BukvaError

if TYPE_CHECKING:
    import pandas as pd

MISSING = "-"
TABLE = "documents.csv"
TYPES = {
    "category": "str",
    "author": "str",
    "work": "str",
    "year": "str",
    "chars": "int64",
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
    def path(self) -> Path:
        """The path of the text in a collection; slashes in the name of a work make subfolders."""
        return Path(self.category, self.author, f"{self.work}.txt")


def write_collection(folder: Path, documents_with_text: Iterable[tuple[Document, str]]) -> "pd.DataFrame":
    """Write the texts, one at a time and in any order, and the table; returns it as read_table does.

    The caller makes sure that the folder appears complete or not at all (bukva.base.files.atomic_folder).

    Raises:
        BukvaError: two works have the same file.
    """
    import pandas as pd

    rows = sorted(_write(folder, document, text) for document, text in documents_with_text)
    # all text is quoted: pandas writes a lone carriage return without quotes, and reads it as the end of the row
    pd.DataFrame(rows, columns=list(TYPES)).to_csv(
        folder / TABLE, index=False, lineterminator="\n", quoting=csv.QUOTE_NONNUMERIC
    )
    return read_table(folder)


def read_table(folder: Path) -> "pd.DataFrame":
    """The table of a collection: one row per work, sorted; only a year can be missing."""
    import pandas as pd

    # an empty year is the only missing value: NA and 007 are valid names of works
    return pd.read_csv(folder / TABLE, dtype=TYPES, keep_default_na=False, na_values={"year": [""]})


def documents(table: "pd.DataFrame") -> Iterator[Document]:
    """The rows of a table."""
    for category, author, work, year in table[["category", "author", "work", "year"]].itertuples(index=False):
        yield Document(category, author, work, year if isinstance(year, str) else None)


def read_texts(folder: Path, table: "pd.DataFrame") -> Iterator[tuple[Document, str]]:
    """The texts of the rows of a table, one at a time, every character as it was written."""
    for document in documents(table):
        # not read_text, which turns each carriage return into a line feed
        yield document, (folder / document.path).read_bytes().decode()


def _write(folder: Path, document: Document, text: str) -> tuple[str, str, str, str, int, int, str]:
    """Write one text; returns its row, with an empty year if it is unknown."""
    raw = text.encode()
    path = folder / document.path
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        with path.open("xb") as file:
            file.write(raw)
    except FileExistsError:
        # some file systems treat names as equal that differ in letter case or Unicode form only
        raise BukvaError(f"{document.path}: two works have this file name; rename one of them.") from None
    digest = hashlib.sha256(raw).hexdigest()
    return document.category, document.author, document.work, document.year or "", len(text), len(raw), digest
