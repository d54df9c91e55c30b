"""A file from the network is there whole and right, or not at all; and errors keep secrets."""

import hashlib
import socket
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest

from bukva.errors import BukvaError
from bukva.text import fetching
from bukva.text.fetching import UnreachableError, fetch, obtain, shown

BODY = "Мой дядя самых честных правил\r\n".encode() * 1000
DIGEST = hashlib.sha256(BODY).hexdigest()


def silent(*_: object) -> None:
    pass


@pytest.fixture
def target(tmp_path: Path) -> Iterator[Path]:
    """Where a file is to be fetched to; whatever happens, nothing unfinished is left beside it."""
    yield tmp_path / "fetched" / "file"
    assert not list(tmp_path.rglob("*.part"))


def refused_address() -> str:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        return f"http://127.0.0.1:{listening.getsockname()[1]}/file"


def test_a_file_arrives_byte_by_byte_and_its_progress_is_told(server, target, monkeypatch) -> None:
    monkeypatch.setattr(fetching, "PIECE_BYTES", 20_000)
    told: list[tuple[int, int | None]] = []
    fetch(server.has("/file", BODY), target, lambda *progress: told.append(progress), DIGEST)
    assert target.read_bytes() == BODY
    assert told == [*((n, len(BODY)) for n in range(20_000, len(BODY), 20_000)), (len(BODY), len(BODY))]


def test_the_server_is_asked_for_the_file_as_it_lies_there(server, target) -> None:
    def reply(request: BaseHTTPRequestHandler) -> None:
        request.send_error(200 if request.headers["Accept-Encoding"] == "identity" else 406)

    server.replies["/file"] = reply
    fetch(server.address + "/file", target, silent)


def test_an_encoding_that_the_server_claims_is_not_undone(server, target) -> None:
    def reply(request: BaseHTTPRequestHandler) -> None:
        request.send_response(200)
        request.send_header("Content-Encoding", "gzip")
        request.send_header("Content-Length", str(len(BODY)))
        request.end_headers()
        request.wfile.write(BODY)

    server.replies["/file"] = reply
    fetch(server.address + "/file", target, silent, DIGEST)
    assert target.read_bytes() == BODY


def test_a_length_that_is_not_announced_is_told_as_unknown(server, target) -> None:
    def reply(request: BaseHTTPRequestHandler) -> None:
        request.send_response(200)
        request.end_headers()
        request.wfile.write(BODY)

    server.replies["/file"] = reply
    told: list[tuple[int, int | None]] = []
    fetch(server.address + "/file", target, lambda *progress: told.append(progress))
    assert told[-1] == (len(BODY), None)


def test_a_missing_file_is_told_at_once(server, target) -> None:
    with pytest.raises(UnreachableError, match=rf"^{server.address}/none: .* status 404"):
        fetch(f"{server.address}/none", target, silent)
    assert server.asked == ["/none"]
    assert not target.exists()


def test_a_server_that_recovers_is_asked_again(server, target) -> None:
    def reply(request: BaseHTTPRequestHandler) -> None:
        server.has("/file", BODY)
        request.send_error(503)

    server.replies["/file"] = reply
    fetch(server.address + "/file", target, silent, DIGEST)
    assert server.asked == ["/file", "/file"]


def test_a_server_that_does_not_recover_is_given_up(server, target) -> None:
    with pytest.raises(UnreachableError, match="status 500"):
        fetch(server.has("/file", b"", status=500), target, silent)
    assert len(server.asked) == 1 + fetching.RETRIES
    assert not target.exists()


def test_a_wrong_digest_names_both_and_leaves_no_file(server, target) -> None:
    with pytest.raises(BukvaError, match=f"{DIGEST}, not {'0' * 64}"):
        fetch(server.has("/file", BODY), target, silent, "0" * 64)
    assert not target.exists()


def test_a_wrong_digest_leaves_the_former_file(server, target) -> None:
    fetch(server.has("/file", b"former"), target, silent)
    with pytest.raises(BukvaError, match="SHA-256"):
        fetch(server.has("/file", BODY), target, silent, "0" * 64)
    assert target.read_bytes() == b"former"


def test_a_cut_connection_leaves_no_file(server, target) -> None:
    url = server.has("/file", BODY[:1000], announced=len(BODY))
    with pytest.raises(UnreachableError, match=f"cut off after .* bytes of {len(BODY)}"):
        fetch(url, target, silent)
    assert not target.exists()


def test_a_refused_connection_is_told_in_the_words_of_the_system(target) -> None:
    with pytest.raises(UnreachableError, match=r"no connection \(Connection refused\)"):
        fetch(refused_address(), target, silent)


def test_a_name_that_nobody_knows_is_told(target, monkeypatch) -> None:
    def unknown(*_: object, **__: object) -> None:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", unknown)
    with pytest.raises(UnreachableError, match=r"^http://books\.invalid/a: no connection \(Name or service"):
        fetch("http://books.invalid/a", target, silent)


