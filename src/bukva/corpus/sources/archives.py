"""Unpack archives from untrusted sources: plain files and folders only, inside of the target, within fixed bounds."""

import contextlib
import gzip
import io
import os
import stat
import struct
import sys
import tarfile
import zipfile
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path, PurePosixPath
from typing import cast

from bukva.core.errors import DISK, BukvaError

# far more than any corpus that one machine learns from, far less than fills a disk
MAX_BYTES = 4 << 30
MAX_ENTRIES = 100_000
MAX_HEADER_BYTES = 256 << 20  # of all entries together, which are held in memory

ZIP, EMPTY_ZIP, GZIP, TAR = b"PK\x03\x04", b"PK\x05\x06", b"\x1f\x8b", b"ustar"
ZIP_ENTRY = b"PK\x01\x02"  # begins each entry of the list at the end of a zip
TAR_OFFSET = 257

# Encodings of archivers that do not say so: those of DOS, of Windows, and of East Asia, where both have the same.
NAME_ENCODINGS = (
    "cp866", "cp437", "cp850", "cp852", "cp737", "cp857",
    "cp1251", "cp1252", "cp1250", "cp1253", "cp1254",
    "cp932", "gb18030", "big5hkscs", "cp949",
)  # fmt: skip
IS_UTF8 = 0x800  # a flag of an entry: its name is UTF-8

ADVICE = "unpack it yourself and use corpus local."

# what the readers raise for damaged bytes; RuntimeError also for headers within headers, and unknown compression
DAMAGED = (
    tarfile.TarError,
    zipfile.BadZipFile,
    gzip.BadGzipFile,
    zlib.error,
    struct.error,
    EOFError,
    RuntimeError,
    ValueError,
    LookupError,
    OverflowError,
)


class _BoundedReader(io.BufferedReader):
    """Bounds the memory and time of reading headers, whatever they announce.

    zipfile makes an object of every entry, and tarfile reads a header of any length, before they return the first
    entry; and a gzip is unpacked up to the position where the next header is announced.
    """

    def __init__(self, file: io.FileIO | gzip.GzipFile) -> None:
        super().__init__(cast("io.RawIOBase", file))
        self.header_bytes_left = MAX_HEADER_BYTES

    def read(self, size: int | None = -1, /) -> bytes:
        # without a size zipfile reads only the last 64 kB
        raw = super().read(size if size is None or size < 0 else min(size, self.header_bytes_left + 1))
        self.header_bytes_left -= len(raw)
        if self.header_bytes_left < 0 or raw.count(ZIP_ENTRY) > MAX_ENTRIES:
            raise ValueError("its headers are too large")
        return raw

    def seek(self, target: int, whence: int = os.SEEK_SET, /) -> int:
        if whence == os.SEEK_SET and not 0 <= target <= MAX_BYTES + MAX_HEADER_BYTES:
            raise EOFError("an entry is outside of the archive")
        return super().seek(target, whence)


def is_zip(path: Path) -> bool:
    """Whether a file starts like a .zip file; its name does not matter."""
    return _head(path).startswith((ZIP, EMPTY_ZIP))


def is_archive(path: Path) -> bool:
    """Whether a file starts like a .zip, .tar or .gz file; its name does not matter."""
    head = _head(path)
    return is_zip(path) or head.startswith(GZIP) or head[TAR_OFFSET:] == TAR


def unpack(archive: Path, folder: Path) -> list[str]:
    """Unpack a .zip, .tar, .tar.gz or .tgz into a new folder, which the caller deletes if this raises.

    All headers are read and checked before the first file is written. Only a digest can show that nothing is missing:
    a tar may be cut between entries, and the last checksum of a gzip is not read.

    Returns:
        The names whose encoding was guessed, each with the encoding.

    Raises:
        BukvaError: an entry is no plain file or folder or leads outside; there are too many entries or bytes; or the
            archive is damaged.
    """
    folder.mkdir(parents=True)
    try:
        if is_zip(archive):
            with opened_zip(archive) as zipped:
                zipped.extractall(folder)
                encoding = zipped.metadata_encoding  # type: ignore[attr-defined]
                names = [] if encoding == "utf-8" else zipped.infolist()
                return [f"{info.filename} ({encoding})" for info in names if _is_guessed(info)]
        with _opened_tar(archive) as tar:
            tar.extractall(folder, filter="data")
            return []
    except UnicodeDecodeError as error:
        what = f"a name in it is not UTF-8: {error.object[:40]!r}"
        raise BukvaError(f"{archive.name}: {what}; {ADVICE}") from None
    except (*DAMAGED, OSError) as error:
        if isinstance(error, OSError) and error.errno in DISK:  # this machine's, not the archive's
            raise
        why = (isinstance(error, OSError) and error.strerror) or error
        advice = f"use a complete .zip, .tar or .tar.gz file, or {ADVICE}"
        raise BukvaError(f"{archive.name}: damaged, or not an archive ({why}); {advice}") from None


