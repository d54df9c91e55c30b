"""Any archive unpacks to files and folders only, inside the target folder only, and within the bounds."""

import contextlib
import gzip
import io
import os
import random
import stat
import struct
import subprocess
import tarfile
import tracemalloc
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


def zip_with(path: Path, *entries: tuple[str | zipfile.ZipInfo, bytes]) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        for name, content in entries:
            file.writestr(name, content, zipfile.ZIP_DEFLATED)
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


def zipped_link(name: str) -> zipfile.ZipInfo:
    info = zipfile.ZipInfo(name)
    info.external_attr = (stat.S_IFLNK | 0o777) << 16
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
        before = set(tmp_path.rglob("*"))
        with pytest.raises(BukvaError, match=words):
            unpack(archive, tmp_path / "in" / "out")
        outside = {path for path in tmp_path.rglob("*") if not path.is_relative_to(tmp_path / "in")}
        assert outside == before
        assert not [path for path in tmp_path.rglob("*") if path.is_symlink()]

    return check


# ---- valid archives


def test_an_archive_of_any_name_unpacks_to_its_files(pack, tmp_path) -> None:
    archive = pack(tmp_path, FILES)
    unpack(archive, tmp_path / "out")
    assert is_archive(archive)
    assert contents(tmp_path / "out") == FILES


def test_empty_folders_and_the_top_folder_are_accepted(tmp_path) -> None:
    folder = special("empty", tarfile.DIRTYPE)
    unpack(tar_with(tmp_path / "a.tgz", special("./", tarfile.DIRTYPE), folder, folder), tmp_path / "out")
    unpack(zip_with(tmp_path / "a.zip", ("empty/", b"")), tmp_path / "zipped")
    assert (tmp_path / "out" / "empty").is_dir()
    assert (tmp_path / "zipped" / "empty").is_dir()


def test_the_file_modes_of_an_archive_are_ignored(tmp_path) -> None:
    info = special("locked.txt", tarfile.REGTYPE)
    info.mode = 0o4000
    unpack(tar_with(tmp_path / "a.tgz", info), tmp_path / "out")
    mode = (tmp_path / "out" / "locked.txt").stat().st_mode
    assert mode & stat.S_IRUSR
    assert not mode & stat.S_ISUID


@pytest.mark.parametrize("content", [b"", b"Once upon a time", "Мой дядя".encode(), b"P", b"\n" * 600])
def test_a_text_is_not_an_archive(content, tmp_path) -> None:
    (tmp_path / "book.zip").write_bytes(content)
    assert not is_archive(tmp_path / "book.zip")


def test_the_names_of_a_zip_without_an_encoding_are_read_as_utf8(tmp_path) -> None:
    archive = zip_with(tmp_path / "a.zip", ("Xx.txt", b"x"))
    archive.write_bytes(archive.read_bytes().replace(b"Xx", "ё".encode()))
    unpack(archive, tmp_path / "out")
    assert contents(tmp_path / "out") == {"ё.txt": b"x"}


# ---- rejected archives


@pytest.mark.parametrize("name", ["/tmp/evil.txt", "../evil.txt", "a/../../evil.txt", "a/..", "//evil.txt"])
def test_names_that_lead_outside_are_rejected(name, pack, tmp_path, rejected) -> None:
    rejected(
        pack(tmp_path, {"good.txt": b"x", name: b"evil"}),
        f"entry '{name}': its name leads outside the folder; unpack it yourself",
    )


def test_names_too_long_for_a_file_system_are_rejected(pack, tmp_path, rejected) -> None:
    rejected(pack(tmp_path, {"ё" * 126 + ".txt": b"x"}), "entry 'ё+.txt': its name has a component of more")


def test_a_zero_byte_in_a_name_is_rejected(tmp_path, rejected) -> None:
    info = tarfile.TarInfo("a")
    info.pax_headers = {"path": "a\0b"}
    rejected(tar_with(tmp_path / "a.tar", info, mode="w:"), "contains a zero byte")


@pytest.mark.parametrize(
    "entry",
    [
        special("x", tarfile.SYMTYPE, "good.txt"),
        special("x", tarfile.SYMTYPE, "/etc/passwd"),
        special("x", tarfile.LNKTYPE, "good.txt"),
        special("x", tarfile.CHRTYPE),
        special("x", tarfile.BLKTYPE),
        special("x", tarfile.FIFOTYPE),
    ],
    ids=["link inside", "link outside", "hard link", "character device", "block device", "fifo"],
)
def test_links_and_devices_are_rejected(entry, tmp_path, rejected) -> None:
    rejected(tar_with(tmp_path / "a.tgz", ("good.txt", b"x"), entry), "entry 'x': is a link or device")


