"""Archives from strangers, unpacked without trust, and the ids that git gives to folders."""

import gzip
import io
import os
import shutil
import stat
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path, PurePosixPath
from typing import IO, TYPE_CHECKING, cast

from bukva.base.errors import BukvaError

if TYPE_CHECKING:
    from dulwich.objects import Tree

# far more than any corpus that one machine learns from, far less than fills a disk
MAX_BYTES = 4 << 30
MAX_ENTRIES = 100_000
MAX_HEADER_BYTES = 256 << 20  # what the readers take into memory: 2,600 of each entry, of which a long name needs 1,500
MAX_NAME_BYTES = 255  # Windows allows 255 letters, which are 510 bytes of Russian
PIECE_BYTES = 1 << 20

ZIP, EMPTY_ZIP, GZIP, TAR = b"PK\x03\x04", b"PK\x05\x06", b"\x1f\x8b", b"ustar"
ZIP_ENTRY = b"PK\x01\x02"  # begins each entry of the list at the end of a zip
TAR_AT = 257

BY_HAND = "corpus local, unpacked by hand, would do."

# what the readers raise over bytes that are not what they should be
DAMAGED = (
    tarfile.TarError,
    zipfile.BadZipFile,
    gzip.BadGzipFile,
    zlib.error,
    struct.error,
    EOFError,
    NotImplementedError,
    RecursionError,  # a header that says something of a header that says something ...
    ValueError,
    LookupError,
    OverflowError,
)


@dataclass(frozen=True, slots=True)
class _Entry:
    """What an archive says it holds: a file, whose content can be read, a folder, or something unwanted."""

    name: str
    n_bytes: int = 0  # the readers give no more than the header says, whatever is there
    content: Callable[[], IO[bytes]] | None = None
    unwanted: str = ""


class _Bounded(io.BufferedReader):
    """An archive as its reader gets it, in memory and time that are bounded whatever the headers say.

    zipfile makes an object of every entry, and tarfile takes a header of any length, before they can be asked; and a
    gzip is unpacked up to wherever the next header is said to be.
    """

    def __init__(self, file: io.FileIO | gzip.GzipFile, name: str) -> None:
        super().__init__(cast("io.RawIOBase", file))
        self.archive = name
        self.header_bytes_left = MAX_HEADER_BYTES
        self.listing = True

    def read(self, size: int | None = -1, /) -> bytes:
        if not self.listing:
            return super().read(size)
        # without a size zipfile asks for the last 64 kB only
        headers = super().read(min(size, self.header_bytes_left + 1) if size is not None else size)
        self.header_bytes_left -= len(headers)
        if self.header_bytes_left < 0:
            raise BukvaError(f"{self.archive}: has headers of more than {MAX_HEADER_BYTES} bytes; {BY_HAND}")
        if headers.count(ZIP_ENTRY) > MAX_ENTRIES:
            raise _too_many_entries(self.archive)
        return headers

    def seek(self, target: int, whence: int = os.SEEK_SET, /) -> int:
        if whence == os.SEEK_SET and target > MAX_BYTES + MAX_HEADER_BYTES:
            raise BukvaError(f"{self.archive}: more than {MAX_BYTES} bytes come out; {BY_HAND}")
        if whence == os.SEEK_SET and target < 0:
            raise EOFError("an entry lies before the first")
        return super().seek(target, whence)


def is_archive(path: Path) -> bool:
    """Whether a file begins as .zip, .tar and .gz do; its name says nothing."""
    with path.open("rb") as file:
        head = file.read(TAR_AT + len(TAR))
    return head.startswith((ZIP, EMPTY_ZIP, GZIP)) or head[TAR_AT:] == TAR


def unpack(archive: Path, folder: Path) -> None:
    """Unpack a .zip, .tar, .tar.gz or .tgz into a new folder, which the caller throws away if this raises.

    tarfile's own filter lets links inside the folder pass and counts nothing, zipfile has none; here both go
    one way: files and folders only, inside `folder`, each file once, within the bounds. All headers are read
    before the first file is written. That nothing is missing only a digest can tell: a tar may be cut between
    entries, and a gzip's last sum is not read.

    Raises:
        BukvaError: an entry is a link, a device or locked, leads outside, comes twice, or has a name that no
            file can have; there are too many entries, or bytes, whatever the headers say; it is damaged.
    """
    folder.mkdir(parents=True)
    try:
        with archive.open("rb", buffering=0) as file:
            head = file.read(len(ZIP))
            file.seek(0)
            plain = gzip.GzipFile(fileobj=file) if head.startswith(GZIP) else file
            bounded = _Bounded(plain, archive.name)
            found = _zip_entries(bounded) if head in (ZIP, EMPTY_ZIP) else _tar_entries(bounded)
            entries = list(_wanted(archive, found))
            bounded.listing = False
            for entry in entries:
                _extract(entry, archive, folder)
    except UnicodeDecodeError as error:
        raise _refusal(archive, error.object, "its name is not UTF-8") from None
    except DAMAGED as error:
        raise BukvaError(
            f"{archive.name}: damaged or no archive ({error}); a whole .zip, .tar or .tar.gz would do."
        ) from None


