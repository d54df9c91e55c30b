"""A downloaded file is complete and correct, or absent; and errors show no secrets."""

import hashlib
import re
import socket
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest

from bukva.base.errors import BukvaError
from bukva.corpus.sources import fetching
from bukva.corpus.sources.fetching import UnreachableError, fetch

BODY = "Мой дядя самых честных правил\r\n".encode() * 1000
DIGEST = hashlib.sha256(BODY).hexdigest()


def silent(*_: object) -> None:
    pass


@pytest.fixture
def target(tmp_path: Path) -> Iterator[Path]:
    """The path of a download; no test may leave an unfinished file beside it."""
    yield tmp_path / "fetched" / "file"
    assert not list(tmp_path.rglob("*.part"))


def closed_address() -> str:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        return f"http://127.0.0.1:{listening.getsockname()[1]}/file"


def test_a_file_arrives_unchanged_and_its_progress_is_reported(server, target, monkeypatch) -> None:
    monkeypatch.setattr(fetching, "PIECE_BYTES", 20_000)
    calls: list[tuple[int, int | None]] = []
    fetch(server.has("/file", BODY), target, lambda *progress: calls.append(progress), DIGEST)
    assert target.read_bytes() == BODY
    assert [n for n, _ in calls] == sorted({n for n, _ in calls})
    assert calls[-1] == (len(BODY), len(BODY))
    assert {total for _, total in calls} == {len(BODY)}
    assert len(calls) >= len(BODY) / 20_000


def test_an_uncompressed_transfer_is_requested(server, target) -> None:
    def reply(request: BaseHTTPRequestHandler) -> None:
        request.send_error(200 if request.headers["Accept-Encoding"] == "identity" else 406)

    server.replies["/file"] = reply
    fetch(server.address + "/file", target, silent)


def test_a_content_encoding_of_the_server_is_not_decoded(server, target) -> None:
    def reply(request: BaseHTTPRequestHandler) -> None:
        request.send_response(200)
        request.send_header("Content-Encoding", "gzip")
        request.send_header("Content-Length", str(len(BODY)))
        request.end_headers()
        request.wfile.write(BODY)

    server.replies["/file"] = reply
    fetch(server.address + "/file", target, silent, DIGEST)
    assert target.read_bytes() == BODY


def test_a_missing_length_is_reported_as_unknown(server, target) -> None:
    def reply(request: BaseHTTPRequestHandler) -> None:
        request.send_response(200)
        request.end_headers()
        request.wfile.write(BODY)

    server.replies["/file"] = reply
    calls: list[tuple[int, int | None]] = []
    fetch(server.address + "/file", target, lambda *progress: calls.append(progress))
    assert calls[-1] == (len(BODY), None)


def test_a_missing_file_is_reported_without_a_retry(server, target) -> None:
    with pytest.raises(UnreachableError, match=rf"^{server.address}/none: .* status 404"):
        fetch(f"{server.address}/none", target, silent)
    assert server.requested == ["/none"]
    assert not target.exists()


def test_a_request_is_retried_until_the_server_recovers(server, target) -> None:
    def reply(request: BaseHTTPRequestHandler) -> None:
        server.has("/file", BODY)
        request.send_error(503)

    server.replies["/file"] = reply
    fetch(server.address + "/file", target, silent, DIGEST)
    assert server.requested == ["/file", "/file"]


def test_a_server_that_does_not_recover_is_abandoned(server, target) -> None:
    with pytest.raises(UnreachableError, match="status 500"):
        fetch(server.has("/file", b"", status=500), target, silent)
    assert len(server.requested) == 1 + fetching.RETRIES
    assert not target.exists()


def test_a_wrong_digest_names_both_and_leaves_no_file(server, target) -> None:
    with pytest.raises(BukvaError, match=f"{DIGEST}, not {'0' * 64}"):
        fetch(server.has("/file", BODY), target, silent, "0" * 64)
    assert not target.exists()


