"""The works in a folder or a file: where each text is, and what its path, its table and info.csv say about it.

Plain text is taken as it is, line ends included; only byte order marks are removed, because they mark the encoding and
are not content. What is left out or guessed is counted for the metrics, and told in a line each on the terminal.
"""

import csv
import os
import stat
import unicodedata
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from types import MappingProxyType

from bukva.config.messages import shorten
from bukva.core.errors import BukvaError, ParamsError
from bukva.corpus.sources.formats import READERS, conversion
from bukva.corpus.sources.formats.base import NO_TEXTS, BadTextError, Reader, Text, TextFile, printable, read_plain
from bukva.corpus.sources.formats.encodings import MARK
from bukva.text.collection import MISSING, Document

INFO = "info.csv"  # the years of the works in its folder: advice that may be wrong, so no error in it stops a stage
SPECIAL = "is a pipe, a socket or a device"
EMPTY = "contains no text", "fill the file or remove it", "files_without_text"
NAMED = 3  # names in a line, and the first of each encoding or type; the others are counted
MAX_NAMED = 20

# What is found beside texts, as metrics count it and the terminal tells it.
KINDS = {
    "files_without_text": "file(s) left out (download.strict), without text",
    "files_unreadable": "file(s) left out (download.strict), cannot be read",
    "bad_rows": "row(s) of tables left out (download.strict)",
    "files_in_detected_encoding": "file(s) read in an encoding that was detected (download.encoding)",
    "files_with_names_inside": "file(s) name their author, title or year, which folders and info.csv do not",
    "epubs_without_all_chapters": "epub(s) name chapters that they do not contain; the others are read",
    "zip_names_guessed": "name(s) in a zip are not UTF-8; their encoding is guessed",
    "files_with_parts_left_out": "file(s) read without some of their parts",
    "markdown_with_short_lines": "Markdown file(s) in which paragraphs of short lines are read as verse",
    "texts_with_markup": "file(s) .txt begin like another type, whose markup is read as text; rename or convert them",
    "texts_with_marks_inside": "text(s) with byte order marks (U+FEFF) inside, which are removed",
    "info_rows_without_file": "row(s) of info.csv name no work",
    "info_rows_unreadable": "row(s) of info.csv cannot be read",
    NO_TEXTS: "file(s) not read (download.extensions reads them as plain text): tables without the column "
    "download.text_column, or XML other than TEI",
    "files_to_convert": "file(s) not read, and the command that converts each",
    "files_of_other_types": "file(s) of other types not read (download.extensions names types of plain text)",
}


class Findings:
    """What was found in a corpus beside its texts: how many of each of KINDS, and the names of the first.

    `strict` raises the first file or row without readable text instead of counting it.
    """

    def __init__(self, strict: bool) -> None:
        self.strict = strict
        self.counts = Counter(dict.fromkeys(KINDS, 0))
        self.names: dict[str, list[str]] = {kind: [] for kind in KINDS}
        self._groups = set[tuple[str, str]]()

    def add(self, kind: str, name: str, group: str = "") -> None:
        """Count one. The first of a group, such as the files in one encoding, is always named."""
        self.counts[kind] += 1
        is_new = bool(group) and (kind, group) not in self._groups
        self._groups.add((kind, group))
        if len(self.names[kind]) < (MAX_NAMED if is_new else NAMED):
            self.names[kind].append(name)

    def leave_out(self, error: BukvaError) -> None:
        """Count a file or row that has no readable text.

        Raises:
            BukvaError: the error itself, if `strict`, unless the file is one of another type by its content.
        """
        if self.strict and not (isinstance(error, BadTextError) and error.kind == NO_TEXTS):
            raise error
        if isinstance(error, BadTextError):
            self.add(error.kind, error.name)
        else:  # a bound of archives
            self.add("files_unreadable", str(error))

    def sentences(self) -> Iterator[str]:
        """What a user should know, a sentence for each kind; none for a corpus where all is well."""
        for kind, what in KINDS.items():
            if n := self.counts[kind]:
                n_more = n - len(self.names[kind])
                more = f" and {n_more} more" if n_more else ""
                yield f"{n} {what}: {', '.join(self.names[kind])}{more}."


@dataclass(frozen=True)
class Reading:
    """How files are read: their encoding (or auto), the text column of tables, and what else is plain text."""

    findings: Findings
    encoding: str = "utf-8"
    column: str = "text"
    extensions: Collection[str] = ()

    def file(self, path: Path, place: str, encoding: str = "") -> TextFile:
        """A file that is to be read in this way, or in an encoding of its own."""

        def note(kind: str, detail: str) -> None:
            group = detail if kind == "files_in_detected_encoding" else ""
            self.findings.add(kind, f"{printable(place)} ({detail})", group)

        return TextFile(path, place, encoding or self.encoding, self.column, note)

    def reader(self, path: Path) -> Reader | None:
        """The reader of a file by its extension; None if its type is not read.

        What `extensions` names is plain text, also one of READERS: the source of a web page is text, too.
        """
        extension = path.suffix.lower()
        if extension in map(str.lower, self.extensions):
            return read_plain
        return READERS.get(path.name.removeprefix(stem(path)).lower())


