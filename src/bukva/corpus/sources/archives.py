"""Unpack archives from untrusted sources: only files and folders, only inside the target, within fixed bounds."""

import contextlib
import gzip
import io
import os
import shutil
import stat
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path, PurePosixPath
from typing import IO, cast

from bukva.core.errors import BukvaError
from bukva.core.files import PIECE_BYTES

# far more than any corpus that one machine learns from, far less than fills a disk
MAX_BYTES = 4 << 30
MAX_ENTRIES = 100_000
MAX_HEADER_BYTES = 256 << 20  # held in memory by the readers: 2,600 for each entry, of which a long name needs 1,500
MAX_NAME_BYTES = 255  # Windows allows 255 letters, which are 510 bytes of Russian

ZIP, EMPTY_ZIP, GZIP, TAR = b"PK\x03\x04", b"PK\x05\x06", b"\x1f\x8b", b"ustar"
ZIP_ENTRY = b"PK\x01\x02"  # begins each entry of the list at the end of a zip
TAR_OFFSET = 257

ADVICE = "unpack it yourself and use corpus local."

# what the readers raise for damaged bytes
DAMAGED = (
    tarfile.TarError,
    zipfile.BadZipFile,
    gzip.BadGzipFile,
    zlib.error,
    struct.error,
    EOFError,
    NotImplementedError,
    RecursionError,  # a header that describes a header that describes a header ...
    ValueError,
    LookupError,
    OverflowError,
)


@dataclass(frozen=True, slots=True)
class _Entry:
    """One entry that an archive lists: a file with content, a folder, or an entry that is rejected for a reason."""

    name: str
    n_bytes: int = 0  # the readers return no more than the header announces, whatever the archive contains
    open_content: Callable[[], IO[bytes]] | None = None
    rejected: str = ""


class _BoundedReader(io.BufferedReader):
    """Bounds the memory and time that zipfile and tarfile spend on an archive, whatever its headers say.

    zipfile makes an object of every entry, and tarfile reads a header of any length, before they return the first
    entry; and a gzip is unpacked up to the position where the next header is announced.
    """

    def __init__(self, file: io.FileIO | gzip.GzipFile, archive: str) -> None:
        super().__init__(cast("io.RawIOBase", file))
        self.archive = archive
        self.header_bytes_left = MAX_HEADER_BYTES
        self.reads_headers = True

    def read(self, size: int | None = -1, /) -> bytes:
        if not self.reads_headers:
            return super().read(size)
        # without a size zipfile reads only the last 64 kB
        headers = super().read(min(size, self.header_bytes_left + 1) if size is not None else size)
        self.header_bytes_left -= len(headers)
        if self.header_bytes_left < 0:
            raise BukvaError(f"{self.archive}: has headers of more than {MAX_HEADER_BYTES} bytes; {ADVICE}")
        if headers.count(ZIP_ENTRY) > MAX_ENTRIES:
            raise _too_many_entries(self.archive)
        return headers

    def seek(self, target: int, whence: int = os.SEEK_SET, /) -> int:
        if whence == os.SEEK_SET and target > MAX_BYTES + MAX_HEADER_BYTES:
            raise BukvaError(f"{self.archive}: unpacks to more than {MAX_BYTES} bytes; {ADVICE}")
        if whence == os.SEEK_SET and target < 0:
            raise EOFError("an entry starts before the first one")
        return super().seek(target, whence)


def is_archive(path: Path) -> bool:
    """Whether a file starts like a .zip, .tar or .gz file; its name does not matter."""
    with path.open("rb") as file:
        head = file.read(TAR_OFFSET + len(TAR))
    return head.startswith((ZIP, EMPTY_ZIP, GZIP)) or head[TAR_OFFSET:] == TAR


def unpack(archive: Path, folder: Path) -> None:
    """Unpack a .zip, .tar, .tar.gz or .tgz into a new folder, which the caller deletes if this raises.

    tarfile's own filter accepts links inside the folder and counts nothing, and zipfile has no filter. Here both
    formats follow the same rules: files and folders only, inside `folder`, each file once, within the bounds. All
    headers are read before the first file is written. Only a digest can show that nothing is missing: a tar may be
    cut between entries, and the last checksum of a gzip is not read.

    Raises:
        BukvaError: an entry is a link, a device or encrypted, its name leads outside, occurs twice or is invalid; the
            archive has too many entries or bytes, or is damaged.
    """
    folder.mkdir(parents=True)
    try:
        with archive.open("rb", buffering=0) as file:
            head = file.read(len(ZIP))
            file.seek(0)
            tar_or_zip = gzip.GzipFile(fileobj=file) if head.startswith(GZIP) else file
            reader = _BoundedReader(tar_or_zip, archive.name)
            listed = _zip_entries(reader) if head in (ZIP, EMPTY_ZIP) else _tar_entries(reader)
            entries = list(_checked(archive, listed))
            reader.reads_headers = False
            for entry in entries:
                _extract(entry, archive, folder)
    except UnicodeDecodeError as error:
        raise _entry_error(archive, error.object, "its name is not UTF-8") from None
    except DAMAGED as error:
        raise BukvaError(
            f"{archive.name}: damaged, or not an archive ({error}); use a complete .zip, .tar or .tar.gz file."
        ) from None