def test_a_wrong_digest_keeps_the_former_file(server, target) -> None:
    fetch(server.has("/file", b"former"), target, silent)
    with pytest.raises(BukvaError, match="SHA-256"):
        fetch(server.has("/file", BODY), target, silent, "0" * 64)
    assert target.read_bytes() == b"former"


def test_a_cut_connection_leaves_no_file(server, target) -> None:
    url = server.has("/file", BODY[:1000], announced=len(BODY))
    with pytest.raises(UnreachableError, match=f"cut off after .* bytes of {len(BODY)}"):
        fetch(url, target, silent)
    assert not target.exists()


def test_a_refused_connection_is_reported_with_the_message_of_the_system(target) -> None:
    with pytest.raises(UnreachableError, match=r"no connection \(Connection refused\)"):
        fetch(closed_address(), target, silent)


def test_an_unknown_host_is_reported(target, monkeypatch) -> None:
    def unknown(*_: object, **__: object) -> None:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", unknown)
    with pytest.raises(UnreachableError, match=r"^http://books\.invalid/a: no connection \(Name or service"):
        fetch("http://books.invalid/a", target, silent)


@pytest.mark.parametrize("url", ["http://a..b/c", "http://[::1/c", "http:///c", "http://a:99999/c"])
def test_an_invalid_address_is_reported(url, target) -> None:
    with pytest.raises(UnreachableError, match="no connection"):
        fetch(url, target, silent)


@pytest.mark.parametrize(
    "failing",
    [
        lambda server: server.address + "/none",
        lambda server: server.has("/cut", BODY[:10], announced=99),
        lambda server: server.has("/wrong", BODY),
        lambda _: closed_address(),
    ],
    ids=["status", "cut", "digest", "refused"],
)
def test_errors_show_no_user_password_or_query(failing, server, target) -> None:
    url = failing(server).replace("http://", "http://pushkin:hunter2@") + "?token=s3cret#fragment"
    with pytest.raises(BukvaError) as error:
        fetch(url, target, silent, "0" * 64)
    assert not [word for word in ("pushkin", "hunter2", "s3cret", "fragment") if word in str(error.value)]


def test_a_failing_redirect_shows_no_secret_of_either_address(server, target) -> None:
    server.has("/wrong", BODY)
    for there in (
        server.address + "/none",
        server.address + "/wrong",
        closed_address(),
        "ftp://host/a",
        "http://a..b/c",
    ):
        secret = there.replace("://", "://gogol:overcoat@") + "?key=n0se"
        with pytest.raises(BukvaError) as error:
            fetch(redirecting(server, "/from", secret), target, silent, "0" * 64)
        assert str(error.value).startswith(f"{server.address}/from: ")
        assert not [word for word in ("gogol", "overcoat", "n0se") if word in str(error.value)]


# ---- transfers that break


@dataclass
class BreakingFile:
    """A file whose transfers break: of each answer only so many bytes arrive, then all of the last one."""

    arriving: list[int]
    body: bytes = BODY
    version: dict[str, str] = field(default_factory=lambda: {"ETag": '"1"'})
    ranges: list[str | None] = field(default_factory=list)  # the Range header of each request

    def __call__(self, request: BaseHTTPRequestHandler) -> None:
        rest = request.headers["Range"]
        self.ranges.append(rest)
        start = int(rest.removeprefix("bytes=").removesuffix("-")) if rest and self.is_same(request) else 0
        request.send_response(206 if start else 200)
        self.send_version(request, start)
        request.send_header("Content-Length", str(len(self.body) - start))
        request.end_headers()
        arriving = self.arriving.pop(0) if self.arriving else len(self.body)
        request.wfile.write(self.body[start : start + arriving])

    def is_same(self, request: BaseHTTPRequestHandler) -> bool:
        return request.headers["If-Range"] in self.version.values()

    def send_version(self, request: BaseHTTPRequestHandler, start: int) -> None:
        for name, value in self.version.items():
            request.send_header(name, value)
        if start:
            request.send_header("Content-Range", f"bytes {start}-{len(self.body) - 1}/{len(self.body)}")


