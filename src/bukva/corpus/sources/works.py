"""The works in a folder or a file: where each text is, and what its path, its table and info.csv say about it.

Plain text is taken as it is, line ends included; only byte order marks are removed, because they mark the encoding and
are not content. Those inside a text, where files were joined, are a finding.
"""

import csv
import unicodedata
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from types import MappingProxyType

from bukva.core.errors import BukvaError
from bukva.corpus.sources.entries import SPECIAL, check_name, is_special
from bukva.corpus.sources.findings import Findings
from bukva.corpus.sources.formats import READERS, reader_of
from bukva.corpus.sources.formats.base import (
    BadTextError,
    NoTextError,
    Reader,
    Text,
    TextFile,
    UnreadableError,
    read_plain,
)
from bukva.corpus.sources.formats.encodings import MARK
from bukva.text.collection import MISSING, Document

INFO = "info.csv"  # the years of the works in its folder: advice that may be wrong, so no error in it stops a stage


@dataclass(frozen=True)
class Reading:
    """How files are read: their encoding (or auto), the text column of tables, and what else is plain text."""

    findings: Findings
    encoding: str = "utf-8"
    column: str = "text"
    extensions: Collection[str] = ()

    def file(self, path: Path, place: str, encoding: str = "") -> TextFile:
        """A file that is to be read in this way, or in an encoding of its own."""
        return TextFile(path, place, encoding or self.encoding, self.column, self.findings.add_encoding)

    def reader(self, path: Path) -> Reader | None:
        """The reader of a file by its extension; None if its type is not read."""
        return reader_of(path.suffix, self.extensions)


@dataclass(frozen=True)
class Work:
    """A file that is not read yet. If it is a table, it has many texts, and `document` is what they have in common."""

    document: Document
    file: TextFile
    read: Reader
    path: str

    def texts(self, findings: Findings) -> Iterator[tuple[Document, Iterator[str]]]:
        """The works in the file, each with the pieces of its text.

        Raises:
            BadTextError: the file cannot be read, from here on. The pieces raise one, too.
        """
        for text in self.read(self.file):
            place = f"{self.file.place}, row {text.row}" if text.row else self.file.place
            yield self._named(text), self._not_empty(_without_marks(text.pieces, place, findings))

    def _named(self, text: Text) -> Document:
        if not text.row:
            return self.document
        # what the row says hides folders of the path, which may be needed to tell two works apart
        work = self.path if text.author or text.category else self.document.work
        return Document(
            text.category or self.document.category,
            text.author or self.document.author,
            f"{work}#{text.row:09} {text.title}".rstrip(),  # nine digits, so that works are sorted as the rows are
            text.year or self.document.year,
        )

    def _not_empty(self, pieces: Iterable[str]) -> Iterator[str]:
        empty = True
        for piece in pieces:
            empty = empty and not piece.strip()
            yield piece
        if empty:
            raise NoTextError(self.file.place)


@dataclass(frozen=True)
class Works:
    """The works of a corpus, and the number of rows of its info.csv files that describe no work.

    `place` is the name of the corpus in errors.
    """

    place: str
    works: list[Work]
    info_rows_without_file: int = 0
    info_rows_unreadable: int = 0

    def texts(self, findings: Findings) -> Iterator[tuple[Document, Iterator[str]]]:
        """The texts of all works, for write_collection; a file that ends early is a finding."""
        for work in self.works:
            try:
                yield from work.texts(findings)
            except BadTextError as error:
                findings.leave_out(error)


def _without_marks(pieces: Iterable[str], place: str, findings: Findings) -> Iterator[str]:
    found = False
    for piece in pieces:
        kept = piece.replace(MARK, "")
        found = found or kept != piece
        yield kept
    if found:
        findings.add_marks(place)


def work_in_file(file: Path, place: str, reading: Reading, read: Reader | None = None) -> Works:
    """One file as a corpus, of one work unless it is a table; plain text unless its extension or `read` says more."""
    document = _document(file.name, place)
    read = read or reading.reader(file) or read_plain
    return Works(place, [Work(document, reading.file(file, place), read, document.work)])