@dataclass(frozen=True)
class Work:
    """A file that is not read yet. If it is a table, it has many texts, and `document` is what they have in common."""

    document: Document
    file: TextFile
    read: Reader
    path: str

    def document_of(self, text: Text) -> Document:
        """The document of a text in the file."""
        if not text.row:
            return self._document_of_file(text)
        # what the row says hides folders of the path, which may be needed to tell two works apart
        work = self.path if text.author or text.category else self.document.work
        return Document(
            text.category or self.document.category,
            text.author or self.document.author,
            f"{work}#{text.row:09} {text.title}".rstrip(),  # nine digits, so that works are sorted as the rows are
            text.year or self.document.year,
        )

    def _document_of_file(self, text: Text) -> Document:
        """The document of a file that is one text: its path and info.csv come first, then the names in the file.

        The title goes behind the path, unless the path has it.
        """
        own = self.document
        title = "" if nfc(text.title).casefold() in nfc(own.work).casefold() else text.title
        return Document(
            own.category if own.category != MISSING else text.category or MISSING,
            own.author if own.author != MISSING else text.author or MISSING,
            f"{own.work} {title}".rstrip(),
            own.year or text.year or None,
        )

    def pieces(self, text: Text, findings: Findings) -> Iterator[str]:
        """The text without byte order marks.

        Raises:
            BadTextError: the text cannot be read, or is empty.
        """
        place = f"{self.file.place}, row {text.row}" if text.row else self.file.place
        is_empty, has_marks = True, False
        for piece in text.pieces:
            kept = piece.replace(MARK, "")
            has_marks = has_marks or kept != piece
            is_empty = is_empty and not kept.strip()
            yield kept
        if has_marks:
            findings.add("texts_with_marks_inside", printable(place))
        if is_empty:
            raise BadTextError(place, *EMPTY)


def texts_of(works: Iterable[Work], findings: Findings) -> Iterator[tuple[Document, Iterator[str]]]:
    """The texts of all works, for write_collection; a file that ends early is a finding."""
    for work in works:
        try:
            text = None
            for text in work.read(work.file):
                document = work.document_of(text)
                yield document, work.pieces(text, findings)
                if not text.row and (said := _differences(work.document, document)):
                    findings.add("files_with_names_inside", f"{printable(work.file.place)} ({said})")
            if text is None:  # a table without rows
                raise BadTextError(work.file.place, *EMPTY)
        except BukvaError as error:
            findings.leave_out(error)


def _differences(before: Document, after: Document) -> str:
    """Return the names that a file has added to the document of its path."""
    pairs = zip(vars(before).values(), vars(after).values(), strict=True)
    return ", ".join(str(now).removeprefix(f"{was} ") for was, now in pairs if now != was)


def work_in_file(file: Path, place: str, reading: Reading, read: Reader | None = None) -> list[Work]:
    """One file as a corpus, of one work unless it is a table; plain text unless its extension or `read` says more."""
    document = _document(file.name, place)
    read = read or reading.reader(file) or read_plain
    return [Work(document, reading.file(file, place), read, document.work)]


