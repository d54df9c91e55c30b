"""Read the texts in a folder or a file, with their authors, titles and years.

Everything that is left out or guessed is counted, for metrics and for messages to the user.
"""

import itertools
import os
import stat
import unicodedata
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path, PurePosixPath
from types import MappingProxyType

from bukva.core.errors import BukvaError, ParamsError
from bukva.core.files import resolve_existing
from bukva.core.messages import one_or_another, shorten
from bukva.core.words import count
from bukva.corpus.sources.encodings import BOM
from bukva.corpus.sources.formats import READERS, conversion, real_extension
from bukva.corpus.sources.formats.base import NO_TEXTS, BadTextError, Reader, Text, TextFile, printable, read_plain
from bukva.corpus.sources.formats.books import is_epub, read_epub
from bukva.corpus.sources.formats.tables import read_csv
from bukva.text.collection import MISSING, Work

Texts = Iterator[tuple[Work, str]]
MISNAMED = "files_misnamed"
INFO = "info.csv"  # gives the years of the works in its folder; years are optional, so errors in it are only counted
UNREADABLE = "cannot be read. Check its permissions"
IGNORED_BY_DVC = {".dvc", ".git", ".hg"}
TYPES = one_or_another(list(READERS))  # the extensions of all types that are read, as words for a message
EMPTY = "contains no text", "Add text or remove the file", "files_without_text"  # why, advice, kind of BadTextError
# A message names the first NAMED files or rows of a kind. It also names the first one of each further reason, encoding
# or file type, up to MAX_NAMED names in all. The other files and rows are only counted.
NAMED = 3
MAX_NAMED = 10
AS_PLAIN = "to read such files as plain text, add their extension to download.extensions"
# Each key is a kind of files, rows or texts that are left out, or for which something is guessed, and the name of their
# metric. The value is what was counted, and the message to the user, in which the count replaces {}.
KINDS = {
    "files_without_text": ("file", "Left out {} without text"),
    "files_unreadable": ("file", "Left out {} because of errors"),
    MISNAMED: ("file", "Left out {} with the extension of another type; rename or convert such files"),
    "bad_rows": ("row", "Left out {} of tables because of errors"),
    "files_in_detected_encoding": ("file", "Read {} in a detected encoding (download.encoding)"),
    "files_with_names_inside": ("file", "Found an author, title or year that paths and info.csv do not contain in {}"),
    "epubs_without_all_chapters": ("epub", "Did not find all chapters of {}; the other chapters were read"),
    "zip_names_guessed": ("file name", "Guessed the encoding of {} in a zip, because UTF-8 does not fit"),
    "files_with_parts_left_out": ("file", "Read {} without some parts"),
    "markdown_with_short_lines": ("Markdown file", "Read paragraphs of short lines as verse in {}"),
    "texts_with_markup": (
        ".txt file",
        "Read {} with markup, because it begins like a file of another type; rename or convert such files",
    ),
    "texts_with_marks_inside": ("text", "Removed byte order marks (U+FEFF) from {}"),
    "info_rows_without_file": ("row", "Ignored {} of info.csv for works that do not exist"),
    "info_rows_unreadable": ("row", "Ignored {} of info.csv because of errors"),
    NO_TEXTS: (
        "file",
        "Did not read {} of XML other than TEI, or of tables without the column that download.text_column names "
        f"({AS_PLAIN})",
    ),
    "files_to_convert": ("file", "Did not read {}; convert each file with the command after its name"),
    "files_of_other_types": ("file", f"Did not read {{}} of other types ({AS_PLAIN})"),
}