def long_ago(seconds: float) -> str:
    return formatdate(time.time() - seconds, usegmt=True)


@pytest.mark.parametrize("header", ["ETag", "Last-Modified"])
@pytest.mark.parametrize("cut", [1, 2, 1999, len(BODY) - 1])
def test_a_cut_transfer_continues_where_it_broke(cut, header, server, target) -> None:
    version = {header: {"ETag": '"1"', "Last-Modified": long_ago(9999)}[header]}
    server.replies["/file"] = file = BreakingFile([cut], version=version)
    calls: list[tuple[int, int | None]] = []
    fetch(server.address + "/file", target, lambda *progress: calls.append(progress), DIGEST)
    assert target.read_bytes() == BODY
    assert file.ranges == [None, f"bytes={cut}-"]
    assert [n for n, _ in calls] == sorted(n for n, _ in calls)
    assert {total for _, total in calls} == {len(BODY)}


def test_the_count_of_retries_restarts_when_bytes_arrive(server, target) -> None:
    server.replies["/file"] = file = BreakingFile([2000] * 20)
    fetch(server.address + "/file", target, silent, DIGEST)
    assert target.read_bytes() == BODY
    assert file.ranges == [None, *(f"bytes={n}-" for n in range(2000, 42_000, 2000))]


def test_a_transfer_without_progress_is_abandoned(server, target) -> None:
    server.replies["/file"] = file = BreakingFile([1500] + [0] * 99)
    with pytest.raises(
        UnreachableError, match=rf"cut off after 1500 bytes of {len(BODY)} \(.*\); give the same command again"
    ):
        fetch(server.address + "/file", target, silent, DIGEST)
    assert len(file.ranges) == 1 + fetching.RETRIES
    assert not target.exists()


def test_a_transfer_that_always_breaks_at_the_same_byte_is_abandoned(server, target) -> None:
    server.replies["/file"] = file = BreakingFile([1500] * 99, version={})
    with pytest.raises(UnreachableError, match="cut off after 1500 bytes"):
        fetch(server.address + "/file", target, silent, DIGEST)
    assert file.ranges == [None] * (1 + fetching.RETRIES)


def test_waits_double_after_the_first_retry(server, target, monkeypatch) -> None:
    waits: list[float] = []
    monkeypatch.setattr(fetching, "BACKOFF_SECONDS", 0.5)
    monkeypatch.setattr(fetching.time, "sleep", waits.append)
    server.replies["/file"] = BreakingFile([0] * 4)
    fetch(server.address + "/file", target, silent, DIGEST)
    assert waits == [0, 1, 2, 4]


# the headers of a version, made when the test runs: whether a date is recent must not depend on the time of collection
NO_STRICT_VERSION = {
    "none": lambda: {},
    "weak": lambda: {"ETag": 'W/"1"'},
    "weak and date": lambda: {"ETag": 'W/"1"', "Last-Modified": long_ago(9999)},
    "recent date": lambda: {"Last-Modified": long_ago(1)},
    "not a date": lambda: {"Last-Modified": "yesterday"},
    "absurd date": lambda: {"Last-Modified": "Mon, 01 Jan 99999999999 00:00:00 GMT"},
}


@pytest.mark.parametrize("version", NO_STRICT_VERSION)
def test_without_a_strict_version_a_transfer_restarts_from_the_beginning(version, server, target) -> None:
    server.replies["/file"] = file = BreakingFile([2000, 3000], version=NO_STRICT_VERSION[version]())
    fetch(server.address + "/file", target, silent, DIGEST)
    assert target.read_bytes() == BODY
    assert file.ranges == [None] * 3