@pytest.mark.parametrize("url", ["http://a..b/c", "http://[::1/c", "http:///c", "http://a:99999/c"])
def test_what_is_no_address_is_told(url, target) -> None:
    with pytest.raises(UnreachableError, match="no connection"):
        fetch(url, target, silent)


@pytest.mark.parametrize(
    "failing",
    [
        lambda server: server.address + "/none",
        lambda server: server.has("/cut", BODY[:10], announced=99),
        lambda server: server.has("/wrong", BODY),
        lambda _: refused_address(),
    ],
    ids=["status", "cut", "digest", "refused"],
)
def test_errors_show_no_user_no_password_and_no_query(failing, server, target) -> None:
    url = failing(server).replace("http://", "http://pushkin:hunter2@") + "?token=s3cret#fragment"
    with pytest.raises(BukvaError) as error:
        fetch(url, target, silent, "0" * 64)
    assert not [word for word in ("pushkin", "hunter2", "s3cret", "fragment") if word in str(error.value)]


def test_an_address_is_shown_without_what_may_be_secret() -> None:
    assert shown("https://user:pass@host:81/@a/b.txt?key=1#x") == "https://host:81/@a/b.txt"
    assert shown("https://user:pa#ss@host/b.txt") == "the address, which is malformed"


# ---- mirrors


def test_a_file_in_a_mirror_folder_is_used_where_it_lies(tmp_path, monkeypatch) -> None:
    (tmp_path / "mirror").mkdir()
    held = tmp_path / "mirror" / "book.txt"
    held.write_bytes(BODY)
    monkeypatch.setenv("BUKVA_MIRROR", str(tmp_path / "mirror"))
    told: list[tuple[int, int | None]] = []
    path = obtain(
        refused_address(),
        "book.txt",
        tmp_path / "new",
        lambda *progress: told.append(progress),
        pytest.fail,
        DIGEST,
    )
    assert path == held
    assert told == [(len(BODY), len(BODY))]


def test_a_relative_mirror_is_found_from_the_project(tmp_path, monkeypatch) -> None:
    (tmp_path / "project" / "mirror").mkdir(parents=True)
    (tmp_path / "project" / "mirror" / "book.txt").write_bytes(BODY)
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.setenv("DVC_ROOT", str(tmp_path / "project"))
    monkeypatch.setenv("BUKVA_MIRROR", "mirror")
    monkeypatch.chdir(tmp_path / "elsewhere")
    path = obtain(refused_address(), "book.txt", tmp_path / "new", silent, pytest.fail)
    assert path.read_bytes() == BODY


def test_a_wrong_file_in_a_mirror_is_an_error(tmp_path, monkeypatch) -> None:
    (tmp_path / "book.txt").write_bytes(b"another")
    monkeypatch.setenv("BUKVA_MIRROR", str(tmp_path))
    with pytest.raises(BukvaError, match=rf"book\.txt: its SHA-256 is .*, not {DIGEST}"):
        obtain(refused_address(), "book.txt", tmp_path / "new", silent, pytest.fail, DIGEST)


def test_a_mirror_folder_without_the_file_is_noted_once_and_the_network_used(server, tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("BUKVA_MIRROR", str(tmp_path / "mirror"))
    notes: list[str] = []
    path = obtain(server.has("/a", BODY), "book.txt", tmp_path / "new", silent, notes.append, DIGEST)
    assert path == tmp_path / "new" / "book.txt"
    assert path.read_bytes() == BODY
    assert notes == [f"BUKVA_MIRROR: {tmp_path}/mirror/book.txt is not there. Fetching {server.address}/a instead."]


def test_a_mirror_on_the_network_is_asked_first(server, tmp_path, monkeypatch) -> None:
    server.has("/mirror/book%20%231.txt", BODY)
    monkeypatch.setenv("BUKVA_MIRROR", f"{server.address}/mirror/")
    path = obtain(refused_address(), "book #1.txt", tmp_path, silent, pytest.fail, DIGEST)
    assert path.read_bytes() == BODY


def test_a_mirror_on_the_network_without_the_file_is_noted_once(server, tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("BUKVA_MIRROR", f"{server.address}/mirror")
    notes: list[str] = []
    obtain(server.has("/a", BODY), "book.txt", tmp_path, silent, notes.append, DIGEST)
    assert (tmp_path / "book.txt").read_bytes() == BODY
    assert len(notes) == 1
    assert "status 404" in notes[0]


def test_without_network_the_mirror_is_proposed(tmp_path) -> None:
    with pytest.raises(UnreachableError, match=r"holds book\.txt, named by BUKVA_MIRROR"):
        obtain(refused_address(), "book.txt", tmp_path, silent, pytest.fail)