class Reading:
    """Options for reading the files of a corpus, and what is left out or guessed, by kind (a key of KINDS)."""

    def __init__(
        self, encoding: str = "utf-8", column: str = "text", extensions: Collection[str] = (), strict: bool = False
    ) -> None:
        self.encoding, self.column = encoding, column
        self.extensions = {extension.lower() for extension in extensions}  # types that are read as plain text, as .py
        self.strict = strict  # whether a file or row without readable text is an error
        self._places: dict[tuple[str, str, str], str] = {}  # category, author and name of each work -> its file or row
        self.counts = Counter(dict.fromkeys(KINDS, 0))
        # kind -> reason and file type -> names of files or rows for the message
        self._names: dict[str, dict[tuple[str, str], list[str]]] = {kind: {} for kind in KINDS}
        self._n_more = Counter[tuple[str, str, str]]()  # by kind, reason and file type: how many it does not name

    def text_file(self, path: Path, display_name: str, encoding: str = "") -> TextFile:
        """Return the file at `path`. If `encoding` is not empty, it replaces `self.encoding`."""

        def note(kind: str, detail: str) -> None:
            if kind == "files_in_detected_encoding":
                self.add(kind, printable(display_name), detail)
            else:
                self.add(kind, f"{printable(display_name)} ({detail})")

        return TextFile(path, display_name, encoding or self.encoding, self.column, note)

    def reader(self, path: Path) -> Reader | None:
        """Return the reader for files with the extension of `path`, or None if such files are not read."""
        if path.is_dir():
            return read_epub
        if path.suffix.lower() in self.extensions:  # also .html, as source code
            return read_plain
        return READERS.get(path.name.removeprefix(_stem(path)).lower())

    def add(self, kind: str, name: str, reason: str = "", file_type: str = "") -> None:
        """Count a file or row. The message gives each reason once, after the first names with this reason."""
        self.counts[kind] += 1
        groups, group = self._names[kind], (reason, file_type)
        if sum(map(len, groups.values())) < (NAMED if group in groups else MAX_NAMED):
            groups.setdefault(group, []).append(name)
        elif group in groups:
            self._n_more[kind, *group] += 1

    def leave_out(self, error: BukvaError) -> None:
        """Count the file or row that `error` describes as left out, or raise `error` in strict mode."""
        # a file that is not meant to contain texts is never an error
        is_strict = self.strict and not (isinstance(error, BadTextError) and error.kind == NO_TEXTS)
        if is_strict or isinstance(error, ParamsError):
            raise error
        if isinstance(error, BadTextError):
            self.add(error.kind, error.name, error.why)
        else:  # a zipped book exceeds a limit of archives.py
            self.add("files_unreadable", str(error))

    def check_is_new(self, work: Work, display_name: str) -> None:
        """Raise a ParamsError if another file contains a work of this name."""
        name = work.category, work.author, work.work
        if other := self._places.get(name):
            places = f"{printable(other)} and {printable(display_name)}"
            raise ParamsError(f"{places} are works with the same name, {work.name}. Rename one of them.")
        self._places[name] = display_name

    def sentences(self) -> Iterator[str]:
        """Yield one message to the user for each kind of finding that occurred."""
        for kind, (what, message) in KINDS.items():
            if n := self.counts[kind]:
                yield f"{message.format(count(n, what))}: {self._listed(kind)}."

    def _listed(self, kind: str) -> str:
        parts, n_left = list[str](), self.counts[kind]
        for group, names in self._names[kind].items():
            n_more = self._n_more[kind, *group]
            n_left -= len(names) + n_more
            parts.append(f"{', '.join(names)}{_more(n_more)}{f' ({group[0]})' if group[0] else ''}")
        return f"{', '.join(parts)}{_more(n_left)}"


def _more(n: int) -> str:
    return f" and {n} more" if n else ""


def texts_at(path: str, reading: Reading) -> Texts:
    """Return the texts of the folder or file that download.path names."""
    location = resolve_existing(path)
    advice = "Use a folder of texts or a single text."
    if not location:
        why = "does not exist"
    elif location.is_dir():
        return texts_in_folder(location, path, reading)
    elif reading.reader(location):
        return texts_of_file(location, path, reading)
    elif command := conversion(path):
        why, advice = "has a type that cannot be read", f"Convert it with `{command}`."
    else:
        why = f"is not a {TYPES} file"
        plain = f"add {location.suffix} to download.extensions" if location.suffix else "rename it to .txt"
        advice = f"If it is plain text, {plain}."
    raise BukvaError(f"params.yaml, download.path: {shorten(path)} {why}. {advice}")


def texts_of_file(file: Path, display_name: str, reading: Reading, read: Reader | None = None) -> Texts:
    """Yield the texts of a corpus that is a single file. A file of unknown type is read as plain text."""
    work = _work_at(PurePosixPath(display_name).name, display_name)
    read = read or reading.reader(file) or read_plain
    return _texts_in_file(reading.text_file(file, display_name), reading, read, work, work.work)


