"""Corpora: where each one comes from, what holds it to its content, and how it becomes a collection.

The text is taken as it is, line ends included; only a byte order mark goes, which tells the encoding and is
no content. Names are brought to Unicode's form NFC, for macOS may spell й in them with two characters.
"""

import csv
import re
import tempfile
import unicodedata
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from types import MappingProxyType
from typing import Literal
from urllib.parse import unquote, urlsplit

from bukva.base.errors import BukvaError
from bukva.base.files import atomic_folder, resolve
from bukva.config.messages import WAY_BACK
from bukva.config.schema import Download
from bukva.corpus.archives import git_tree_id, is_archive
from bukva.corpus.collection import MISSING, Document, write_collection
from bukva.corpus.fetching import Note, Progress, fetch, obtain
from bukva.durability.packing import unpack

REGISTRY = Path(__file__).with_name("corpora.yaml")
INFO = "info.csv"


@dataclass(frozen=True)
class Source:
    """A corpus of corpora.yaml: where it is from, where it lies, and what its content must be.

    It is held to its content by `sha256`, the digest of the file, or by `trees`, the ids that git gives to
    folders below `root` in an archive; only these folders are read. `file` is its name in a mirror, and
    `encodings` are those of works that are not UTF-8, by their path below `root`.
    """

    title: str
    page: str
    licence: str
    url: str
    file: str
    format: Literal["archive", "text"]
    sha256: str = ""
    root: str = ""
    trees: Mapping[str, str] = field(default_factory=dict)
    encodings: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Report:
    """What a download gave. The rows are those of info.csv files, which tell years of works and may err."""

    works: int
    authors: int
    categories: int
    chars: int
    bytes: int
    works_without_year: int
    info_rows_without_file: int
    info_rows_unreadable: int


@dataclass(frozen=True)
class _Work:
    """A text that is not read yet; `shown` is the place that an error names."""

    document: Document
    file: Path
    shown: str
    encoding: str = "utf-8"

    def read(self) -> str:
        try:
            raw = self.file.read_bytes()
        except OSError as error:
            raise BukvaError(f"{self.shown}: cannot be read ({error.strerror}).") from None
        try:
            # not utf-8-sig: its errors count bytes from behind the mark
            text = raw.decode(self.encoding).removeprefix("\ufeff")
        except UnicodeDecodeError as error:
            raise BukvaError(
                f"{self.shown}: byte {error.start} (0x{raw[error.start]:02x}) is not {self.encoding.upper()};"
                " convert the file, for instance with iconv -f cp1251 -t utf-8."
            ) from None
        if not text.strip():
            raise BukvaError(f"{self.shown}: holds no text; fill the file or take it away.")
        return text


@dataclass(frozen=True)
class _Shelf:
    """The works of a corpus, and what its info.csv files have that leads to none."""

    works: list[_Work]
    info_rows_without_file: int = 0
    info_rows_unreadable: int = 0


def download(params: Download, target: Path, on_progress: Progress, note: Note) -> Report:
    """Make `target` the collection of the chosen corpus: whole, or untouched if this raises.

    Raises:
        BukvaError: the corpus is missing or unreachable, is not what was pinned, or holds what is not text.
    """
    try:
        # scratch lies in the unfinished folder: on the right disk, and swept away with it after a kill
        with atomic_folder(target) as folder, tempfile.TemporaryDirectory(dir=folder) as scratch:
            shelf = _find(params, Path(scratch), on_progress, note)
            table = write_collection(folder, ((work.document, work.read()) for work in shelf.works))
    except BukvaError as error:
        raise BukvaError(f"{error}\n{WAY_BACK}") from None  # DVC has removed the former corpus by now
    return Report(
        works=len(table),
        authors=len(set(table["author"]) - {MISSING}),
        categories=len(set(table["category"]) - {MISSING}),
        chars=int(table["chars"].sum()),
        bytes=int(table["bytes"].sum()),
        works_without_year=int(table["year"].isna().sum()),
        info_rows_without_file=shelf.info_rows_without_file,
        info_rows_unreadable=shelf.info_rows_unreadable,
    )


def registry() -> dict[str, Source]:
    """The corpora of corpora.yaml by name."""
    import yaml

    return {name: Source(**keys) for name, keys in yaml.safe_load(REGISTRY.read_text(encoding="utf-8")).items()}


def read_info(raw: bytes) -> tuple[dict[str, str | None], int]:
    """The years of an info.csv by the name of the work, and how many of its rows cannot be read.

    It is advice: nothing in it is an error. What is not UTF-8 becomes a name that no work has.
    """
    lines = [line for line in raw.decode("utf-8-sig", errors="replace").splitlines() if line.strip()]
    header, *rows = [_cells(line) for line in lines] or [[]]
    if not {"name", "year"} <= set(header):
        return {}, len(lines)
    entries = [dict(zip(header, row, strict=True)) for row in rows if len(row) == len(header)]
    return {_nfc(entry["name"]): entry["year"] or None for entry in entries}, len(rows) - len(entries)


def _cells(line: str) -> list[str]:
    """One row, or nothing; read by itself, so that a quote that never closes spoils no other."""
    try:
        return [cell.strip() for cell in next(csv.reader([line]))]
    except csv.Error:
        return []