def works_in_folder(
    root: Path,
    place: str,
    reading: Reading,
    folders: Iterable[str] = ("",),
    encodings: Mapping[str, str] = MappingProxyType({}),
    levels: bool = True,
) -> list[Work]:
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
            read.
    """
    files = [file for folder in folders for file in _files(root / folder, reading.findings)]
    infos = [reading.file(file, f"{place}/{file.relative_to(root)}", "auto") for file in files if file.name == INFO]
    years = {info.path.parent: _years(info, reading.findings) for info in infos}
    works, present = [], set[tuple[Path, str]]()
    for file in files:
        reader = reading.reader(file)
        path = nfc(file.relative_to(root).as_posix())
        where = f"{place}/{path}"
        if file.name == INFO:
            continue
        if not reader:
            command = conversion(where)
            kind = "files_to_convert" if command else "files_of_other_types"
            name = printable(f"{where} ({command})" if command else where)
            reading.findings.add(kind, name, file.suffix.lower())
            continue
        present.add((file.parent, nfc(stem(file))))
        try:
            document = _document(path, where, years.get(file.parent, {}).get(nfc(stem(file))), levels)
        except BadTextError as error:
            reading.findings.leave_out(error)
            continue
        works.append(Work(document, reading.file(file, where, encodings.get(path, "")), reader, path))
    for name in sorted(name for folder, known in years.items() for name in known if (folder, name) not in present):
        reading.findings.add("info_rows_without_file", name)
    if not works:
        raise BukvaError(" ".join([f"{place}: contains no {types_read()} file.", *reading.findings.sentences()]))
    return works


def stem(path: Path) -> str:
    """Return the name of a file without its extension, which may have two parts (.fb2.zip)."""
    end = "".join(path.suffixes[-2:])
    return path.name[: -len(end)] if end.lower() in READERS else path.stem


def types_read() -> str:
    """The extensions that are read, for errors."""
    *most, last = READERS
    return f"{', '.join(most)} or {last}"


def _years(info: TextFile, findings: Findings) -> dict[str, str | None]:
    """The years in an info.csv by the name of the work, in NFC.

    Each row is parsed alone, so an unclosed quote spoils no other row. Excel divides cells by semicolons in many
    countries.
    """
    try:
        lines = [line for line in "".join(info.pieces()).splitlines() if line.strip()]
        delimiter = max(",;\t", key=lines[0].count) if lines else ","
        header, *rows = [
            [cell.strip() for cell in next(csv.reader([line], delimiter=delimiter))] for line in lines
        ] or [[]]
    except (BadTextError, csv.Error) as error:
        findings.add("info_rows_unreadable", str(error))
        return {}
    years = {}
    for row in rows:
        entry = dict(zip(header, row, strict=False))
        if len(row) == len(header) and {"name", "year"} <= entry.keys():
            years[nfc(entry["name"])] = entry["year"] or None
        else:
            findings.add("info_rows_unreadable", ", ".join(row))
    return years


def nfc(name: str) -> str:
    """A name in Unicode's form NFC; macOS may write й in a file name as two characters."""
    return unicodedata.normalize("NFC", name)


def _files(root: Path, findings: Findings) -> Iterator[Path]:
    """All files below a folder except hidden ones and those by which Word locks a document (~$name), each folder once.

    Links are followed: nobody would notice a missing book.
    """

    def leave_out(error: OSError) -> None:
        why = f"cannot be read ({error.strerror})"
        findings.leave_out(BadTextError(str(error.filename), why, "check the folder"))

    seen = set[str]()
    for folder, folders, files in os.walk(root, onerror=leave_out, followlinks=True):
        if (here := os.path.realpath(folder)) in seen:
            folders.clear()
            continue
        seen.add(here)
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for file in sorted(Path(folder, name) for name in files if not name.startswith((".", "~$"))):
            if is_special(file):
                findings.leave_out(BadTextError(str(file), SPECIAL, "remove it"))
            else:
                yield file


def _document(path: str, place: str, year: str | None = None, levels: bool = True) -> Document:
    """The document at category/author/work, author/work or work; deeper folders belong to the work's name.

    Only .txt is left out of the name, so that notes.md and notes.html are two works.
    """
    _check_name(path, place)
    parts = PurePosixPath(path).parts
    name = parts[-1][: -len(".txt")] if parts[-1].lower().endswith(".txt") else parts[-1]
    if not levels:
        return Document(MISSING, MISSING, "/".join((*parts[:-1], name)), year)
    category, author, *work = (MISSING,) * (3 - len(parts)) + (*parts[:-1], name)
    return Document(category, author, "/".join(work), year)


def is_special(path: Path) -> bool:
    """Whether reading may wait for ever; what does not exist is nothing of this kind."""
    try:
        mode = path.stat().st_mode
    except (OSError, ValueError):
        return False
    return not (stat.S_ISREG(mode) or stat.S_ISDIR(mode))


def _check_name(path: str, place: str) -> None:
    try:
        path.encode()
    except UnicodeEncodeError:
        raise BadTextError(place, "this file name is not UTF-8", "rename the file") from None


def check_for_dvc(key: str, path: str) -> None:
    """Raise where DVC, which reads everything in a path of params.yaml before a stage runs, would fail or wait.

    Raises:
        ParamsError: nothing is at this path.
        BadTextError: a name is not UTF-8; or a file is a pipe, a socket, a device, or a link that leads nowhere.
    """
    if not os.path.exists(path):  # noqa: PTH110 (Path.exists raises if the name is too long)
        home = "; write the path of your home in full, because DVC does not expand ~" if path.startswith("~") else ""
        raise ParamsError(
            f"params.yaml, {key}: {shorten(path)} does not exist, and DVC needs it even where no stage reads it{home}."
        )
    below = (Path(folder, name) for folder, folders, files in os.walk(path) for name in sorted(folders + files))
    for entry in (Path(path), *below):
        _check_name(str(entry), str(entry))
        if is_special(entry):
            raise BadTextError(str(entry), SPECIAL, "remove it")
        if entry != Path(path) and not entry.exists():
            raise BadTextError(str(entry), "is a link that leads nowhere", "remove it")