@pytest.mark.parametrize("new", [b"another edition\n" * 3000, b"short"], ids=["longer", "shorter"])
def test_a_file_that_changes_during_a_transfer_is_downloaded_again_completely(new, server, target) -> None:
    class Changing(BreakingFile):
        def send_version(self, request: BaseHTTPRequestHandler, start: int) -> None:
            super().send_version(request, start)
            self.version = {"ETag": '"2"'}

        def is_same(self, request: BaseHTTPRequestHandler) -> bool:
            self.body = new
            return super().is_same(request)

    server.replies["/file"] = changing = Changing([2000])
    fetch(server.address + "/file", target, silent, hashlib.sha256(new).hexdigest())
    assert target.read_bytes() == new
    assert changing.ranges == [None, "bytes=2000-"]


def with_wrong_range(**answer: Any) -> Callable[[BaseHTTPRequestHandler], None]:
    """A file that breaks once; a request for the rest gets this answer, one for the whole file a correct one."""

    class WrongRange(BreakingFile):
        def __call__(self, request: BaseHTTPRequestHandler) -> None:
            if "Range" not in request.headers:
                super().__call__(request)
                return
            self.ranges.append(request.headers["Range"])
            request.send_response(answer["status"])
            for name, value in answer["headers"].items():
                request.send_header(name, value)
            request.end_headers()
            request.wfile.write(answer.get("body", b"x" * 100))

    return WrongRange([2000])


RANGE = {"ETag": '"1"', "Content-Range": f"bytes 2000-{len(BODY) - 1}/{len(BODY)}"}


@pytest.mark.parametrize(
    "answer",
    [
        {"status": 416, "headers": {"Content-Range": f"bytes */{len(BODY)}"}},
        {"status": 206, "headers": RANGE | {"Content-Range": f"bytes 1024-{len(BODY) - 1}/{len(BODY)}"}},
        {"status": 206, "headers": RANGE | {"Content-Range": "bytes 2000-4999/5000"}},
        {"status": 206, "headers": RANGE | {"Content-Range": "lines 2000-4999/*"}},
        {"status": 206, "headers": RANGE | {"Content-Range": "bytes " + "9" * 5000 + "-/*"}},
        {"status": 206, "headers": {"ETag": '"1"'}},
        {"status": 206, "headers": RANGE | {"ETag": '"2"'}},
        {"status": 206, "headers": {"Content-Range": RANGE["Content-Range"]}},
        {"status": 200, "headers": RANGE},
    ],
    ids=[
        "416",
        "another start",
        "another total",
        "another unit",
        "absurd",
        "no range",
        "changed",
        "no version",
        "a range as 200",
    ],
)
def test_a_range_that_is_not_the_rest_of_the_same_file_is_never_appended(answer, server, target) -> None:
    server.replies["/file"] = file = with_wrong_range(**answer)
    fetch(server.address + "/file", target, silent, DIGEST)
    assert target.read_bytes() == BODY
    assert file.ranges == [None, "bytes=2000-", None]


def test_the_rest_is_requested_again_when_a_server_sends_less(server, target) -> None:
    class ShortRanges(BreakingFile):
        def __call__(self, request: BaseHTTPRequestHandler) -> None:
            start = int((request.headers["Range"] or "bytes=0-")[6:-1])
            self.ranges.append(request.headers["Range"])
            piece = self.body[start : start + 20_000]
            request.send_response(206 if start else 200)
            request.send_header("ETag", '"1"')
            request.send_header("Content-Range", f"bytes {start}-{start + len(piece) - 1}/{len(self.body)}")
            request.send_header("Content-Length", str(len(piece) if start else len(self.body)))
            request.end_headers()
            request.wfile.write(piece)

    server.replies["/file"] = short = ShortRanges([])
    fetch(server.address + "/file", target, silent, DIGEST)
    assert target.read_bytes() == BODY
    assert short.ranges == [None, "bytes=20000-", "bytes=40000-"]


