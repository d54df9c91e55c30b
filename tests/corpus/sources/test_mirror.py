"""A mirror is used before the network, and a wrong or incomplete mirror is noticed."""

import hashlib

import pytest

from bukva.base.errors import BukvaError
from bukva.corpus.sources.mirror import obtain

BODY = "Мой дядя самых честных правил\r\n".encode() * 1000
DIGEST = hashlib.sha256(BODY).hexdigest()
UNREACHABLE = "http://127.0.0.1:1/file"  # port 1: the connection is refused


def test_a_file_in_a_mirror_folder_is_used_in_place_and_found_from_the_project(tmp_path, monkeypatch) -> None:
    mirrored = tmp_path / "mirror" / "book.txt"
    mirrored.parent.mkdir()
    mirrored.write_bytes(BODY)
    monkeypatch.setenv("DVC_ROOT", str(tmp_path))
    monkeypatch.setenv("BUKVA_MIRROR", "mirror")
    monkeypatch.chdir("/")
    assert obtain(UNREACHABLE, "book.txt", tmp_path / "new", lambda *_: None, pytest.fail, DIGEST) == mirrored
    mirrored.write_bytes(b"another")
    with pytest.raises(BukvaError, match=rf"book\.txt: its SHA-256 is .*, not {DIGEST}"):
        obtain(UNREACHABLE, "book.txt", tmp_path / "new", lambda *_: None, pytest.fail, DIGEST)


def test_a_mirror_on_the_network_is_used_first(server, tmp_path, monkeypatch) -> None:
    server.has("/mirror/book%20%231.txt", BODY)
    monkeypatch.setenv("BUKVA_MIRROR", f"{server.address}/mirror/")
    path = obtain(UNREACHABLE, "book #1.txt", tmp_path, lambda *_: None, pytest.fail, DIGEST)
    assert path.read_bytes() == BODY


@pytest.mark.parametrize("place", ["folder", "network"])
def test_a_mirror_without_the_file_is_reported_and_the_network_used(place, server, tmp_path, monkeypatch) -> None:
    mirror = str(tmp_path / "mirror") if place == "folder" else f"{server.address}/mirror"
    monkeypatch.setenv("BUKVA_MIRROR", mirror)
    notes: list[str] = []
    path = obtain(server.has("/a", BODY), "book.txt", tmp_path / "new", lambda *_: None, notes.append, DIGEST)
    assert path.read_bytes() == BODY
    (note,) = notes
    assert note.startswith(f"BUKVA_MIRROR: {mirror}/book.txt")
    assert note.endswith(f" Fetching {server.address}/a instead.")
