"""Any archive unpacks to files and folders only, inside the target folder only, and within the bounds."""

import gzip
import os
import shutil
import stat
import struct
import subprocess
import tarfile
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from corpus.sources.formats.made import file, zipped
from downloads import tar_gz, write

from bukva.core.errors import BukvaError
from bukva.corpus.sources import archives
from bukva.corpus.sources.archives import is_archive, unpack
from bukva.corpus.sources.download import folder_digest

Pack = Callable[[Path, Mapping[str, bytes]], Path]
FILES = {"poems/Ёж.txt": "ёж\r\n".encode(), "README": b"", "poems/deep/er.txt": bytes(range(256))}


PACK: dict[str, Pack] = {
    "tar.gz": lambda folder, files: file(folder / "a.b", tar_gz(files)),
    "tar": lambda folder, files: file(folder / "a.b", tar_gz(files, mode="w:")),
    "zip": lambda folder, files: zipped(folder / "a.b", files),
}


def zip_named(path: Path, encoding: str, *names: str) -> Path:
    """A zip of empty files whose names are in an encoding that it does not say."""
    raw = {name.encode(encoding): f"{number:0{len(name.encode(encoding))}}" for number, name in enumerate(names, 1)}
    content = zipped(path, dict.fromkeys(raw.values(), b"")).read_bytes()
    for name, stand_in in raw.items():
        content = content.replace(stand_in.encode(), name)
    return file(path, content)


def contents(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if not p.is_dir()}


@pytest.fixture(params=PACK.values(), ids=PACK)
def pack(request: pytest.FixtureRequest) -> Pack:
    return request.param


@pytest.fixture
def rejected(tmp_path: Path) -> Callable[[Path, str], None]:
    """The function returned checks that unpacking raises these words in one line and writes only into its folder."""

    def check(archive: Path, words: str) -> None:
        shutil.rmtree(tmp_path / "in", ignore_errors=True)
        before = set(tmp_path.rglob("*"))
        with pytest.raises(BukvaError, match=words) as error:
            unpack(archive, tmp_path / "in" / "out")
        assert "\n" not in str(error.value)
        assert {path for path in tmp_path.rglob("*") if not path.is_relative_to(tmp_path / "in")} == before
        assert not [path for path in tmp_path.rglob("*") if path.is_symlink()]

    return check


def test_an_archive_of_any_name_unpacks_to_its_files(pack, tmp_path) -> None:
    archive = pack(tmp_path, FILES)
    unpack(archive, tmp_path / "out")
    assert is_archive(archive)
    assert contents(tmp_path / "out") == FILES


@pytest.mark.parametrize("name", ["/tmp/evil.txt", "a/../../evil.txt"])
def test_names_that_lead_outside_or_that_no_file_system_takes_are_rejected(name, pack, tmp_path, rejected) -> None:
    words = f"entry '{name}': its name leads outside the target folder. Unpack the archive yourself"
    rejected(pack(tmp_path, {"good.txt": b"x", name: b"evil"}), words)
    rejected(pack(tmp_path, {"a/" + "ж" * 128: b"x"}), r"^a\.b: is damaged, or is not an archive \(File name too long")


@pytest.mark.parametrize(
    ("encoding", "names"),
    [
        ("cp866", ["Книга.txt", "Стихи/Ночь.txt", "Ёлка.txt", "plain.txt"]),
        ("cp437", ["Überraschung.txt", "été à la mer.txt"]),
        ("cp1251", ["Чехов/Степь.txt", "Нос.txt"]),
        ("cp932", ["夏目漱石/こころ.txt", "坊っちゃん.txt", "表.txt"]),  # 表 has the byte of a backslash
        ("gb18030", ["鲁迅/狂人日记.txt", "老舍/骆驼祥子.txt"]),
        ("utf-8", ["Книга.txt"]),  # without saying so
    ],
)
def test_names_of_a_zip_that_are_not_utf8_are_guessed_and_returned(encoding, names, tmp_path, monkeypatch) -> None:
    archive = zip_named(tmp_path / "a.zip", encoding, *names)
    monkeypatch.setattr(archives, "MAX_HEADER_BYTES", archive.stat().st_size)  # a bound for each of three readings
    guessed = unpack(archive, tmp_path / "out")
    assert sorted(contents(tmp_path / "out")) == sorted(names)
    assert guessed == [f"{name} ({encoding})" for name in names if not name.isascii() and encoding != "utf-8"]


