"""Archives from strangers, unpacked without trust, and the ids that git gives to folders."""

import gzip
import os
import stat
import tarfile
import zipfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import IO, TYPE_CHECKING, Literal

from bukva.errors import BukvaError

if TYPE_CHECKING:
    from dulwich.objects import Tree

# far more than any corpus that one machine learns from, far less than fills a disk
MAX_BYTES = 4 << 30
MAX_ENTRIES = 100_000
MAX_NAME_BYTES = 255  # Windows allows 255 letters, which are 510 bytes of Russian
PIECE_BYTES = 1 << 20

ZIP, EMPTY_ZIP, GZIP, TAR = b"PK\x03\x04", b"PK\x05\x06", b"\x1f\x8b", b"ustar"
TAR_AT = 257

# what the readers raise over bytes that are not what they should be
DAMAGED = (tarfile.TarError, zipfile.BadZipFile, gzip.BadGzipFile, zlib.error, EOFError, NotImplementedError)


@dataclass(frozen=True)
class _Entry:
    """What an archive says it holds: a file, whose content can be read, a folder, or something unwanted."""

    name: str
    content: IO[bytes] | None = None
    unwanted: str = ""


def is_archive(path: Path) -> bool:
    """Whether a file begins as .zip, .tar and .gz do; its name says nothing."""
    with path.open("rb") as file:
        head = file.read(TAR_AT + len(TAR))
    return head.startswith((ZIP, EMPTY_ZIP, GZIP)) or head[TAR_AT:] == TAR


def unpack(archive: Path, folder: Path) -> None:
    """Unpack a .zip, .tar, .tar.gz or .tgz into a new folder, which the caller throws away if this raises.

    tarfile's own filter lets links inside the folder pass and counts nothing, zipfile has none; here both go
    one way: files and folders only, inside `folder`, each file once, within the bounds. That nothing is
    missing only a digest can tell: a tar may be cut between entries, and a gzip's last sum is not read.

    Raises:
        BukvaError: an entry is a link, a device or locked, leads outside, comes twice, or has a name that no
            file can have; there are too many entries, or bytes, whatever the headers say; it is damaged.
    """
    folder.mkdir(parents=True)
    bytes_left = MAX_BYTES
    try:
        for count, entry in enumerate(_entries(archive), start=1):
            if count > MAX_ENTRIES:
                raise BukvaError(f"{archive.name}: has more than {MAX_ENTRIES} entries; no corpus needs so many.")
            if reason := entry.unwanted or _fault_of_name(entry.name):
                raise _refusal(archive, entry.name, reason)
            bytes_left -= _extract(entry, archive, folder, bytes_left)
    except UnicodeDecodeError as error:
        raise _refusal(archive, error.object, "its name is not UTF-8") from None
    except DAMAGED as error:
        raise BukvaError(
            f"{archive.name}: damaged or no archive ({error}); a whole .zip, .tar or .tar.gz would do."
        ) from None


def git_tree_id(folder: Path) -> str:
    """The id that git gives to a folder of plain files, in hexadecimal digits: it pins names and bytes."""
    return _tree(folder).id.decode()


def _entries(archive: Path) -> Iterator[_Entry]:
    with archive.open("rb") as file:
        head = file.read(len(ZIP))
    if head in (ZIP, EMPTY_ZIP):
        return _zip_entries(archive)
    return _tar_entries(archive, "r:gz" if head.startswith(GZIP) else "r:")


def _zip_entries(archive: Path) -> Iterator[_Entry]:
    # names not marked as UTF-8 would else be read as cp437, where any bytes are some letters
    with zipfile.ZipFile(archive, metadata_encoding="utf-8") as opened:
        for info in opened.infolist():
            kind = stat.S_IFMT(info.external_attr >> 16)  # 0 if the archiver did not know Unix
            if kind not in (0, stat.S_IFREG, stat.S_IFDIR):
                yield _Entry(info.filename, unwanted="is a link or device")
            elif info.flag_bits & 1:
                yield _Entry(info.filename, unwanted="is locked with a password")
            else:
                yield _Entry(info.filename, content=None if info.is_dir() else opened.open(info))


def _tar_entries(archive: Path, mode: Literal["r:gz", "r:"]) -> Iterator[_Entry]:
    with tarfile.open(archive, mode, encoding="utf-8", errors="strict") as opened:
        for info in opened:
            if not (info.isreg() or info.isdir()):
                yield _Entry(info.name, unwanted="is a link or device")
            else:
                yield _Entry(info.name, content=opened.extractfile(info))


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


def _extract(entry: _Entry, archive: Path, folder: Path, bytes_left: int) -> int:
    """Make the file or folder; returns how many bytes came out."""
    path, done = folder / entry.name, 0
    try:
        if entry.content is None:
            path.mkdir(parents=True, exist_ok=True)
            return 0
        path.parent.mkdir(parents=True, exist_ok=True)
        with entry.content as source, path.open("xb") as file:
            while piece := source.read(PIECE_BYTES):
                done += len(piece)
                if done > bytes_left:
                    raise _refusal(archive, entry.name, f"with it more than {MAX_BYTES} bytes come out")
                file.write(piece)
    except (FileExistsError, NotADirectoryError):
        raise _refusal(archive, entry.name, "its name comes twice") from None
    return done


def _refusal(archive: Path, entry: str | bytes, why: str) -> BukvaError:
    return BukvaError(f"{archive.name}, entry {entry!r}: {why}; corpus local, unpacked by hand, would do.")


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