@contextlib.contextmanager
def opened_zip(archive: Path) -> Iterator[zipfile.ZipFile]:
    """A .zip whose entries are checked, to be read without unpacking.

    Raises:
        BukvaError: as for unpack, except that damage raises one of DAMAGED, for the caller to name the file.
    """
    with archive.open("rb", buffering=0) as file:
        reader = _BoundedReader(file)
        try:
            zipped = zipfile.ZipFile(reader, metadata_encoding="utf-8")
        except UnicodeDecodeError:
            encoding = _encoding_of_names(reader)
            reader.header_bytes_left = MAX_HEADER_BYTES
            zipped = zipfile.ZipFile(reader, metadata_encoding=encoding)
        _check(archive.name, ((info.filename, info.file_size, _is_plain(info)) for info in zipped.infolist()))
        reader.header_bytes_left = sys.maxsize
        yield zipped


def _encoding_of_names(reader: _BoundedReader) -> str:
    """Return the one of NAME_ENCODINGS that the names of a zip have most probably, and which fits all of them."""
    import chardet

    reader.header_bytes_left = MAX_HEADER_BYTES
    # zipfile's own cp437 gives each byte a character, so the bytes can be restored
    names = [info.orig_filename for info in zipfile.ZipFile(reader).infolist() if not info.flag_bits & IS_UTF8]
    raw = "\n".join(name for name in names if not name.isascii()).encode("cp437")
    matches = chardet.detect_all(raw, include_encodings=NAME_ENCODINGS, compat_names=False, ignore_threshold=True)
    for match in matches:
        with contextlib.suppress(UnicodeDecodeError):
            raw.decode(encoding := match["encoding"] or "cp437")
            return encoding
    return "cp437"


def _is_guessed(info: zipfile.ZipInfo) -> bool:
    return not info.flag_bits & IS_UTF8 and not info.filename.isascii()


@contextlib.contextmanager
def _opened_tar(archive: Path) -> Iterator[tarfile.TarFile]:
    with archive.open("rb", buffering=0) as file:
        is_gzip = _head(archive).startswith(GZIP)
        reader = _BoundedReader(gzip.GzipFile(fileobj=file) if is_gzip else file)
        tar = tarfile.TarFile(fileobj=reader, encoding="utf-8", errors="strict")
        # filter="data" allows links inside of the archive; the parts of a sparse file may exceed its size
        _check(
            archive.name, ((info.name, info.size, (info.isreg() and not info.sparse) or info.isdir()) for info in tar)
        )
        reader.header_bytes_left = sys.maxsize
        yield tar


def _is_plain(info: zipfile.ZipInfo) -> bool:
    """Whether an entry is a file or a folder, not encrypted, and unpacks in pieces, as only these two methods do."""
    kind = stat.S_IFMT(info.external_attr >> 16)  # 0 if the archiver did not know Unix
    method = info.compress_type in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
    return kind in (0, stat.S_IFREG, stat.S_IFDIR) and method and not info.flag_bits & 1


def _check(archive: str, entries: Iterable[tuple[str, int, bool]]) -> None:
    """Raise at the first entry (its name, its bytes, whether it is plain) that is refused or exceeds a bound.

    The readers return no more bytes than the header of an entry announces, whatever the archive contains.
    """
    bytes_left = MAX_BYTES
    for count, (name, n_bytes, is_plain) in enumerate(entries, start=1):
        bytes_left -= max(n_bytes, 0)
        if count > MAX_ENTRIES or bytes_left < 0:
            raise BukvaError(f"{archive}: has more than {MAX_ENTRIES} entries or {MAX_BYTES} bytes; {ADVICE}")
        path, what = PurePosixPath(name), ""
        if path.is_absolute() or ".." in path.parts:
            what = "its name leads outside the folder"
        elif not is_plain:
            what = "is a link or a device, encrypted, or compressed by another method than deflate"
        if what:
            raise BukvaError(f"{archive}, entry {name!r}: {what}; {ADVICE}")


def _head(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(TAR_OFFSET + len(TAR))
