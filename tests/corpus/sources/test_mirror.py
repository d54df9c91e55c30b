"""A mirror is used before the network, and a wrong or incomplete mirror is noticed."""

import hashlib

import pytest

from bukva.base.errors import BukvaError
from bukva.corpus.sources.fetching import UnreachableError
from bukva.corpus.sources.mirror import obtain

BODY = "Мой дядя самых честных правил\r\n".encode() * 1000
DIGEST = hashlib.sha256(BODY).hexdigest()
UNREACHABLE = "http://127.0.0.1:1/file"  # port 1: the connection is refused


def silent(*_: object) -> None:
    pass


def test_a_file_in_a_mirror_folder_is_used_in_place(tmp_path, monkeypatch) -> None:
    (tmp_path / "mirror").mkdir()
    mirrored = tmp_path / "mirror" / "book.txt"
    mirrored.write_bytes(BODY)
    monkeypatch.setenv("BUKVA_MIRROR", str(tmp_path / "mirror"))
    calls: list[tuple[int, int | None]] = []
    path = obtain(
        UNREACHABLE,
        "book.txt",
        tmp_path / "new",
        lambda *progress: calls.append(progress),
        pytest.fail,
        DIGEST,
    )
    assert path == mirrored
    assert calls == [(len(BODY), len(BODY))]


def test_a_relative_mirror_is_found_from_the_project(tmp_path, monkeypatch) -> None:
    (tmp_path / "project" / "mirror").mkdir(parents=True)
    (tmp_path / "project" / "mirror" / "book.txt").write_bytes(BODY)
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.setenv("DVC_ROOT", str(tmp_path / "project"))
    monkeypatch.setenv("BUKVA_MIRROR", "mirror")
    monkeypatch.chdir(tmp_path / "elsewhere")
    path = obtain(UNREACHABLE, "book.txt", tmp_path / "new", silent, pytest.fail)
    assert path.read_bytes() == BODY


def test_a_wrong_file_in_a_mirror_is_an_error(tmp_path, monkeypatch) -> None:
    (tmp_path / "book.txt").write_bytes(b"another")
    monkeypatch.setenv("BUKVA_MIRROR", str(tmp_path))
    with pytest.raises(BukvaError, match=rf"book\.txt: its SHA-256 is .*, not {DIGEST}"):
        obtain(UNREACHABLE, "book.txt", tmp_path / "new", silent, pytest.fail, DIGEST)


def test_a_mirror_folder_without_the_file_is_reported_and_the_network_used(server, tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("BUKVA_MIRROR", str(tmp_path / "mirror"))
    notes: list[str] = []
    path = obtain(server.has("/a", BODY), "book.txt", tmp_path / "new", silent, notes.append, DIGEST)
    assert path == tmp_path / "new" / "book.txt"
    assert path.read_bytes() == BODY
    assert notes == [f"BUKVA_MIRROR: {tmp_path}/mirror/book.txt does not exist. Fetching {server.address}/a instead."]


def test_a_mirror_on_the_network_is_used_first(server, tmp_path, monkeypatch) -> None:
    server.has("/mirror/book%20%231.txt", BODY)
    monkeypatch.setenv("BUKVA_MIRROR", f"{server.address}/mirror/")
    path = obtain(UNREACHABLE, "book #1.txt", tmp_path, silent, pytest.fail, DIGEST)
    assert path.read_bytes() == BODY


def test_a_mirror_on_the_network_without_the_file_is_reported_once(server, tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("BUKVA_MIRROR", f"{server.address}/mirror")
    notes: list[str] = []
    obtain(server.has("/a", BODY), "book.txt", tmp_path, silent, notes.append, DIGEST)
    assert (tmp_path / "book.txt").read_bytes() == BODY
    assert len(notes) == 1
    assert "status 404" in notes[0]


def test_without_network_the_mirror_is_suggested(tmp_path) -> None:
    with pytest.raises(UnreachableError, match=r"Or set BUKVA_MIRROR to a folder that contains book\.txt\.$"):
        obtain(UNREACHABLE, "book.txt", tmp_path, silent, pytest.fail)
