"""A downloaded file is complete and correct, or absent; and errors show no secrets."""

import hashlib
import re
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest
from corpus.serving import send

from bukva.core.errors import BukvaError
from bukva.corpus.sources import fetching
from bukva.corpus.sources.fetching import fetch, obtain

BODY = "Мой дядя самых честных правил\r\n".encode() * 1000
DIGEST = hashlib.sha256(BODY).hexdigest()
UNREACHABLE = "http://127.0.0.1:1/file"  # port 1: the connection is refused


def silent(*_: object) -> None:
    pass


@pytest.fixture
def target(tmp_path: Path) -> Iterator[Path]:
    """The path of a download; no test may leave an unfinished file beside it."""
    yield tmp_path / "fetched" / "file"
    assert not list(tmp_path.rglob("*.part"))


def test_a_status_of_trouble_is_retried_and_a_missing_file_is_not(server, target) -> None:
    with pytest.raises(BukvaError, match=rf"^{server.address}/none: .* status 404"):
        fetch(f"{server.address}/none", target, silent)
    assert server.requested == ["/none"]
    with pytest.raises(BukvaError, match="status 500"):
        fetch(server.has("/down", b"", status=500), target, silent)
    assert server.requested[1:] == ["/down"] * (1 + fetching.RETRIES)
    assert not target.exists()

    def recover(request: BaseHTTPRequestHandler) -> None:
        server.has("/file", BODY)
        request.send_error(503)

    server.replies["/file"] = recover
    fetch(server.address + "/file", target, silent, DIGEST)
    assert server.requested[-2:] == ["/file", "/file"]


def test_a_wrong_digest_names_both_and_keeps_the_former_file(server, target) -> None:
    fetch(server.has("/file", b"former"), target, silent)
    with pytest.raises(BukvaError, match=f"SHA-256 is {DIGEST}, not {'0' * 64}"):
        fetch(server.has("/file", BODY), target, silent, "0" * 64)
    assert target.read_bytes() == b"former"


def test_errors_show_no_user_password_or_query_of_either_address(server, target) -> None:
    cut, wrong = server.has("/cut", BODY[:10], announced=99), server.has("/wrong", BODY)
    for there in (f"{server.address}/none", cut, wrong, UNREACHABLE, "ftp://host/a", "http://a..b/c"):
        secret = there.replace("://", "://gogol:overcoat@") + "?key=n0se#fragment"
        for url in (secret, redirecting(server, "/from", secret)):
            with pytest.raises(BukvaError) as error:
                fetch(url, target, silent, "0" * 64)
            assert not re.search("gogol|overcoat|n0se|fragment", str(error.value))
        assert str(error.value).startswith(f"{server.address}/from: ")


def test_a_file_above_the_bound_is_rejected_with_and_without_a_length(server, target, monkeypatch) -> None:
    monkeypatch.setattr(fetching, "MAX_BYTES", len(BODY))
    fetch(server.has("/file", BODY), target, silent, DIGEST)
    server.replies["/larger"] = lambda request: send(request, BODY + b"x", {})
    for url in (server.address + "/larger", server.has("/announced", b"x", announced=len(BODY) + 1)):
        with pytest.raises(BukvaError, match=f"has more than {len(BODY)} bytes"):
            fetch(url, target, silent)
    assert target.read_bytes() == BODY


def test_a_transfer_that_breaks_or_stalls_begins_again_and_the_file_may_have_changed(server, target, monkeypatch):
    monkeypatch.setattr(fetching, "TIMEOUT_SECONDS", (9, 0.2))
    length, is_over, new = {"Content-Length": len(BODY)}, threading.Event(), BODY[::-1]

    def stall(request: BaseHTTPRequestHandler) -> None:
        send(request, BODY[:1500], length)
        is_over.wait()

    answers = [lambda request: send(request, BODY[:-1], length), stall, lambda request: send(request, new, length)]
    server.replies["/file"] = lambda request: answers.pop(0)(request)
    seen: list[tuple[int, int | None]] = []
    fetch(f"{server.address}/file", target, lambda *read: seen.append(read), hashlib.sha256(new).hexdigest())
    is_over.set()
    assert target.read_bytes() == new
    assert seen[-1] == (len(BODY), len(BODY))


def test_a_transfer_that_breaks_again_and_again_is_abandoned(server, target) -> None:
    words = rf"cut off after 1500 bytes of {len(BODY)} \(.*\)\. Run the same command again"
    with pytest.raises(BukvaError, match=words):
        fetch(server.has("/cut", BODY[:1500], announced=len(BODY)), target, silent, DIGEST)
    assert server.requested == ["/cut"] * (1 + fetching.RETRIES)
    assert not target.exists()


def redirecting(server: Any, path: str, to: str) -> str:
    server.replies[path] = lambda request: send(request, b"", {"Location": to}, 302)
    return server.address + path


def test_a_password_in_netrc_reaches_the_server(server, target, tmp_path, monkeypatch) -> None:
    (tmp_path / "netrc").write_text("machine 127.0.0.1 login me password word\n")
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    sent: list[str | None] = []
    server.replies["/a"] = lambda request: sent.append(request.headers["Authorization"]) or send(request, BODY, {})
    fetch(server.address + "/a", target, silent)
    assert sent == ["Basic bWU6d29yZA=="]


def test_a_file_in_a_mirror_is_used_in_place_and_the_network_without_one(server, tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("BUKVA_ROOT", str(tmp_path))
    monkeypatch.setenv("BUKVA_MIRROR", "mirror")  # relative to the project
    monkeypatch.chdir("/")
    notes: list[str] = []
    path = obtain(server.has("/a", BODY), "book.txt", tmp_path / "new", silent, notes.append, DIGEST)
    assert path.read_bytes() == BODY
    assert notes == [f"BUKVA_MIRROR: {tmp_path}/mirror/book.txt does not exist. Fetching {server.address}/a instead."]
    mirrored = path.parent.rename(tmp_path / "mirror") / "book.txt"
    assert obtain(UNREACHABLE, "book.txt", tmp_path / "new", silent, pytest.fail, DIGEST) == mirrored
    mirrored.write_bytes(b"another")
    with pytest.raises(BukvaError, match=rf"book\.txt: its SHA-256 is .*, not {DIGEST}"):
        obtain(UNREACHABLE, "book.txt", tmp_path / "new", silent, pytest.fail, DIGEST)