@contextlib.contextmanager
def opened_zip(archive: Path) -> Iterator[Mapping[str, Callable[[], IO[bytes]]]]:
    """The files in a .zip by name, to be opened without unpacking; within the same bounds.

    Raises:
        BukvaError: as for unpack, except that damage raises one of DAMAGED, for the caller to name the file.
    """
    with archive.open("rb", buffering=0) as file:
        reader = _BoundedReader(file, archive.name)
        entries = list(_checked(archive, _zip_entries(reader)))
        reader.reads_headers = False
        yield {entry.name: entry.open_content for entry in entries if entry.open_content}


def _zip_entries(file: _BoundedReader) -> Iterator[_Entry]:
    # without metadata_encoding, names that are not marked as UTF-8 are read as cp437, where any bytes are letters
    opened = zipfile.ZipFile(file, metadata_encoding="utf-8")
    for info in opened.infolist():
        kind = stat.S_IFMT(info.external_attr >> 16)  # 0 if the archiver did not know Unix
        if kind not in (0, stat.S_IFREG, stat.S_IFDIR):
            yield _Entry(info.filename, rejected="is a link or device")
        elif info.flag_bits & 1:
            yield _Entry(info.filename, rejected="is encrypted with a password")
        elif info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            # zipfile unpacks a whole piece of the other methods at once, whatever its size
            yield _Entry(info.filename, rejected="is compressed by another method than deflate")
        else:
            yield _Entry(info.filename, info.file_size, None if info.is_dir() else partial(opened.open, info))


def _tar_entries(file: _BoundedReader) -> Iterator[_Entry]:
    opened = tarfile.TarFile(fileobj=file, encoding="utf-8", errors="strict")
    for info in opened:
        if info.isdir():
            yield _Entry(info.name)
        elif info.isreg():
            # extractfile returns None for other kinds only
            yield _Entry(info.name, info.size, cast("Callable[[], IO[bytes]]", partial(opened.extractfile, info)))
        else:
            yield _Entry(info.name, rejected="is a link or device")


def _checked(archive: Path, entries: Iterator[_Entry]) -> Iterator[_Entry]:
    """The entries, unchanged; raises at the first one that is rejected or exceeds a bound."""
    bytes_left = MAX_BYTES
    for count, entry in enumerate(entries, start=1):
        if count > MAX_ENTRIES:
            raise _too_many_entries(archive.name)
        bytes_left -= max(entry.n_bytes, 0)
        reason = entry.rejected or _name_fault(entry.name)
        if not reason and bytes_left < 0:
            reason = f"with it the archive unpacks to more than {MAX_BYTES} bytes"
        if reason:
            raise _entry_error(archive, entry.name, reason)
        yield entry


def _name_fault(name: str) -> str:
    """Why the name of an entry is invalid; empty if it is valid."""
    path = PurePosixPath(name)
    if path.is_absolute() or ".." in path.parts:
        return "its name leads outside the folder"
    if "\0" in name:
        return "its name contains a zero byte"
    if any(len(component.encode()) > MAX_NAME_BYTES for component in path.parts):
        return f"its name has a component of more than {MAX_NAME_BYTES} bytes, the limit of most file systems"
    return ""


def _extract(entry: _Entry, archive: Path, folder: Path) -> None:
    """Write the file, or make the folder."""
    path = folder / entry.name
    try:
        if entry.open_content is None:
            path.mkdir(parents=True, exist_ok=True)
            return
        path.parent.mkdir(parents=True, exist_ok=True)
        with entry.open_content() as source, path.open("xb") as file:
            shutil.copyfileobj(source, file, PIECE_BYTES)
    except (FileExistsError, NotADirectoryError):
        raise _entry_error(archive, entry.name, "its name occurs twice") from None


def _too_many_entries(archive: str) -> BukvaError:
    return BukvaError(f"{archive}: has more than {MAX_ENTRIES} entries, the limit for a corpus; {ADVICE}")


def _entry_error(archive: Path, entry: str | bytes, why: str) -> BukvaError:
    return BukvaError(f"{archive.name}, entry {entry!r}: {why}; {ADVICE}")
