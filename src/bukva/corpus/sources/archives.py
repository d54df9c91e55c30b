"""Unpack archives from untrusted sources, which must be regular files and folders inside the target folder.

The number of entries and their total size are limited.
"""

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
from bukva.corpus.sources.encodings import guessed_encoding

MAX_BYTES = 4 << 30  # far above what a corpus for one machine needs, and far below the size of a disk
MAX_ENTRIES = 100_000
MAX_HEADER_BYTES = 256 << 20  # for all headers of an archive together, which zipfile and tarfile keep in memory

# first bytes of a file -> extension of its type
SIGNATURES = {
    b"%PDF-": ".pdf",
    **dict.fromkeys([b"PK\x03\x04", b"PK\x05\x06"], ".zip"),  # the second one is that of an empty zip
    b"\x1f\x8b": ".gz",
    b"BZh": ".bz2",
    b"\xfd7zXZ\0": ".xz",
    b"\x28\xb5\x2f\xfd": ".zst",
    b"7z\xbc\xaf\x27\x1c": ".7z",
    b"Rar!\x1a\x07": ".rar",
    b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1": ".doc",  # also .xls
    b"AT&TFORM": ".djvu",
    b"PAR1": ".parquet",
    b"SQLite format 3\0": ".sqlite",
    b"\x89PNG\r\n": ".png",
    b"\xff\xd8\xff": ".jpg",
}
TAR, TAR_OFFSET = b"ustar", 257  # magic bytes of a tar file, and their position
ZIP_ENTRY = b"PK\x01\x02"  # first bytes of each entry in the central directory, the list of files at the end of a zip

# Programs that write zip files use these encodings for file names without declaring them. The first line lists code
# pages of DOS, the second line code pages of Windows, and the third line encodings of East Asia.
NAME_ENCODINGS = (
    "cp866", "cp437", "cp850", "cp852", "cp737", "cp857",
    "cp1251", "cp1252", "cp1250", "cp1253", "cp1254",
    "cp932", "gb18030", "big5hkscs", "cp949",
)  # fmt: skip
IS_UTF8 = 0x800  # flag bit of a zip entry: the name is UTF-8
ADVICE = "Unpack the archive yourself, and read the result with download.corpus=local."
# The exceptions of zipfile, tarfile and gzip for damaged files. RuntimeError includes RecursionError (nested headers).
DAMAGED = (
    *(tarfile.TarError, zipfile.BadZipFile, gzip.BadGzipFile, zlib.error, struct.error),
    *(EOFError, RuntimeError, ValueError, LookupError, OverflowError),
)


class _BoundedReader(io.BufferedReader):
    """File reader that raises an error for an archive whose headers would need too much memory or time."""

    # zipfile creates an object for every entry before it returns the first one, and tarfile reads headers of any
    # length. A tar header can also place the next header very far away, and a .tar.gz would be decompressed up to it.
    # After checking the headers, callers lift the limit.

    def __init__(self, file: io.FileIO | gzip.GzipFile) -> None:
        super().__init__(cast("io.RawIOBase", file))
        self.header_bytes_left = MAX_HEADER_BYTES

    def read(self, size: int | None = -1, /) -> bytes:
        # zipfile omits the size only where it reads the last 64 kB of the file, so no limit is needed there
        raw = super().read(size if size is None or size < 0 else min(size, self.header_bytes_left + 1))
        self.header_bytes_left -= len(raw)
        if self.header_bytes_left < 0 or raw.count(ZIP_ENTRY) > MAX_ENTRIES:
            raise ValueError("the headers are too large")
        return raw

    def seek(self, target: int, whence: int = os.SEEK_SET, /) -> int:
        if whence == os.SEEK_SET and not 0 <= target <= MAX_BYTES + MAX_HEADER_BYTES:
            raise EOFError("an entry lies outside the archive")
        return super().seek(target, whence)


def signature(path: Path) -> str:
    """Return the extension of the type that the first bytes of a file show, or ""."""
    with path.open("rb") as file:
        head = file.read(TAR_OFFSET + len(TAR))
    if head[TAR_OFFSET:] == TAR:
        return ".tar"
    return next((extension for magic, extension in SIGNATURES.items() if head.startswith(magic)), "")


def is_archive(path: Path) -> bool:
    return signature(path) in (".zip", ".gz", ".tar")