def _texts_in_file(file: TextFile, reading: Reading, read: Reader, work: Work, path: str) -> Texts:
    """Yield each text in a file, which has the `path` in the corpus and is `work` by this path and info.csv."""
    name, text = file.display_name, None
    try:
        for text in read(file):
            if isinstance(text, BadTextError):
                reading.leave_out(text)
                continue
            text_name = f"{name}, row {text.row}" if text.row else name
            content = text.content.replace(BOM, "")  # it marks the encoding and is not content
            if content != text.content:
                reading.add("texts_with_marks_inside", printable(text_name))
            if not content.strip():
                reading.leave_out(BadTextError(text_name, *EMPTY))
                continue
            own = _work_of(text, work, path)
            reading.check_is_new(own, text_name)
            yield own, content
            if not text.row and own != work:
                changes = zip(vars(own).values(), vars(work).values(), strict=True)
                added = (str(now).removeprefix(f"{was} ") for now, was in changes if now != was)
                reading.add("files_with_names_inside", f"{printable(name)} ({', '.join(added)})")
        if text is None:  # a table without rows
            raise BadTextError(name, *EMPTY)
    except BadTextError as error:
        reading.leave_out(_misnamed(file) or error)
    except BukvaError as error:
        reading.leave_out(error)


def _misnamed(file: TextFile) -> BadTextError | None:
    """Return an error for a file whose content is of another type than its extension, or None."""
    real = real_extension(file.path)
    if not real or file.path.name.lower().endswith(real):
        return None
    return BadTextError(file.display_name, f"its content is {real}", "Give it this extension or convert it", MISNAMED)


def _work_of(text: Text, file: Work, path: str) -> Work:
    """Return the work of a text. In a table, its own columns come first; otherwise, the path and info.csv do."""
    if text.row:
        # if a row replaces author or category, its name has the whole path, or two works could have the same name
        name = path if text.author or text.category else file.work
        name = f"{name}#{text.row:09} {text.title}"  # zeros, so that names sort in the order of rows
        author, category = text.author or file.author, text.category or file.category
        return Work(category, author, name.rstrip(), text.year or file.year)
    title = "" if nfc(text.title).casefold() in nfc(file.work).casefold() else text.title
    return Work(
        file.category if file.category != MISSING else text.category or MISSING,
        file.author if file.author != MISSING else text.author or MISSING,
        f"{file.work} {title}".rstrip(),
        file.year or text.year or None,
    )


def texts_in_folder(
    root: Path,
    display_name: str,
    reading: Reading,
    folders: Iterable[str] = ("",),
    encodings: Mapping[str, str] = MappingProxyType({}),
    levels: bool = True,
) -> Texts:
    """Yield the texts in a folder with paths such as category/author/work.txt, author/work.txt or work.txt, or an EPUB.

    `folders` are the paths below `root` that are read, and `encodings` those of files that are not in the encoding of
    `reading`, by path below `root`. Without `levels`, folders become part of the name of a work.
    """
    if is_epub(root):
        yield from texts_of_file(root, display_name, reading)
        return
    files = [file for folder in folders for file in files_in(root / folder)]
    years: dict[tuple[Path, str], str | None] = {}  # by folder and name of the work
    for info in (file for file in files if file.name == INFO):
        read = _years(reading.text_file(info, f"{display_name}/{info.relative_to(root)}", "auto"), reading)
        years |= {(info.parent, name): year for name, year in read.items()}
    works, present = list[Texts](), set[tuple[Path, str]]()
    for file in (file for file in files if file.name != INFO):
        path, key = nfc(file.relative_to(root).as_posix()), (file.parent, nfc(_stem(file)))
        file_name = f"{display_name}/{path}"
        if reader := reading.reader(file):
            present.add(key)
            try:
                work = _work_at(path, file_name, years.get(key), levels)
            except BadTextError as error:
                reading.leave_out(error)
            else:
                text_file = reading.text_file(file, file_name, encodings.get(path, ""))
                works.append(_texts_in_file(text_file, reading, reader, work, path))
        elif command := conversion(file_name):
            reading.add("files_to_convert", printable(f"{file_name} ({command})"), file_type=file.suffix.lower())
        else:
            reading.add("files_of_other_types", printable(file_name), file_type=file.suffix.lower())
    for name in sorted(name for folder, name in years.keys() - present):
        reading.add("info_rows_without_file", name)
    if not works:
        raise BukvaError(" ".join([f"{display_name}: contains no {TYPES} file.", *reading.sentences()]))
    yield from itertools.chain.from_iterable(works)


