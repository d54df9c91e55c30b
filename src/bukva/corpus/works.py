"""The works in a folder or a file: where each text is, and what its path and info.csv say about it.

A text is taken as it is, line ends included; only a byte order mark is removed, because it marks the encoding and is
not content.
"""

import codecs
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from types import MappingProxyType
from typing import IO

from bukva.base.errors import BukvaError
from bukva.corpus.collection import MISSING, PIECE_BYTES, Document
from bukva.corpus.info import INFO, nfc, read_info


@dataclass(frozen=True)
class Work:
    """A text that is not read yet; `place` is its path as an error names it."""

    document: Document
    file: Path
    place: str
    encoding: str = "utf-8"

    def pieces(self) -> Iterator[str]:
        """The text of the work, a piece at a time.

        Raises:
            BukvaError: the file cannot be read, has another encoding, or contains no text.
        """
        empty = True
        try:
            with self.file.open("rb") as file:
                for piece in _decoded(file, self.encoding):
                    empty = empty and not piece.strip()
                    yield piece
        except OSError as error:
            raise BukvaError(f"{self.place}: cannot be read ({error.strerror}); check the file.") from None
        except UnicodeDecodeError as error:
            raise BukvaError(
                f"{self.place}: byte {error.start} (0x{error.object[0]:02x}) is not {self.encoding.upper()};"
                " convert the file, for instance with iconv -f cp1251 -t utf-8."
            ) from None
        if empty:
            raise BukvaError(f"{self.place}: contains no text; fill the file or remove it.")


@dataclass(frozen=True)
class Works:
    """The works of a corpus, and the number of rows of its info.csv files that describe no work."""

    works: list[Work]
    info_rows_without_file: int = 0
    info_rows_unreadable: int = 0


def work_in_file(file: Path, place: str) -> Works:
    """One file as a corpus of one work."""
    return Works([Work(_document(file.name, place), file, place)])


def works_in_folder(
    root: Path,
    place: str,
    folders: Iterable[str] = ("",),
    encodings: Mapping[str, str] = MappingProxyType({}),
) -> Works:
    """The works in some folders of `root`.

    Args:
        root: the folder whose levels are category/author/work.txt, or fewer.
        place: the name of `root` in errors.
        folders: the folders below `root` to read; all by default.
        encodings: those that are not UTF-8, by the path of the work below `root`.

    Raises:
        BukvaError: the folders contain no .txt file, or a link leads back to a folder that contains it.
    """
    files = [file for folder in folders for file in _files(root / folder)]
    texts = [file for file in files if file.suffix.lower() == ".txt"]
    if not texts:
        raise BukvaError(f"{place}: contains no .txt file; add files as category/author/work.txt, or fewer levels.")
    infos = {file.parent: read_info(file.read_bytes()) for file in files if file.name == INFO}
    works = []
    for file in texts:
        path = nfc(file.relative_to(root).as_posix())
        years, _ = infos.get(file.parent, ({}, 0))
        document = _document(path, f"{place}/{path}", years.get(nfc(file.stem)))
        works.append(Work(document, file, f"{place}/{path}", encodings.get(path, "utf-8")))
    present = {(file.parent, nfc(file.stem)) for file in texts}
    return Works(
        works,
        info_rows_without_file=sum(
            (folder, name) not in present for folder, (years, _) in infos.items() for name in years
        ),
        info_rows_unreadable=sum(unreadable for _, unreadable in infos.values()),
    )


def _decoded(file: IO[bytes], encoding: str) -> Iterator[str]:
    """The text of a file in pieces, without a byte order mark; an error counts bytes from the start of the file."""
    decoder = codecs.getincrementaldecoder(encoding)()
    read, mark = 0, "\ufeff"
    while True:
        raw = file.read(PIECE_BYTES)
        kept = len(decoder.getstate()[0])  # the first bytes of a character that ended the piece before
        try:
            piece = decoder.decode(raw, final=not raw)
        except UnicodeDecodeError as error:
            at, bad = read - kept + error.start, error.object[error.start : error.end]
            raise UnicodeDecodeError(encoding, bad, at, at + len(bad), error.reason) from None
        read += len(raw)
        if text := piece.removeprefix(mark):
            yield text
        mark = "" if piece else mark
        if not raw:
            return


def _files(folder: Path, above: frozenset[Path] = frozenset()) -> Iterator[Path]:
    """All files below a folder except hidden ones. Links are followed: nobody would notice a missing book."""
    here = folder.resolve()
    if here in above:
        raise BukvaError(f"{folder}: this link leads back to a folder that contains it; remove the link.")
    for entry in sorted(folder.iterdir()):
        if entry.name.startswith("."):
            continue
        if entry.is_dir():
            yield from _files(entry, above | {here})
        else:
            yield entry


def _document(path: str, place: str, year: str | None = None) -> Document:
    """The document at category/author/work, author/work or work; deeper folders belong to the work's name."""
    try:
        path.encode()
    except UnicodeEncodeError:
        raise BukvaError(f"{place!r}: this file name is not UTF-8; rename the file.") from None
    levels = PurePosixPath(path).with_suffix("").parts
    category, author, *work = (MISSING,) * (3 - len(levels)) + levels
    return Document(category, author, "/".join(work), year)