def unpack(archive: Path, folder: Path) -> list[str]:
    """Unpack a .zip, .tar, .tar.gz or .tgz into `folder`, which must not exist yet.

    All headers are checked before the first file is written. After an error, the caller must delete `folder`. A
    truncated archive is not always detected; only a digest proves that it is complete. Returns the file names in a zip
    whose encoding was guessed, each as `name (encoding)`.
    """
    folder.mkdir(parents=True)
    try:
        if (kind := signature(archive)) == ".zip":
            with opened_zip(archive) as zipped:
                zipped.extractall(folder)
                encoding = zipped.metadata_encoding  # type: ignore[attr-defined]
                names = [] if encoding == "utf-8" else _undeclared_names(zipped)
                return [f"{name} ({encoding})" for name in names if not name.isascii()]
        with archive.open("rb", buffering=0) as file:
            reader = _BoundedReader(gzip.GzipFile(fileobj=file) if kind == ".gz" else file)
            tar = tarfile.TarFile(fileobj=reader, encoding="utf-8", errors="strict")
            # Links are refused here because filter="data" allows links to files inside the archive. Sparse files are
            # refused because they may unpack to more bytes than their header announces.
            plain = ((info.name, info.size, (info.isreg() and not info.sparse) or info.isdir()) for info in tar)
            _check(archive.name, plain)
            reader.header_bytes_left = sys.maxsize
            tar.extractall(folder, filter="data")
            return []
    except UnicodeDecodeError as error:
        what = f"a file name in the archive is not UTF-8: {error.object[:40]!r}"
        raise BukvaError(f"{archive.name}: {what}. {ADVICE}") from None
    except (*DAMAGED, OSError) as error:
        if isinstance(error, OSError) and error.errno in DISK:  # the disk failed, so the archive may be valid
            raise
        why = (isinstance(error, OSError) and error.strerror) or error
        advice = (
            "Use a complete .zip, .tar or .tar.gz file, or unpack the file yourself and read the result with "
            "download.corpus=local."
        )
        raise BukvaError(f"{archive.name}: is damaged, or is not an archive ({why}). {advice}") from None


@contextlib.contextmanager
def opened_zip(archive: Path) -> Iterator[zipfile.ZipFile]:
    """Open a .zip for reading, after checking the headers of all its entries.

    A damaged zip raises an exception of DAMAGED, which does not name the file.
    """
    with archive.open("rb", buffering=0) as file:
        reader = _BoundedReader(file)
        try:
            zipped = zipfile.ZipFile(reader, metadata_encoding="utf-8")
        except UnicodeDecodeError:
            reader.header_bytes_left = MAX_HEADER_BYTES
            encoding = _encoding_of(_undeclared_names(zipfile.ZipFile(reader)))
            reader.header_bytes_left = MAX_HEADER_BYTES
            zipped = zipfile.ZipFile(reader, metadata_encoding=encoding)
        _check(archive.name, ((info.filename, info.file_size, _is_plain(info)) for info in zipped.infolist()))
        reader.header_bytes_left = sys.maxsize
        yield zipped


def _undeclared_names(zipped: zipfile.ZipFile) -> list[str]:
    """Return the file names in a zip that are not declared to be UTF-8."""
    return [info.orig_filename for info in zipped.infolist() if not info.flag_bits & IS_UTF8]


def _encoding_of(names: list[str]) -> str:
    """Return the most probable encoding of file names that zipfile has decoded as cp437."""
    raw = "\n".join(name for name in names if not name.isascii()).encode("cp437")  # it has a character for every byte
    return guessed_encoding(raw, raw, NAME_ENCODINGS) or "cp437"


def _is_plain(info: zipfile.ZipInfo) -> bool:
    """Return whether an entry is an unencrypted regular file or folder, either uncompressed or in deflate format."""
    kind = stat.S_IFMT(info.external_attr >> 16)  # 0 if the archiver stored no Unix mode
    method = info.compress_type in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
    return kind in (0, stat.S_IFREG, stat.S_IFDIR) and method and not info.flag_bits & 1


def _check(archive: str, entries: Iterable[tuple[str, int, bool]]) -> None:
    """Raise a BukvaError if an archive has too many entries or bytes, or an entry that must not be unpacked."""
    bytes_left = MAX_BYTES
    for count, (name, n_bytes, is_plain) in enumerate(entries, start=1):
        bytes_left -= max(n_bytes, 0)
        if count > MAX_ENTRIES or bytes_left < 0:
            why = f"it has more than {MAX_ENTRIES} entries or {MAX_BYTES} bytes"
            raise BukvaError(f"{archive} is too large: {why}. {ADVICE}")
        path, what = PurePosixPath(name), ""
        if path.is_absolute() or ".." in path.parts:
            what = "its name leads outside the target folder"
        elif not is_plain:
            what = "it is a link or a device, is encrypted, or is compressed by a method other than deflate"
        if what:
            raise BukvaError(f"{archive}, entry {name!r}: {what}. {ADVICE}")