def _stem(path: Path) -> str:
    """Return the name of a file without its extension. The extension .fb2.zip is removed as a whole."""
    end = "".join(path.suffixes[-2:])
    return path.name[: -len(end)] if end.lower() in READERS else path.stem


def _years(info: TextFile, reading: Reading) -> dict[str, str | None]:
    """Read an info.csv, and return the year of each work, by the name of the work."""
    years = {}
    try:
        for row in read_csv(replace(info, column="name")):
            if isinstance(row, BadTextError):
                reading.add("info_rows_unreadable", row.name, row.why)
            else:
                years[nfc(row.content.strip())] = row.year or None
    except BadTextError as error:
        reading.add("info_rows_unreadable", error.name, error.why)
    return years


def nfc(name: str) -> str:
    """Return a name in the Unicode normalization form NFC. In file names from macOS, й may be two characters."""
    return unicodedata.normalize("NFC", name)


def files_in(root: Path) -> Iterator[Path]:
    """Yield all files and unpacked EPUBs in a folder, except hidden files and lock files of Word (~$name)."""
    for folder, folders, files in os.walk(root):
        if is_epub(Path(folder)):
            folders.clear()
            yield Path(folder)
            continue
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        yield from sorted(Path(folder, name) for name in files if not name.startswith((".", "~$")))


def _work_at(path: str, display_name: str, year: str | None = None, levels: bool = True) -> Work:
    """Return category, author, name and year of the work at `path`."""
    try:
        path.encode()
    except UnicodeEncodeError:
        raise BadTextError(display_name, "the file name is not UTF-8", "Rename the file") from None
    parts = PurePosixPath(path).parts
    name = parts[-1][: -len(".txt")] if parts[-1].lower().endswith(".txt") else parts[-1]
    if not levels:
        return Work(MISSING, MISSING, "/".join((*parts[:-1], name)), year)
    category, author, *work = (MISSING,) * (3 - len(parts)) + (*parts[:-1], name)
    return Work(category, author, "/".join(work), year)


def check_for_dvc(key: str, path: str) -> None:
    """Raise a ParamsError if DVC cannot read everything below the path in the parameter `key`, a dependency."""
    if not os.path.exists(path):  # noqa: PTH110 (Path.exists raises if the name is too long)
        home = " Write your home directory in full, because DVC does not expand ~." if path.startswith("~") else ""
        why = "does not exist. DVC needs it even if no stage reads it."
        raise ParamsError(f"params.yaml, {key}: {shorten(path)} {why}{home}")
    below = list[Path]()
    for folder, folders, files in os.walk(path):
        folders[:] = sorted(set(folders) - IGNORED_BY_DVC)
        below += (Path(folder, name) for name in sorted(folders + files))
    for entry in below or [Path(path)]:
        if why := _fault_for_dvc(entry):
            raise ParamsError(f"{printable(str(entry))}: {why}.")


def _fault_for_dvc(path: Path) -> str:
    """Return why DVC cannot read a file or folder and what to do, or ""."""
    try:
        str(path).encode()
        mode = path.stat().st_mode
    except UnicodeEncodeError:
        return "the file name is not UTF-8. Rename the file"
    except PermissionError:
        return UNREADABLE
    except OSError:
        return "is a broken link. Remove it"
    if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):  # DVC would wait forever for a pipe
        return "is a pipe, a socket or a device. Remove it"
    if not os.access(path, os.R_OK):
        return UNREADABLE
    if path.is_symlink() and stat.S_ISDIR(mode):  # an edit behind the link would not repeat any stage
        return "is a link to a folder, whose files DVC does not see. Replace it with a copy of the folder"
    if path.name == ".dvcignore":
        return "DVC does not allow this file in a folder that it reads. Remove it"
    return ""