def test_names_of_a_tar_that_are_not_utf8_are_an_error_that_says_so(tmp_path, rejected) -> None:
    with tarfile.open(tmp_path / "a.tar", "w", encoding="cp866", format=tarfile.GNU_FORMAT) as tar:
        tar.addfile(tarfile.TarInfo("Книга.txt"))
    rejected(tmp_path / "a.tar", r"^a\.tar: a file name in the archive is not UTF-8: b'.*'\. Unpack the archive")


def test_links_and_devices_are_rejected_before_a_file_is_written_through_them(tmp_path, rejected) -> None:
    for kind in (tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.CHRTYPE, tarfile.FIFOTYPE):
        evil = tarfile.TarInfo("x")
        evil.type, evil.linkname = kind, str(tmp_path)
        archive = file(tmp_path / "a.tgz", tar_gz({"x": evil, "x/evil.txt": b"evil"}))
        rejected(archive, "entry 'x': it is a link or a device")
    link = zipfile.ZipInfo("x")
    link.external_attr = (stat.S_IFLNK | 0o777) << 16
    rejected(zipped(tmp_path / "a.zip", {link: b"/etc/passwd"}), "entry 'x': it is a link or a device")


def test_of_a_name_that_occurs_twice_the_last_one_is_kept_and_no_file_is_a_folder_too(pack, tmp_path, rejected) -> None:
    unpack(pack(tmp_path, {"a/x.txt": b"one", "./a/x.txt": b"two"}), tmp_path / "out")
    assert contents(tmp_path / "out") == {"a/x.txt": b"two"}
    rejected(pack(tmp_path, {"a/x.txt": b"one", "a/x.txt/y.txt": b"two"}), "is damaged, or is not an archive")


def test_more_bytes_or_entries_than_a_bound_are_rejected_before_one_is_written(pack, tmp_path, rejected, monkeypatch):
    monkeypatch.setattr(archives, "MAX_BYTES", 10_000)
    monkeypatch.setattr(archives, "MAX_ENTRIES", 3)
    unpack(pack(tmp_path, {"a": bytes(6000), "b": bytes(4000), "c": b""}), tmp_path / "all")
    bomb = pack(tmp_path, {"a": bytes(6000), "bomb": bytes(4001)})
    rejected(bomb, "is too large: it has more than 3 entries or 10000 bytes. Unpack the archive yourself")
    assert contents(tmp_path / "in") == {}
    rejected(pack(tmp_path, dict.fromkeys("abcd", b"")), "it has more than 3 entries or|the headers are too large")
    assert contents(tmp_path / "in") == {}


def test_headers_have_a_bound_of_their_own_because_they_are_read_whole(tmp_path, rejected, monkeypatch) -> None:
    monkeypatch.setattr(archives, "MAX_HEADER_BYTES", 10_000)
    rejected(zipped(tmp_path / "many.zip", dict.fromkeys(map(str, range(293)), b"")), "the headers are too large")


def test_no_more_bytes_are_unpacked_than_the_headers_announce(tmp_path, rejected) -> None:
    liar = zipped(tmp_path / "a.zip", {"bomb": bytes(10**7)})
    raw = bytearray(liar.read_bytes())
    raw[22:26] = raw[(at := raw.index(b"PK\1\2") + 24) : at + 4] = struct.pack("<L", 10)  # in both places
    liar.write_bytes(raw)
    rejected(liar, "is damaged, or is not an archive .*Bad CRC")
    assert sum(map(len, contents(tmp_path / "in" / "out").values())) <= 10


def test_a_file_that_is_cut_or_not_an_archive_is_rejected_with_advice(tmp_path, rejected) -> None:
    cut = [pack(tmp_path, {"x.txt": os.urandom(4000)}).read_bytes()[:2000] for pack in PACK.values()]
    compressed = gzip.compress("Привет\n".encode() * 99)
    for content in (b"<html>", b"\x1f\x8b<html>", b"PK\x03\x04<html>", b"", compressed, *cut):
        advice = r".*\.tar\.gz file, or unpack the file yourself .*\.corpus=local\.$"
        rejected(file(tmp_path / "page", content), rf"^page: is damaged, or is not an archive {advice}")


def test_the_digest_of_a_folder_is_of_all_names_and_contents_as_the_shell_computes_it(tmp_path) -> None:
    names = "a/x", "a-", "a.", "a0", "b/c/.d", "Ёж.txt", "ёлка/п р.txt", "new\nline"
    write(tmp_path, {name: f"one\r\ntwo\0{name}" for name in names})
    command = "find * -type f -print0 | LC_ALL=C sort -z | xargs -0 sha256sum -z | sha256sum"
    printed = subprocess.run(["sh", "-c", command], cwd=tmp_path, check=True, capture_output=True, text=True).stdout
    assert folder_digest(tmp_path) == printed.split()[0]
