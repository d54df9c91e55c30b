"""Any archive unpacks to files and folders only, inside the target folder only, and within the bounds."""

import contextlib
import gzip
import io
import os
import random
import shutil
import stat
import struct
import subprocess
import tarfile
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from bukva.base.errors import BukvaError
from bukva.corpus.sources import archives
from bukva.corpus.sources.archives import is_archive, unpack
from bukva.corpus.sources.git_tree import git_tree_id

Pack = Callable[[Path, Mapping[str, bytes]], Path]
FILES = {"poems/Ёж.txt": "ёж\r\n".encode(), "README": b"", "poems/deep/er.txt": bytes(range(256))}


def tar_with(path: Path, *entries: tarfile.TarInfo | tuple[str, bytes], mode: str = "w:gz") -> Path:
    """A tar of such entries in this order; those with content are files."""
    with tarfile.open(path, mode) as tar:
        for entry in entries:
            if isinstance(entry, tarfile.TarInfo):
                tar.addfile(entry)
            else:
                info = tarfile.TarInfo(entry[0])
                info.size = len(entry[1])
                tar.addfile(info, io.BytesIO(entry[1]))
    return path


def zip_with(path: Path, *entries: tuple[str | zipfile.ZipInfo, bytes], method: int = zipfile.ZIP_DEFLATED) -> Path:
    with zipfile.ZipFile(path, "w", method) as file:
        for name, content in entries:
            file.writestr(name, content, method)
    return path


PACK: dict[str, Pack] = {
    "tar.gz": lambda folder, files: tar_with(folder / "a.b", *files.items()),
    "tar": lambda folder, files: tar_with(folder / "a.b", *files.items(), mode="w:"),
    "zip": lambda folder, files: zip_with(folder / "a.b", *files.items()),
}


def special(name: str, kind: bytes, to: str = "") -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, to
    return info


def contents(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if not p.is_dir()}


@pytest.fixture(params=PACK)
def pack(request: pytest.FixtureRequest) -> Pack:
    return PACK[request.param]


@pytest.fixture
def rejected(tmp_path: Path) -> Callable[[Path, str], None]:
    """The function returned checks that unpacking raises these words and writes nothing outside its folder."""

    def check(archive: Path, words: str) -> None:
        shutil.rmtree(tmp_path / "in", ignore_errors=True)
        before = set(tmp_path.rglob("*"))
        with pytest.raises(BukvaError, match=words):
            unpack(archive, tmp_path / "in" / "out")
        outside = {path for path in tmp_path.rglob("*") if not path.is_relative_to(tmp_path / "in")}
        assert outside == before
        assert not [path for path in tmp_path.rglob("*") if path.is_symlink()]

    return check


def test_an_archive_of_any_name_unpacks_to_its_files(pack, tmp_path) -> None:
    archive = pack(tmp_path, FILES)
    unpack(archive, tmp_path / "out")
    assert is_archive(archive)
    assert contents(tmp_path / "out") == FILES


@pytest.mark.parametrize("name", ["/tmp/evil.txt", "../evil.txt", "a/../../evil.txt", "//evil.txt"])
def test_names_that_lead_outside_are_rejected(name, pack, tmp_path, rejected) -> None:
    rejected(
        pack(tmp_path, {"good.txt": b"x", name: b"evil"}),
        f"entry '{name}': its name leads outside the folder; unpack it yourself",
    )


def test_the_names_of_a_zip_without_an_encoding_are_read_as_utf8_or_rejected(tmp_path, rejected) -> None:
    archive = zip_with(tmp_path / "a.zip", ("Xx.txt", b"x"))
    raw = archive.read_bytes()
    archive.write_bytes(raw.replace(b"Xx", "Ёж".encode("cp866")))
    rejected(archive, r"entry b'\\xf0\\xa6.txt': its name is not UTF-8")
    archive.write_bytes(raw.replace(b"Xx", "ё".encode()))
    unpack(archive, tmp_path / "out")
    assert contents(tmp_path / "out") == {"ё.txt": b"x"}