def test_a_cut_transfer_of_unknown_length_continues(server, target) -> None:
    class Chunked(BreakingFile):
        def __call__(self, request: BaseHTTPRequestHandler) -> None:
            if "Range" in request.headers:
                super().__call__(request)
                return
            self.ranges.append(None)
            request.protocol_version = "HTTP/1.1"
            request.send_response(200)
            self.send_version(request, 0)
            request.send_header("Transfer-Encoding", "chunked")
            request.end_headers()
            request.wfile.write(b"7d0\r\n" + self.body[:2000] + b"\r\n7d0\r\n")
            request.close_connection = True

    server.replies["/file"] = chunked = Chunked([])
    fetch(server.address + "/file", target, silent, DIGEST)
    assert target.read_bytes() == BODY
    assert chunked.ranges == [None, "bytes=2000-"]


def test_a_stalled_transfer_counts_as_broken(server, target, monkeypatch) -> None:
    monkeypatch.setattr(fetching, "TIMEOUT_SECONDS", (1, 0.1))

    class Stalling(BreakingFile):
        def __call__(self, request: BaseHTTPRequestHandler) -> None:
            super().__call__(request)
            if len(self.ranges) == 1:
                request.wfile.flush()
                request.connection.recv(1)  # until the client disconnects

    server.replies["/file"] = stalling = Stalling([2000])
    fetch(server.address + "/file", target, silent, DIGEST)
    assert target.read_bytes() == BODY
    assert stalling.ranges == [None, "bytes=2000-"]


def send_slowly(request: BaseHTTPRequestHandler, body: bytes, seconds: float, at_once: int = 0) -> None:
    """Send a body byte by byte, with so many seconds in between, until the client disconnects."""
    request.send_response(200)
    request.send_header("ETag", '"1"')
    request.send_header("Content-Length", str(len(body)))
    request.end_headers()
    request.wfile.write(body[:at_once])
    for byte in body[at_once:]:
        try:
            request.wfile.write(bytes([byte]))
        except OSError:
            return
        time.sleep(seconds)


@pytest.mark.parametrize("at_once", [0, 5000], ids=["from the start", "later"])
def test_a_slow_transfer_counts_as_broken_without_a_time_out(server, target, monkeypatch, at_once) -> None:
    monkeypatch.setattr(fetching, "SLOW_SECONDS", 0.1)
    file = BreakingFile([])

    def reply(request: BaseHTTPRequestHandler) -> None:
        if "Range" in request.headers:
            file(request)
        else:
            send_slowly(request, BODY, 0.01, at_once=at_once)

    server.replies["/file"] = reply
    fetch(server.address + "/file", target, silent, DIGEST)
    assert target.read_bytes() == BODY
    assert len(server.requested) == 2


def test_a_transfer_that_stays_slow_is_abandoned(server, target, monkeypatch) -> None:
    monkeypatch.setattr(fetching, "SLOW_SECONDS", 0.04)
    server.replies["/file"] = lambda request: send_slowly(request, BODY, 0.01)
    with pytest.raises(UnreachableError, match=r"\(fewer than 1000 bytes in 0 s\); give the same command again"):
        fetch(server.address + "/file", target, silent, DIGEST)
    assert not target.exists()


def test_a_slow_connection_above_the_bound_is_not_interrupted(server, target, monkeypatch) -> None:
    monkeypatch.setattr(fetching, "SLOW_SECONDS", 0.05)
    monkeypatch.setattr(fetching, "SLOW_BYTES", 3)
    server.replies["/file"] = lambda request: send_slowly(request, BODY[:60], 0.005)
    fetch(server.address + "/file", target, silent)
    assert target.read_bytes() == BODY[:60]
    assert len(server.requested) == 1


# ---- redirects


def redirecting(server: Any, path: str, to: str, body: bytes = b"") -> str:
    def reply(request: BaseHTTPRequestHandler) -> None:
        request.send_response(302)
        request.send_header("Location", to)
        request.end_headers()
        try:
            while body:
                request.wfile.write(body)
        except OSError:
            pass

    server.replies[path] = reply
    return server.address + path


