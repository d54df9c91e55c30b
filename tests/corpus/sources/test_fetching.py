"""A downloaded file is complete and correct, or absent; and errors show no secrets."""

import hashlib
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
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
    for url in (server.address + "/larger", server.has("/announced", b"", announced=len(BODY) + 1)):
        with pytest.raises(BukvaError, match=f"has more than {len(BODY)} bytes"):
            fetch(url, target, silent)
    assert target.read_bytes() == BODY


@dataclass
class BreakingFile:
    """A file whose transfers break: of each answer only so many bytes arrive, then all of the last one."""

    arriving: list[int]
    version: Mapping[str, str] = field(default_factory=lambda: {"ETag": '"1"'})
    ranges: list[str | None] = field(default_factory=list)  # the Range header of each request
    to_a_range: Any = None  # what answers a request for a range instead

    def __call__(self, request: BaseHTTPRequestHandler) -> None:
        rest = request.headers["Range"]
        self.ranges.append(rest)
        if rest and self.to_a_range:
            self.to_a_range(request)
            return
        is_same = request.headers["If-Range"] in self.version.values()
        start = int(rest.removeprefix("bytes=").removesuffix("-")) if rest and is_same else 0
        arriving = self.arriving.pop(0) if self.arriving else len(BODY)
        whole = {"Content-Range": f"bytes {start}-{len(BODY) - 1}/{len(BODY)}"} if start else {}
        headers = {**self.version, **whole, "Content-Length": len(BODY) - start}
        send(request, BODY[start : start + arriving], headers, 206 if start else 200)


STRICT, WEAK, DATED = {"ETag": '"1"'}, {"ETag": 'W/"1"'}, {"Last-Modified": "Wed, 21 Oct 2015 07:28:00 GMT"}
LAST = len(BODY) - 1


@pytest.mark.parametrize(
    ("arriving", "version", "ranges"),
    [
        ([1], STRICT, [None, "bytes=1-"]),
        ([LAST], STRICT, [None, f"bytes={LAST}-"]),
        *(([2000, 3000], version, [None] * 3) for version in (WEAK, DATED, {})),
    ],
)
def test_a_cut_transfer_continues_where_it_broke_or_restarts_without_a_strict_version(
    arriving, version, ranges, server, target
) -> None:
    server.replies["/file"] = file = BreakingFile(arriving, version)
    fetch(server.address + "/file", target, silent, DIGEST)
    assert target.read_bytes() == BODY
    assert file.ranges == ranges


def test_a_transfer_without_progress_is_abandoned(server, target) -> None:
    words = rf"cut off after 1500 bytes of {len(BODY)} \(.*\)\. Run the same command again"
    for file in (BreakingFile([1500] + [0] * 99), BreakingFile([1500] * 99, version={})):
        server.replies["/file"] = file
        with pytest.raises(BukvaError, match=words):
            fetch(server.address + "/file", target, silent, DIGEST)
        assert len(file.ranges) == 1 + fetching.RETRIES
        assert not target.exists()


NEW = b"another edition\n" * 3000
RANGE = STRICT | {"Content-Range": f"bytes 2000-{LAST}/{len(BODY)}"}


@pytest.mark.parametrize(
    ("status", "headers", "body"),
    [
        (200, {"ETag": '"2"', "Content-Length": len(NEW)}, NEW),  # the file has changed
        (416, {"Content-Range": f"bytes */{len(BODY)}"}, b"x" * 100),
        (206, RANGE | {"Content-Range": f"bytes 1024-{LAST}/{len(BODY)}"}, b"x" * 100),
        (206, RANGE | {"Content-Range": "bytes 2000-4999/5000"}, b"x" * 100),
        (206, RANGE | {"ETag": '"2"'}, b"x" * 100),
    ],
)
def test_an_answer_that_is_not_the_rest_of_the_same_file_is_never_appended(
    status, headers, body, server, target
) -> None:
    file = BreakingFile([2000], to_a_range=lambda request: send(request, body, headers, status))
    server.replies["/file"] = file
    expected = NEW if body == NEW else BODY
    fetch(server.address + "/file", target, silent, hashlib.sha256(expected).hexdigest())
    assert target.read_bytes() == expected
    assert file.ranges == [None, "bytes=2000-"] + [None] * (body != NEW)


def redirecting(server: Any, path: str, to: str) -> str:
    server.replies[path] = lambda request: send(request, b"", {"Location": to}, 302)
    return server.address + path


def test_a_redirect_to_another_host_does_not_send_the_password(server, target) -> None:
    sent: list[str | None] = []
    file = BreakingFile([2000])

    def reply(request: BaseHTTPRequestHandler) -> None:
        sent.append(request.headers["Authorization"])
        file(request)

    server.replies["/to"] = reply
    for host in (server.address.replace("127.0.0.1", "localhost"), server.address):
        url = redirecting(server, "/from", f"{host}/to").replace("//", "//pushkin:hunter2@")
        fetch(url, target, silent, DIGEST)
    assert sent == [None, None, "Basic cHVzaGtpbjpodW50ZXIy"]  # the same host may know it


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