def test_links_and_devices_are_rejected_before_a_file_is_written_through_them(tmp_path, rejected) -> None:
    for kind in (tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.CHRTYPE, tarfile.FIFOTYPE):
        evil = special("x", kind, str(tmp_path)), ("x/evil.txt", b"evil")
        rejected(tar_with(tmp_path / "a.tgz", *evil), "entry 'x': is a link or device")
    link = zipfile.ZipInfo("x")
    link.external_attr = (stat.S_IFLNK | 0o777) << 16
    rejected(zip_with(tmp_path / "a.zip", (link, b"/etc/passwd")), "entry 'x': is a link or device")


@pytest.mark.filterwarnings("ignore:Duplicate name:UserWarning")
@pytest.mark.parametrize("second", ["a/x.txt", "./a/x.txt", "a/x.txt/y.txt"])
@pytest.mark.parametrize("make", [tar_with, zip_with], ids=["tar", "zip"])
def test_a_name_that_occurs_twice_is_rejected(make, second, tmp_path, rejected) -> None:
    archive = make(tmp_path / "archive", ("a/x.txt", b"one"), (second, b"two"))
    rejected(archive, f"entry '{second}': its name occurs twice")
    assert contents(tmp_path / "in" / "out") == {"a/x.txt": b"one"}


def test_more_bytes_or_entries_than_the_bound_are_rejected_before_one_is_written(
    pack, tmp_path, rejected, monkeypatch
) -> None:
    monkeypatch.setattr(archives, "MAX_BYTES", 10_000)
    monkeypatch.setattr(archives, "MAX_ENTRIES", 3)
    unpack(pack(tmp_path, {"a": bytes(6000), "b": bytes(4000), "c": b""}), tmp_path / "all")
    bomb = pack(tmp_path, {"a": bytes(6000), "bomb": bytes(4001)})
    rejected(bomb, "'bomb': with it the archive unpacks to more than 10000 bytes")
    assert contents(tmp_path / "in") == {}
    rejected(pack(tmp_path, dict.fromkeys("abcd", b"")), "more than 3 entries")
    assert contents(tmp_path / "in") == {}


def announcing(archive: Path, n_bytes: int) -> Path:
    """The zip with another announced number of bytes of its only entry, in both places."""
    raw = bytearray(archive.read_bytes())
    raw[22:26] = raw[(at := raw.index(b"PK\1\2") + 24) : at + 4] = struct.pack("<L", n_bytes)
    archive.write_bytes(raw)
    return archive


def test_files_said_to_be_of_100_gigabytes_are_rejected_unread(tmp_path, rejected) -> None:
    bomb = special("bomb", tarfile.REGTYPE)
    bomb.size = 100 * 10**9
    (tmp_path / "a.tgz").write_bytes(gzip.compress(bomb.tobuf()))
    words = f"with it the archive unpacks to more than {archives.MAX_BYTES} bytes"
    rejected(tmp_path / "a.tgz", f"entry 'bomb': {words}")
    raw = announcing(zip_with(tmp_path / "a.zip", ("a", b"x")), 10**9).read_bytes()
    at, end = raw.index(b"PK\1\2"), raw.index(b"PK\5\6")
    listed = raw[at:end] * 100  # all of them the same bytes, as in the densest bombs
    last = struct.pack("<4s4H2LH", b"PK\5\6", 0, 0, 100, 100, len(listed), at, 0)
    (tmp_path / "a.zip").write_bytes(raw[:at] + listed + last)
    rejected(tmp_path / "a.zip", f"entry 'a': {words}")


def test_no_more_bytes_are_unpacked_than_the_headers_announce(tmp_path, rejected) -> None:
    liar = announcing(zip_with(tmp_path / "a.zip", ("bomb", bytes(10**7))), 10)
    rejected(liar, "damaged, or not an archive .*Bad CRC")
    assert sum(map(len, contents(tmp_path / "in" / "out").values())) <= 10