def test_a_redirect_with_an_endless_body_is_followed_without_reading_it(server, target) -> None:
    fetch(redirecting(server, "/from", server.has("/to", BODY), bytes(1000)), target, silent, DIGEST)
    assert server.requested == ["/from", "/to"]


def test_a_redirect_loop_is_reported(server, target) -> None:
    redirecting(server, "/a", server.address + "/b?s3cret")
    url = redirecting(server, "/b", server.address + "/a")
    with pytest.raises(UnreachableError) as error:
        fetch(url.replace("//", "//pushkin:hunter2@"), target, silent)
    redacted = url.replace("//", "//***@")
    assert str(error.value) == f"{redacted}: redirected 30 times without an end; check the address."


@pytest.mark.parametrize("to", ["file:///etc/passwd", "ftp://host/a"])
def test_a_redirect_away_from_http_is_refused_with_the_reason(to, server, target) -> None:
    words = f"^{server.address}/from: redirected to an address that does not start with http:// or https://; check"
    with pytest.raises(UnreachableError, match=words):
        fetch(redirecting(server, "/from", to), target, silent)


@pytest.mark.parametrize("again", [(), (2000,)], ids=["whole", "cut"])
def test_a_redirect_to_another_host_does_not_send_the_password(again, server, target) -> None:
    sent: list[tuple[str, str | None]] = []

    def reply(request: BaseHTTPRequestHandler) -> None:
        sent.append((request.path, request.headers["Authorization"]))
        BreakingFile.__call__(file, request)

    file = BreakingFile(list(again))
    server.replies["/to"] = reply
    other = server.address.replace("127.0.0.1", "localhost")
    url = redirecting(server, "/from", f"{other}/to").replace("//", "//pushkin:hunter2@")
    fetch(url, target, silent, DIGEST)
    assert sent == [("/to", None)] * (1 + len(again))
    url = redirecting(server, "/from", f"{server.address}/to").replace("//", "//pushkin:hunter2@")
    fetch(url, target, silent, DIGEST)
    assert sent[-1] == ("/to", "Basic cHVzaGtpbjpodW50ZXIy")  # the same host may know it


# ---- too large


@pytest.mark.parametrize("announced", ["10001", "9" * 40, "9" * 5000], ids=["over", "absurd", "no int"])
def test_a_length_above_the_bound_is_rejected_before_the_body_is_read(announced, server, target, monkeypatch) -> None:
    monkeypatch.setattr(fetching, "MAX_BYTES", 10_000)
    url = server.has("/file", b"", announced=announced)
    with pytest.raises(
        BukvaError, match=f"^{re.escape(url)}: has more than 10000 bytes, the limit for a corpus; check"
    ):
        fetch(url, target, lambda *_: pytest.fail("it was read"))
    assert len(server.requested) == 1
    assert not target.exists()


def test_an_endless_body_is_rejected_at_the_bound(server, target, monkeypatch) -> None:
    monkeypatch.setattr(fetching, "MAX_BYTES", 1_000_000)

    def reply(request: BaseHTTPRequestHandler) -> None:
        request.send_response(200)
        request.end_headers()
        try:
            while True:
                request.wfile.write(bytes(100_000))
        except OSError:
            pass

    server.replies["/file"] = reply
    calls: list[int] = []
    with pytest.raises(BukvaError, match="has more than 1000000 bytes"):
        fetch(server.address + "/file", target, lambda n, _: calls.append(n))
    assert calls[-1] <= 1_000_000 + fetching.PIECE_BYTES
    assert not target.exists()


def test_a_file_of_exactly_the_bound_is_accepted(server, target, monkeypatch) -> None:
    monkeypatch.setattr(fetching, "MAX_BYTES", len(BODY))
    fetch(server.has("/file", BODY), target, silent, DIGEST)
