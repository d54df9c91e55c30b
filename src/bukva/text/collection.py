"""Read and write collections of works (the texts of a corpus).

A collection is a folder with two files. text.txt contains the text of all works in UTF-8, joined without separators.
documents.parquet is the table of works with their positions in text.txt, sorted by the code points of (category,
author, work). An unknown category or author is `-`.
"""

import hashlib
import re
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from bukva.core.errors import BukvaError
from bukva.text.characters import Codes, code_points

if TYPE_CHECKING:
    import pandas as pd

MISSING = "-"
TEXT = "text.txt"
TABLE = "documents.parquet"
CHUNK = 1 << 20  # number of characters to read at a time, which limits the memory
KEY = ["category", "author", "work"]  # these columns identify a work; the table is sorted by them
TYPES = {
    **dict.fromkeys([*KEY, "year"], "str"),
    # position of the first character in text.txt, number of characters, and both in bytes
    **dict.fromkeys(["start", "chars", "start_byte", "bytes"], "int64"),
    "sha256": "str",
}


@dataclass(frozen=True)
class Work:
    """Category, author, name and year of a work. The year can be a range such as 1863-1869."""

    category: str
    author: str
    work: str
    year: str | None = None

    @property
    def name(self) -> str:
        """The whole name for messages."""
        return f"{self.category}/{self.author}/{self.work}"


def write_collection(folder: Path, texts: Iterable[tuple[Work, str]]) -> "pd.DataFrame":
    """Write works, which can be in any order and must have different names, to a folder, and return their table."""
    import pandas as pd

    folder.mkdir(parents=True, exist_ok=True)
    path, rows, n_bytes = folder / TEXT, [], 0
    with path.open("wb") as file:
        for work, text in texts:
            raw = text.encode()
            file.write(raw)
            place = {"start": 0, "chars": len(text), "start_byte": n_bytes, "bytes": len(raw)}
            rows.append(asdict(work) | place | {"sha256": hashlib.sha256(raw).hexdigest()})
            n_bytes += len(raw)
    table = pd.DataFrame(rows, columns=list(TYPES)).astype(TYPES).sort_values(KEY)
    if (is_twice := table.duplicated(KEY)).any():
        raise BukvaError(f"{'/'.join(table.loc[is_twice, KEY].iloc[0])}: two works have this name; rename one of them.")
    if not table.index.is_monotonic_increasing:
        unordered = path.rename(path.with_suffix(".unordered"))
        with unordered.open("rb") as source, path.open("wb") as target:
            for start, size in zip(table["start_byte"], table["bytes"], strict=True):
                source.seek(start)
                target.write(source.read(size))
        unordered.unlink()
    for start, size in (("start", "chars"), ("start_byte", "bytes")):
        table[start] = table[size].cumsum() - table[size]
    table.to_parquet(folder / TABLE, index=False)
    return read_table(folder)


def read_table(folder: Path) -> "pd.DataFrame":
    """Return the table of works of the collection in `folder`, with the columns of TYPES. Only years can be missing."""
    import pandas as pd

    return pd.read_parquet(folder / TABLE)


def works_in(table: "pd.DataFrame") -> Iterator[Work]:
    """Yield the work in each row of a table of works."""
    for category, author, work, year in table[[*KEY, "year"]].itertuples(index=False):
        yield Work(category, author, work, year if isinstance(year, str) else None)


def decade(year: object) -> str:
    """Return the decade of a year or of the first year of a range, such as `1860s`, or `-` if it is unknown."""
    match = re.search(r"\d{4}", year) if isinstance(year, str) else None  # a missing year in a table is not a string
    return f"{match.group()[:3]}0s" if match else MISSING


def read_texts(folder: Path, table: "pd.DataFrame") -> Iterator[tuple[Work, str]]:
    """Yield each work of `table` together with its text, whose line ends are not converted."""
    with (folder / TEXT).open("rb") as file:
        for work, start, size in zip(works_in(table), table["start_byte"], table["bytes"], strict=True):
            file.seek(start)
            yield work, file.read(size).decode()


def read_codes(folder: Path, table: "pd.DataFrame") -> Codes:
    """Return the (N,) code points of the joined text of all works of a collection."""
    codes, start = np.empty(int(table["chars"].sum()), np.uint16), 0
    with (folder / TEXT).open(encoding="utf-8", newline="") as file:
        while piece := file.read(CHUNK):
            read = code_points(piece)
            codes = codes.astype(np.promote_types(codes.dtype, read.dtype), copy=False)
            codes[start : start + len(read)] = read
            start += len(read)
    return codes