def _find(params: Download, scratch: Path, on_progress: Progress, note: Note) -> _Shelf:
    match params.corpus:
        case "sample" | "local":
            return _local(params.path)
        case "url":
            file = scratch / "fetched" / _name_of(params.url)
            fetch(params.url, file, on_progress, params.sha256)
            return _unpacked(file, scratch) if is_archive(file) else _single(file, file.name)
        case name:
            return _registered(registry()[name], scratch, on_progress, note)


def _local(path: str) -> _Shelf:
    try:
        place = resolve(path)
        is_there = place.exists()
    except (OSError, RuntimeError) as error:  # a name that is too long, the home of a user that nobody knows
        what = f"cannot be looked for ({getattr(error, 'strerror', None) or error})"
        raise BukvaError(f"params.yaml, download.path: {path[:80]!r} {what}; a shorter path would do.") from None
    if place.is_dir():
        return _browse(place, path)
    if not is_there:
        what = "is not there"
    elif place.suffix.lower() != ".txt":
        what = "is no .txt file"
    else:
        return _single(place, path)
    raise BukvaError(f"params.yaml, download.path: {path!r} {what}; a folder of .txt files, or one file, would do.")


def _registered(source: Source, scratch: Path, on_progress: Progress, note: Note) -> _Shelf:
    file = obtain(source.url, source.file, scratch / "fetched", on_progress, note, source.sha256)
    if source.format == "text":
        return _single(file, file.name)
    unpack(file, scratch / "unpacked")
    root = scratch / "unpacked" / source.root
    for name, pinned in source.trees.items():
        found = git_tree_id(root / name) if (root / name).is_dir() else "missing"
        if found != pinned:
            raise BukvaError(
                f"{file.name}, folder {name}: its git tree is {found}, not {pinned};"
                f" the archive as {source.url} gives it would do."
            )
    return _browse(root, file.name, source.trees, source.encodings)


def _unpacked(archive: Path, scratch: Path) -> _Shelf:
    folder = scratch / "unpacked"
    unpack(archive, folder)
    # most archives hold one folder, named after themselves; macOS adds its own
    top = [entry for entry in folder.iterdir() if not entry.name.startswith((".", "__MACOSX"))]
    return _browse(top[0] if len(top) == 1 and top[0].is_dir() else folder, archive.name)


def _single(file: Path, shown: str) -> _Shelf:
    return _Shelf([_Work(_document(file.name, shown), file, shown)])


def _browse(
    root: Path,
    shown: str,
    folders: Iterable[str] = ("",),
    encodings: Mapping[str, str] = MappingProxyType({}),
) -> _Shelf:
    """The works in these folders of `root`; `shown` is what an error calls `root`."""
    files = [file for folder in folders for file in _files(root / folder)]
    texts = [file for file in files if file.suffix.lower() == ".txt"]
    if not texts:
        raise BukvaError(f"{shown}: holds no .txt file; category/author/work.txt, or fewer levels, would do.")
    infos = {file.parent: read_info(file.read_bytes()) for file in files if file.name == INFO}
    works = []
    for file in texts:
        place = _nfc(file.relative_to(root).as_posix())
        years, _ = infos.get(file.parent, ({}, 0))
        document = _document(place, f"{shown}/{place}", years.get(_nfc(file.stem)))
        works.append(_Work(document, file, f"{shown}/{place}", encodings.get(place, "utf-8")))
    present = {(file.parent, _nfc(file.stem)) for file in texts}
    return _Shelf(
        works,
        info_rows_without_file=sum(
            (folder, name) not in present for folder, (years, _) in infos.items() for name in years
        ),
        info_rows_unreadable=sum(unreadable for _, unreadable in infos.values()),
    )


def _files(folder: Path, above: frozenset[Path] = frozenset()) -> Iterator[Path]:
    """All files below a folder but hidden ones. Links are followed: nobody would notice a book left out."""
    here = folder.resolve()
    if here in above:
        raise BukvaError(f"{folder}: this link leads back to a folder that holds it; take it away.")
    for entry in sorted(folder.iterdir()):
        if entry.name.startswith("."):
            continue
        if entry.is_dir():
            yield from _files(entry, above | {here})
        else:
            yield entry


def _document(place: str, shown: str, year: str | None = None) -> Document:
    """Whose a text is: category/author/work, author/work or work; deeper folders belong to a work's name."""
    try:
        place.encode()
    except UnicodeEncodeError:
        raise BukvaError(f"{shown!r}: this file name is not UTF-8; rename the file.") from None
    levels = PurePosixPath(place).with_suffix("").parts
    category, author, *work = (MISSING,) * (3 - len(levels)) + levels
    return Document(category, author, "/".join(work), year)


def _name_of(url: str) -> str:
    """The last part of an address as the name of a file; letters, digits and `( ) , . -` stay as they are."""
    name = PurePosixPath(unquote(urlsplit(url).path)).name
    return re.sub(r"[^\w(),.-]+", "_", name)[-80:].strip("._") or "text"


def _nfc(name: str) -> str:
    return unicodedata.normalize("NFC", name)