def test_links_in_a_zip_are_rejected(tmp_path, rejected) -> None:
    rejected(zip_with(tmp_path / "a.zip", (zipped_link("x"), b"/etc/passwd")), "entry 'x': is a link")


def test_a_file_written_through_a_link_is_rejected(tmp_path, rejected) -> None:
    link = special("x", tarfile.SYMTYPE, str(tmp_path))
    rejected(tar_with(tmp_path / "a.tgz", link, ("x/evil.txt", b"evil")), "entry 'x': is a link")


def test_more_bytes_than_the_bound_are_rejected(pack, tmp_path, rejected, monkeypatch) -> None:
    monkeypatch.setattr(archives, "MAX_BYTES", 10_000)
    monkeypatch.setattr(archives, "PIECE_BYTES", 1000)
    rejected(
        pack(tmp_path, {"a": bytes(6000), "bomb": bytes(10**6)}),
        "'bomb': with it the archive unpacks to more than 10000 bytes",
    )
    assert contents(tmp_path / "in") == {}


def test_exactly_the_bound_of_bytes_is_accepted(pack, tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(archives, "MAX_BYTES", 10_000)
    unpack(pack(tmp_path, {"a": bytes(6000), "b": bytes(4000)}), tmp_path / "out")


def test_more_entries_than_the_bound_are_rejected(pack, tmp_path, rejected, monkeypatch) -> None:
    monkeypatch.setattr(archives, "MAX_ENTRIES", 3)
    unpack(pack(tmp_path, dict.fromkeys("abc", b"")), tmp_path / "three")
    rejected(pack(tmp_path, dict.fromkeys("abcd", b"")), "more than 3 entries")


MANY_BYTES = 100 * 10**9


def announcing(archive: Path, n_bytes: int) -> Path:
    """The zip with another announced number of bytes of its only entry, in both places."""
    raw = bytearray(archive.read_bytes())
    raw[22:26] = raw[(at := raw.index(b"PK\1\2") + 24) : at + 4] = struct.pack("<L", n_bytes)
    archive.write_bytes(raw)
    return archive


def huge_tar(path: Path) -> None:
    info = special("bomb", tarfile.REGTYPE)
    info.size = MANY_BYTES
    path.write_bytes(info.tobuf())


def huge_gzip(path: Path) -> None:
    huge_tar(path)
    path.write_bytes(gzip.compress(path.read_bytes()))


def huge_zip(path: Path) -> None:
    with zipfile.ZipFile(path, "w") as file, file.open("bomb", "w", force_zip64=True) as content:
        content.write(b"x")
        content._file_size = MANY_BYTES  # so that the list of entries announces so many


@pytest.mark.parametrize("make", [huge_tar, huge_gzip, huge_zip])
def test_a_file_said_to_be_of_100_gigabytes_is_rejected_unread(make, tmp_path, rejected) -> None:
    make(tmp_path / "archive")
    rejected(tmp_path / "archive", f"entry 'bomb': with it the archive unpacks to more than {archives.MAX_BYTES} bytes")


def test_many_files_said_to_be_of_100_gigabytes_together_are_rejected_unread(tmp_path, rejected) -> None:
    archive = announcing(zip_with(tmp_path / "a.zip", ("a", b"x")), 10**9)
    raw = archive.read_bytes()
    at, end = raw.index(b"PK\1\2"), raw.index(b"PK\5\6")
    listed = raw[at:end] * 100  # all of them the same bytes of the archive, as in the densest bombs
    archive.write_bytes(raw[:at] + listed + struct.pack("<4s4H2LH", b"PK\5\6", 0, 0, 100, 100, len(listed), at, 0))
    rejected(archive, "entry 'a': with it the archive unpacks to more than")


def test_no_more_bytes_are_unpacked_than_the_headers_announce(tmp_path, rejected) -> None:
    rejected(
        announcing(zip_with(tmp_path / "a.zip", ("bomb", bytes(10**7))), 10), "damaged, or not an archive .*Bad CRC"
    )
    assert sum(map(len, contents(tmp_path / "in" / "out").values())) <= 10


def test_a_gzip_is_not_unpacked_up_to_a_header_beyond_the_bound(tmp_path, rejected, monkeypatch) -> None:
    monkeypatch.setattr(archives, "MAX_BYTES", 10_000)
    monkeypatch.setattr(archives, "MAX_HEADER_BYTES", 10_000)
    info = special("bomb", tarfile.REGTYPE)
    info.size, info.pax_headers = 10**6, {"GNU.sparse.size": "10"}  # of so many bytes 10 are the file
    rejected(tar_with(tmp_path / "a.tgz", info), "a.tgz: unpacks to more than 10000 bytes")


def commented_tar(path: Path) -> None:
    info = special("a", tarfile.REGTYPE)
    info.pax_headers = {"comment": "x" * 60_000}
    tar_with(path, info, info)


def commented_zip(path: Path) -> None:
    zipped = [zipfile.ZipInfo(name) for name in "ab"]
    for entry in zipped:
        entry.comment = b"x" * 60_000
    zip_with(path, *((entry, b"") for entry in zipped))


@pytest.mark.parametrize("make", [commented_tar, commented_zip])
def test_headers_that_exceed_the_bound_are_rejected(make, tmp_path, rejected, monkeypatch) -> None:
    monkeypatch.setattr(archives, "MAX_HEADER_BYTES", 100_000)
    make(tmp_path / "archive")
    rejected(tmp_path / "archive", "archive: has headers of more than 100000 bytes")


@pytest.mark.parametrize("method", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_a_zip_whose_pieces_unpack_to_any_size_is_rejected(method, tmp_path, rejected) -> None:
    with zipfile.ZipFile(tmp_path / "a.zip", "w", method) as file:
        file.writestr("x.txt", b"x")
    rejected(tmp_path / "a.zip", "entry 'x.txt': is compressed by another method than deflate")


@pytest.mark.parametrize("announced", [65535, 1])
def test_a_zip_of_a_million_entries_is_rejected_before_they_become_objects(
    announced, tmp_path, rejected, peak_memory
) -> None:
    raw = zip_with(tmp_path / "a.zip", ("a.txt", b"x")).read_bytes()
    at, end = raw.index(b"PK\1\2"), raw.index(b"PK\5\6")
    listed = raw[at:end] * 10**6
    ends = struct.pack(
        "<4s4H2LH", b"PK\5\6", 0, 0, announced, announced, len(listed), at, 0
    )  # zipfile ignores the announced count
    (tmp_path / "a.zip").write_bytes(raw[:at] + listed + ends)
    n_bytes = len(listed)
    del listed, raw
    tracemalloc.reset_peak()
    rejected(tmp_path / "a.zip", "more than 100000 entries")
    assert peak_memory() < 1.1 * n_bytes
    assert contents(tmp_path / "in") == {}


@pytest.mark.slow
def test_a_tar_of_a_million_entries_is_rejected_before_the_first_is_written(
    tmp_path, rejected, monkeypatch, peak_memory
) -> None:
    monkeypatch.setattr(archives, "MAX_ENTRIES", 20_000)  # 100,000 take long while memory is measured
    thousand = gzip.compress(b"".join(tarfile.TarInfo(f"{n}.txt").tobuf() for n in range(1000)))
    (tmp_path / "a.tgz").write_bytes(thousand * 1000)
    rejected(tmp_path / "a.tgz", "more than 20000 entries")
    assert peak_memory() < 40e6
    assert contents(tmp_path / "in") == {}


def test_headers_of_headers_without_an_end_are_rejected(tmp_path, rejected) -> None:
    (tmp_path / "a.tar").write_bytes(special("x", tarfile.XHDTYPE).tobuf(tarfile.USTAR_FORMAT) * 5000)
    rejected(tmp_path / "a.tar", "damaged, or not an archive .maximum recursion")


def test_the_content_of_files_does_not_count_as_headers(pack, tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(archives, "MAX_HEADER_BYTES", 20_000)
    monkeypatch.setattr(archives, "MAX_ENTRIES", 3)
    files = {"a.txt": os.urandom(30_000), "b.txt": archives.ZIP_ENTRY * 10}
    unpack(pack(tmp_path, files), tmp_path / "out")
    assert contents(tmp_path / "out") == files


@pytest.mark.filterwarnings("ignore:Duplicate name:UserWarning")
def test_a_damaged_archive_unpacks_or_is_rejected(pack, tmp_path) -> None:
    whole = pack(tmp_path, FILES).read_bytes()
    rng = random.Random(0)
    for n in range(300):
        raw = bytearray(whole)
        for _ in range(rng.choice([1, 3, 10])):
            raw[rng.randrange(len(raw))] = rng.choice([0, 255, rng.randrange(256)])
        (tmp_path / "a").write_bytes(raw[: rng.choice([len(raw), rng.randrange(len(raw))])])
        with contextlib.suppress(BukvaError):
            unpack(tmp_path / "a", tmp_path / str(n))


@pytest.mark.filterwarnings("ignore:Duplicate name:UserWarning")
@pytest.mark.parametrize("second", ["a/x.txt", "a//x.txt", "./a/x.txt", "a/x.txt/y.txt", "a/x.txt/y/z.txt"])
@pytest.mark.parametrize("make", [tar_with, zip_with], ids=["tar", "zip"])
def test_a_name_that_occurs_twice_is_rejected(make, second, tmp_path, rejected) -> None:
    archive = make(tmp_path / "archive", ("a/x.txt", b"one"), (second, b"two"))
    rejected(archive, f"entry '{second}': its name occurs twice")
    assert contents(tmp_path / "in" / "out") == {"a/x.txt": b"one"}


def test_a_folder_with_the_name_of_a_file_is_rejected(tmp_path, rejected) -> None:
    rejected(tar_with(tmp_path / "a.tgz", ("x", b""), special("x", tarfile.DIRTYPE)), "its name occurs twice")


def test_names_that_are_not_utf8_are_rejected_in_a_tar(tmp_path, rejected) -> None:
    with tarfile.open(tmp_path / "a.tar", "w", encoding="cp1251", format=tarfile.GNU_FORMAT) as tar:
        tar.addfile(tarfile.TarInfo("Ёж.txt"))
    rejected(tmp_path / "a.tar", r"entry b'\\xa8\\xe6.txt': its name is not UTF-8")


def test_names_that_are_not_utf8_are_rejected_in_a_zip(tmp_path, rejected) -> None:
    archive = zip_with(tmp_path / "a.zip", ("Xx.txt", b"x"))
    archive.write_bytes(archive.read_bytes().replace(b"Xx", "Ёж".encode("cp866")))
    rejected(archive, r"entry b'\\xf0\\xa6.txt': its name is not UTF-8")


def test_an_encrypted_zip_is_rejected(tmp_path, rejected) -> None:
    archive = zip_with(tmp_path / "a.zip", ("x.txt", b"x"))
    raw = bytearray(archive.read_bytes())
    for header, flags in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        raw[raw.index(header) + flags] |= 1
    archive.write_bytes(raw)
    rejected(archive, "entry 'x.txt': is encrypted with a password")


@pytest.mark.parametrize("size", [20, 300, 2000])
def test_a_cut_archive_is_rejected(size, pack, tmp_path, rejected) -> None:
    archive = pack(tmp_path, {"x.txt": os.urandom(4000)})
    archive.write_bytes(archive.read_bytes()[:size])
    rejected(archive, "a.b: damaged, or not an archive")


def test_a_changed_byte_in_a_zip_is_rejected(tmp_path, rejected) -> None:
    archive = zip_with(tmp_path / "a.zip", ("x.txt", bytes(range(256)) * 16))
    raw = bytearray(archive.read_bytes())
    raw[100] ^= 1
    archive.write_bytes(raw)
    rejected(archive, "a.zip: damaged")


def test_a_file_that_is_not_an_archive_is_rejected_in_one_line(tmp_path) -> None:
    for content in (b"<html>", b"\x1f\x8b<html>", b"PK\x03\x04<html>", b""):
        (tmp_path / "page").write_bytes(content)
        with pytest.raises(BukvaError, match=r"^page: damaged, or not an archive [^\n]*$"):
            unpack(tmp_path / "page", tmp_path / f"out {content!r}".replace("/", ""))


# ---- ids of git


def git(folder: Path, *arguments: str) -> str:
    env = {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull, "PATH": os.environ["PATH"]}
    return subprocess.run(
        ["git", *arguments], cwd=folder, env=env, check=True, capture_output=True, text=True
    ).stdout.strip()


def test_the_id_of_a_folder_is_that_of_git(tmp_path) -> None:
    # git sorts folders as if a slash ended their names: between a-, a. and a0
    names = ["a/x", "a-", "a.", "a0", "b/c/d", "Ёж.txt", "ёлка/п р.txt", "binary"]
    for name in names:
        path = tmp_path / "folder" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"one\r\ntwo\0" + name.encode())
    (tmp_path / "folder" / "empty").mkdir()
    tree_id = git_tree_id(tmp_path / "folder")
    git(tmp_path / "folder", "init")
    git(tmp_path / "folder", "add", ".")
    assert tree_id == git(tmp_path / "folder", "write-tree")


def test_the_id_of_a_folder_changes_with_one_byte_and_one_name(tmp_path) -> None:
    (tmp_path / "x").write_bytes(b"a\n")
    ids = [git_tree_id(tmp_path)]
    (tmp_path / "x").write_bytes(b"a\r\n")
    ids.append(git_tree_id(tmp_path))
    (tmp_path / "x").rename(tmp_path / "y")
    ids.append(git_tree_id(tmp_path))
    assert len(set(ids)) == 3