def works_in_folder(
    root: Path,
    place: str,
    reading: Reading,
    folders: Iterable[str] = ("",),
    encodings: Mapping[str, str] = MappingProxyType({}),
    levels: bool = True,
) -> Works:
    """The works in some folders of `root`.

    Args:
        root: the folder whose levels are category/author/work.txt, or fewer.
        place: the name of `root` in errors.
        reading: how its files are read; files of other types are added to the findings.
        folders: the folders below `root` to read; all by default.
        encodings: those of single works, by the path of the work below `root`.
        levels: whether folders are categories and authors; else they are a part of the name of a work.

    Raises:
        BukvaError: the folders contain no file of a type that is read. If the findings are strict: a folder cannot be
            read, or a link leads back to a folder that contains it.
    """
    files = [file for folder in folders for file in _files(root / folder, reading.findings)]
    infos = {file.parent: _info(file) for file in files if file.name == INFO}
    works, present = [], set()
    for file in files:
        reader = reading.reader(file)
        if not reader:
            reading.findings.other_types.update([file.suffix.lower()] if file.name != INFO else [])
            continue
        path = nfc(file.relative_to(root).as_posix())
        where = f"{place}/{path}"
        present.add((file.parent, nfc(file.stem)))
        year = infos.get(file.parent, ({}, 0))[0].get(nfc(file.stem))
        try:
            document = _document(path, where, year, levels)
        except BadTextError as error:
            reading.findings.leave_out(error)
            continue
        works.append(Work(document, reading.file(file, where, encodings.get(path, "")), reader, path))
    if not works:
        raise BukvaError(" ".join([f"{place}: contains no {types_read()} file.", *reading.findings.sentences()]))
    return Works(
        place,
        works,
        info_rows_without_file=sum(
            (folder, name) not in present for folder, (years, _) in infos.items() for name in years
        ),
        info_rows_unreadable=sum(unreadable for _, unreadable in infos.values()),
    )


def types_read() -> str:
    """The extensions that are read, for errors."""
    *most, last = READERS
    return f"{', '.join(most)} or {last}"


def _info(file: Path) -> tuple[dict[str, str | None], int]:
    try:
        return read_info(file.read_bytes())
    except OSError:
        return {}, 1


def read_info(raw: bytes) -> tuple[dict[str, str | None], int]:
    """The bytes of an info.csv -> the years by the name of the work, and the number of unreadable rows.

    Names are in Unicode's form NFC. Bytes that are not UTF-8 become a name that no work has.
    """
    lines = [line for line in raw.decode("utf-8-sig", errors="replace").splitlines() if line.strip()]
    header, *rows = [_cells(line) for line in lines] or [[]]
    if not {"name", "year"} <= set(header):
        return {}, len(lines)
    entries = [dict(zip(header, row, strict=True)) for row in rows if len(row) == len(header)]
    return {nfc(entry["name"]): entry["year"] or None for entry in entries}, len(rows) - len(entries)


def nfc(name: str) -> str:
    """A name in Unicode's form NFC; macOS may write й in a file name as two characters."""
    return unicodedata.normalize("NFC", name)


def _cells(line: str) -> list[str]:
    """The cells of one row, or an empty list; each row is parsed alone, so an unclosed quote spoils no other row."""
    try:
        return [cell.strip() for cell in next(csv.reader([line]))]
    except csv.Error:
        return []


def _files(folder: Path, findings: Findings, above: frozenset[Path] = frozenset()) -> Iterator[Path]:
    """All files below a folder except hidden ones. Links are followed: nobody would notice a missing book."""
    here = folder.resolve()
    try:
        if here in above:
            why = "this link leads back to a folder that contains it"
            raise UnreadableError(str(folder), why, "remove the link")
        entries = [(entry, entry.is_dir()) for entry in sorted(folder.iterdir())]
    except OSError as error:
        findings.leave_out(UnreadableError(str(folder), f"cannot be read ({error.strerror})", "check the folder"))
        return
    except UnreadableError as error:
        findings.leave_out(error)
        return
    for entry, is_folder in entries:
        if entry.name.startswith("."):
            continue
        if is_folder:
            yield from _files(entry, findings, above | {here})
        elif is_special(entry):
            findings.leave_out(UnreadableError(str(entry), SPECIAL, "remove it"))
        else:
            yield entry


def _document(path: str, place: str, year: str | None = None, levels: bool = True) -> Document:
    """The document at category/author/work, author/work or work; deeper folders belong to the work's name.

    Only .txt is left out of the name, so that notes.md and notes.html are two works.
    """
    check_name(path, place)
    parts = PurePosixPath(path).parts
    name = parts[-1][: -len(".txt")] if parts[-1].lower().endswith(".txt") else parts[-1]
    if not levels:
        return Document(MISSING, MISSING, "/".join((*parts[:-1], name)), year)
    category, author, *work = (MISSING,) * (3 - len(parts)) + (*parts[:-1], name)
    return Document(category, author, "/".join(work), year)