def test_a_gzip_is_not_unpacked_up_to_a_header_beyond_the_bound(tmp_path, rejected, monkeypatch) -> None:
    monkeypatch.setattr(archives, "MAX_BYTES", 10_000)
    monkeypatch.setattr(archives, "MAX_HEADER_BYTES", 10_000)
    info = special("bomb", tarfile.REGTYPE)
    info.size, info.pax_headers = 10**6, {"GNU.sparse.size": "10"}  # of so many bytes 10 are the file
    rejected(tar_with(tmp_path / "a.tgz", info), "a.tgz: unpacks to more than 10000 bytes")


def test_headers_that_exceed_the_bound_are_rejected(tmp_path, rejected, monkeypatch) -> None:
    monkeypatch.setattr(archives, "MAX_HEADER_BYTES", 100_000)
    zipped = [zipfile.ZipInfo(name) for name in "ab"]
    for entry in zipped:
        entry.comment = b"x" * 60_000
    archive = zip_with(tmp_path / "a.zip", *((entry, b"") for entry in zipped))
    rejected(archive, "a.zip: has headers of more than 100000 bytes")


def test_a_zip_whose_pieces_unpack_to_any_size_is_rejected(tmp_path, rejected) -> None:
    archive = zip_with(tmp_path / "a.zip", ("x.txt", b"x"), method=zipfile.ZIP_BZIP2)
    rejected(archive, "entry 'x.txt': is compressed by another method than deflate")


@pytest.mark.filterwarnings("ignore:Duplicate name:UserWarning")
@pytest.mark.parametrize("times", [61, pytest.param(997, marks=pytest.mark.nightly)])
def test_a_damaged_archive_unpacks_or_is_rejected(times, pack, tmp_path) -> None:
    whole = pack(tmp_path, FILES).read_bytes()
    rng = random.Random(times)
    for n in range(times):
        raw = bytearray(whole)
        for _ in range(rng.choice([1, 3, 10])):
            raw[rng.randrange(len(raw))] = rng.choice([0, 255, rng.randrange(256)])
        (tmp_path / "a").write_bytes(raw[: rng.choice([len(raw), rng.randrange(len(raw))])])
        with contextlib.suppress(BukvaError):
            unpack(tmp_path / "a", tmp_path / str(n))


def test_an_encrypted_zip_is_rejected(tmp_path, rejected) -> None:
    archive = zip_with(tmp_path / "a.zip", ("x.txt", b"x"))
    raw = bytearray(archive.read_bytes())
    for header, flags in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        raw[raw.index(header) + flags] |= 1
    archive.write_bytes(raw)
    rejected(archive, "entry 'x.txt': is encrypted with a password")


def test_a_file_that_is_cut_or_not_an_archive_is_rejected_in_one_line(tmp_path) -> None:
    cut = [pack(tmp_path, {"x.txt": os.urandom(4000)}).read_bytes()[:2000] for pack in PACK.values()]
    for number, content in enumerate((b"<html>", b"\x1f\x8b<html>", b"PK\x03\x04<html>", b"", *cut)):
        (tmp_path / "page").write_bytes(content)
        with pytest.raises(BukvaError, match=r"^page: damaged, or not an archive [^\n]*$"):
            unpack(tmp_path / "page", tmp_path / str(number))


def test_the_id_of_a_folder_is_that_of_git(tmp_path) -> None:
    # git sorts folders as if a slash ended their names: between a-, a. and a0
    for name in ("a/x", "a-", "a.", "a0", "b/c/d", "Ёж.txt", "ёлка/п р.txt", "binary"):
        path = tmp_path / "folder" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"one\r\ntwo\0" + name.encode())
    (tmp_path / "folder" / "empty").mkdir()
    tree_id = git_tree_id(tmp_path / "folder")
    env = {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull, "PATH": os.environ["PATH"]}
    for command in ("init", "add .", "write-tree"):
        git = subprocess.run(
            ["git", *command.split()], cwd=tmp_path / "folder", env=env, check=True, capture_output=True, text=True
        )
    assert tree_id == git.stdout.strip()