def git_tree_id(folder: Path) -> str:
    """The id that git gives to a folder of plain files, in hexadecimal digits: it pins names and bytes."""
    return _tree(folder).id.decode()


def _zip_entries(file: _Bounded) -> Iterator[_Entry]:
    # names not marked as UTF-8 would else be read as cp437, where any bytes are some letters
    opened = zipfile.ZipFile(file, metadata_encoding="utf-8")
    for info in opened.infolist():
        kind = stat.S_IFMT(info.external_attr >> 16)  # 0 if the archiver did not know Unix
        if kind not in (0, stat.S_IFREG, stat.S_IFDIR):
            yield _Entry(info.filename, unwanted="is a link or device")
        elif info.flag_bits & 1:
            yield _Entry(info.filename, unwanted="is locked with a password")
        elif info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            # zipfile unpacks a piece of these at once, however much comes out
            yield _Entry(info.filename, unwanted="is packed by another method than deflate")
        else:
            yield _Entry(info.filename, info.file_size, None if info.is_dir() else partial(opened.open, info))


def _tar_entries(file: _Bounded) -> Iterator[_Entry]:
    opened = tarfile.TarFile(fileobj=file, encoding="utf-8", errors="strict")
    for info in opened:
        if info.isdir():
            yield _Entry(info.name)
        elif info.isreg():
            # of a file there always is a content
            yield _Entry(info.name, info.size, cast("Callable[[], IO[bytes]]", partial(opened.extractfile, info)))
        else:
            yield _Entry(info.name, unwanted="is a link or device")


def _wanted(archive: Path, entries: Iterator[_Entry]) -> Iterator[_Entry]:
    """The entries, up to the first that cannot be had."""
    bytes_left = MAX_BYTES
    for count, entry in enumerate(entries, start=1):
        if count > MAX_ENTRIES:
            raise _too_many_entries(archive.name)
        bytes_left -= max(entry.n_bytes, 0)
        reason = entry.unwanted or _fault_of_name(entry.name)
        if not reason and bytes_left < 0:
            reason = f"with it more than {MAX_BYTES} bytes come out"
        if reason:
            raise _refusal(archive, entry.name, reason)
        yield entry


def _fault_of_name(name: str) -> str:
    """Why no file may have this name, or nothing."""
    path = PurePosixPath(name)
    if path.is_absolute() or ".." in path.parts:
        return "its name leads outside"
    if "\0" in name:
        return "its name has a zero byte"
    if any(len(part.encode()) > MAX_NAME_BYTES for part in path.parts):
        return f"its name has a part of more than {MAX_NAME_BYTES} bytes, which no disk takes"
    return ""


def _extract(entry: _Entry, archive: Path, folder: Path) -> None:
    """Make the file or folder."""
    path = folder / entry.name
    try:
        if entry.content is None:
            path.mkdir(parents=True, exist_ok=True)
            return
        path.parent.mkdir(parents=True, exist_ok=True)
        with entry.content() as source, path.open("xb") as file:
            shutil.copyfileobj(source, file, PIECE_BYTES)
    except (FileExistsError, NotADirectoryError):
        raise _refusal(archive, entry.name, "its name comes twice") from None


def _too_many_entries(archive: str) -> BukvaError:
    return BukvaError(f"{archive}: has more than {MAX_ENTRIES} entries; no corpus needs so many.")


def _refusal(archive: Path, entry: str | bytes, why: str) -> BukvaError:
    return BukvaError(f"{archive.name}, entry {entry!r}: {why}; {BY_HAND}")


def _tree(folder: Path) -> "Tree":
    from dulwich.objects import Blob, Tree

    tree = Tree()
    for path in folder.iterdir():
        name = os.fsencode(path.name)
        if not path.is_dir():
            tree.add(name, 0o100644, Blob.from_string(path.read_bytes()).id)
        elif len(subtree := _tree(path)):  # git knows no empty folders
            tree.add(name, 0o040000, subtree.id)
    return tree
