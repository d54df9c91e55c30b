"""A file from the network is there whole and right, or not at all; and errors keep secrets."""

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
from bukva.corpus import fetching
from bukva.corpus.fetching import UnreachableError, fetch, obtain

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
    assert [n for n, _ in told] == sorted({n for n, _ in told})
    assert told[-1] == (len(BODY), len(BODY))
    assert {total for _, total in told} == {len(BODY)}
    assert len(told) >= len(BODY) / 20_000


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


def test_a_redirect_that_fails_shows_nothing_secret_of_either_address(server, target) -> None:
    server.has("/wrong", BODY)
    for there in (
        server.address + "/none",
        server.address + "/wrong",
        refused_address(),
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
class Frail:
    """A file whose transfers break: of each answer only so many bytes arrive, of the last one all."""

    arriving: list[int]
    body: bytes = BODY
    version: dict[str, str] = field(default_factory=lambda: {"ETag": '"1"'})
    asked: list[str | None] = field(default_factory=list)  # the Range of each request

    def __call__(self, request: BaseHTTPRequestHandler) -> None:
        rest = request.headers["Range"]
        self.asked.append(rest)
        start = int(rest.removeprefix("bytes=").removesuffix("-")) if rest and self.is_same(request) else 0
        request.send_response(206 if start else 200)
        self.tell(request, start)
        request.send_header("Content-Length", str(len(self.body) - start))
        request.end_headers()
        arriving = self.arriving.pop(0) if self.arriving else len(self.body)
        request.wfile.write(self.body[start : start + arriving])

    def is_same(self, request: BaseHTTPRequestHandler) -> bool:
        return request.headers["If-Range"] in self.version.values()

    def tell(self, request: BaseHTTPRequestHandler, start: int) -> None:
        for name, value in self.version.items():
            request.send_header(name, value)
        if start:
            request.send_header("Content-Range", f"bytes {start}-{len(self.body) - 1}/{len(self.body)}")


def long_ago(seconds: float) -> str:
    return formatdate(time.time() - seconds, usegmt=True)


@pytest.mark.parametrize("version", [{"ETag": '"1"'}, {"Last-Modified": long_ago(9999)}], ids=["etag", "date"])
@pytest.mark.parametrize("cut", [1, 2, 1999, len(BODY) - 1])
def test_a_cut_transfer_goes_on_where_it_broke(cut, version, server, target) -> None:
    server.replies["/file"] = frail = Frail([cut], version=version)
    told: list[tuple[int, int | None]] = []
    fetch(server.address + "/file", target, lambda *progress: told.append(progress), DIGEST)
    assert target.read_bytes() == BODY
    assert frail.asked == [None, f"bytes={cut}-"]
    assert [n for n, _ in told] == sorted(n for n, _ in told)
    assert {total for _, total in told} == {len(BODY)}


def test_retries_are_counted_anew_when_bytes_arrived(server, target) -> None:
    server.replies["/file"] = frail = Frail([2000] * 20)
    fetch(server.address + "/file", target, silent, DIGEST)
    assert target.read_bytes() == BODY
    assert frail.asked == [None, *(f"bytes={n}-" for n in range(2000, 42_000, 2000))]


def test_a_transfer_that_gets_no_further_is_given_up(server, target) -> None:
    server.replies["/file"] = frail = Frail([1500] + [0] * 99)
    with pytest.raises(UnreachableError, match=rf"cut off after 1500 bytes of {len(BODY)} \(.*\); running it again"):
        fetch(server.address + "/file", target, silent, DIGEST)
    assert len(frail.asked) == 1 + fetching.RETRIES
    assert not target.exists()


def test_a_server_that_ends_at_the_same_place_again_and_again_is_given_up(server, target) -> None:
    server.replies["/file"] = frail = Frail([1500] * 99, version={})
    with pytest.raises(UnreachableError, match="cut off after 1500 bytes"):
        fetch(server.address + "/file", target, silent, DIGEST)
    assert frail.asked == [None] * (1 + fetching.RETRIES)


def test_waits_grow_with_every_retry_but_the_first(server, target, monkeypatch) -> None:
    waits: list[float] = []
    monkeypatch.setattr(fetching, "BACKOFF_SECONDS", 0.5)
    monkeypatch.setattr(fetching.time, "sleep", waits.append)
    server.replies["/file"] = Frail([0] * 4)
    fetch(server.address + "/file", target, silent, DIGEST)
    assert waits == [0, 1, 2, 4]


UNTOLD = [
    {},
    {"ETag": 'W/"1"'},
    {"ETag": 'W/"1"', "Last-Modified": long_ago(9999)},
    {"Last-Modified": long_ago(1)},
    {"Last-Modified": "yesterday"},
    {"Last-Modified": "Mon, 01 Jan 99999999999 00:00:00 GMT"},
]


@pytest.mark.parametrize("version", UNTOLD, ids=str)
def test_without_a_mark_that_tells_versions_apart_it_starts_from_the_beginning(version, server, target) -> None:
    server.replies["/file"] = frail = Frail([2000, 3000], version=version)
    fetch(server.address + "/file", target, silent, DIGEST)
    assert target.read_bytes() == BODY
    assert frail.asked == [None] * 3


@pytest.mark.parametrize("new", [b"another edition\n" * 3000, b"short"], ids=["longer", "shorter"])
def test_a_file_that_changed_in_between_is_taken_anew_and_whole(new, server, target) -> None:
    class Changing(Frail):
        def tell(self, request: BaseHTTPRequestHandler, start: int) -> None:
            super().tell(request, start)
            self.version = {"ETag": '"2"'}

        def is_same(self, request: BaseHTTPRequestHandler) -> bool:
            self.body = new
            return super().is_same(request)

    server.replies["/file"] = changing = Changing([2000])
    fetch(server.address + "/file", target, silent, hashlib.sha256(new).hexdigest())
    assert target.read_bytes() == new
    assert changing.asked == [None, "bytes=2000-"]


def careless(**answer: Any) -> Callable[[BaseHTTPRequestHandler], None]:
    """A server that breaks once, and answers the request for the rest in its own way, for whole files as it should."""

    class Careless(Frail):
        def __call__(self, request: BaseHTTPRequestHandler) -> None:
            if "Range" not in request.headers:
                super().__call__(request)
                return
            self.asked.append(request.headers["Range"])
            request.send_response(answer["status"])
            for name, value in answer["headers"].items():
                request.send_header(name, value)
            request.end_headers()
            request.wfile.write(answer.get("body", b"x" * 100))

    return Careless([2000])


PART = {"ETag": '"1"', "Content-Range": f"bytes 2000-{len(BODY) - 1}/{len(BODY)}"}


@pytest.mark.parametrize(
    "answer",
    [
        {"status": 416, "headers": {"Content-Range": f"bytes */{len(BODY)}"}},
        {"status": 206, "headers": PART | {"Content-Range": f"bytes 1024-{len(BODY) - 1}/{len(BODY)}"}},
        {"status": 206, "headers": PART | {"Content-Range": "bytes 2000-4999/5000"}},
        {"status": 206, "headers": PART | {"Content-Range": "lines 2000-4999/*"}},
        {"status": 206, "headers": PART | {"Content-Range": "bytes " + "9" * 5000 + "-/*"}},
        {"status": 206, "headers": {"ETag": '"1"'}},
        {"status": 206, "headers": PART | {"ETag": '"2"'}},
        {"status": 206, "headers": {"Content-Range": PART["Content-Range"]}},
        {"status": 200, "headers": PART},
    ],
    ids=[
        "416",
        "another start",
        "another total",
        "another unit",
        "absurd",
        "no range",
        "changed",
        "no mark",
        "a part as 200",
    ],
)
def test_a_part_that_is_not_the_rest_of_the_same_file_is_never_glued_to_it(answer, server, target) -> None:
    server.replies["/file"] = frail = careless(**answer)
    fetch(server.address + "/file", target, silent, DIGEST)
    assert target.read_bytes() == BODY
    assert frail.asked == [None, "bytes=2000-", None]


def test_a_server_that_gives_less_than_the_rest_is_asked_for_more(server, target) -> None:
    class Sparing(Frail):
        def __call__(self, request: BaseHTTPRequestHandler) -> None:
            start = int((request.headers["Range"] or "bytes=0-")[6:-1])
            self.asked.append(request.headers["Range"])
            piece = self.body[start : start + 20_000]
            request.send_response(206 if start else 200)
            request.send_header("ETag", '"1"')
            request.send_header("Content-Range", f"bytes {start}-{start + len(piece) - 1}/{len(self.body)}")
            request.send_header("Content-Length", str(len(piece) if start else len(self.body)))
            request.end_headers()
            request.wfile.write(piece)

    server.replies["/file"] = sparing = Sparing([])
    fetch(server.address + "/file", target, silent, DIGEST)
    assert target.read_bytes() == BODY
    assert sparing.asked == [None, "bytes=20000-", "bytes=40000-"]


def test_a_cut_body_of_unknown_length_goes_on(server, target) -> None:
    class Chunked(Frail):
        def __call__(self, request: BaseHTTPRequestHandler) -> None:
            if "Range" in request.headers:
                super().__call__(request)
                return
            self.asked.append(None)
            request.protocol_version = "HTTP/1.1"
            request.send_response(200)
            self.tell(request, 0)
            request.send_header("Transfer-Encoding", "chunked")
            request.end_headers()
            request.wfile.write(b"7d0\r\n" + self.body[:2000] + b"\r\n7d0\r\n")
            request.close_connection = True

    server.replies["/file"] = chunked = Chunked([])
    fetch(server.address + "/file", target, silent, DIGEST)
    assert target.read_bytes() == BODY
    assert chunked.asked == [None, "bytes=2000-"]


def test_a_stall_counts_as_a_break(server, target, monkeypatch) -> None:
    monkeypatch.setattr(fetching, "TIMEOUT_SECONDS", (1, 0.1))

    class Stalling(Frail):
        def __call__(self, request: BaseHTTPRequestHandler) -> None:
            super().__call__(request)
            if len(self.asked) == 1:
                request.wfile.flush()
                request.connection.recv(1)  # until the other side hangs up

    server.replies["/file"] = stalling = Stalling([2000])
    fetch(server.address + "/file", target, silent, DIGEST)
    assert target.read_bytes() == BODY
    assert stalling.asked == [None, "bytes=2000-"]


def dripping(request: BaseHTTPRequestHandler, body: bytes, seconds: float, at_once: int = 0) -> None:
    """Give a body byte by byte, with so many seconds in between, until the other side hangs up."""
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
def test_a_slow_drip_counts_as_a_break_though_no_time_out_strikes(server, target, monkeypatch, at_once) -> None:
    monkeypatch.setattr(fetching, "SLOW_SECONDS", 0.1)
    frail = Frail([])

    def reply(request: BaseHTTPRequestHandler) -> None:
        if "Range" in request.headers:
            frail(request)
        else:
            dripping(request, BODY, 0.01, at_once=at_once)

    server.replies["/file"] = reply
    fetch(server.address + "/file", target, silent, DIGEST)
    assert target.read_bytes() == BODY
    assert len(server.asked) == 2


def test_a_drip_without_an_end_is_given_up_and_told(server, target, monkeypatch) -> None:
    monkeypatch.setattr(fetching, "SLOW_SECONDS", 0.04)
    server.replies["/file"] = lambda request: dripping(request, BODY, 0.01)
    with pytest.raises(UnreachableError, match=r"\(fewer than 1000 bytes in 0 s\); running it again"):
        fetch(server.address + "/file", target, silent, DIGEST)
    assert not target.exists()


def test_a_slow_line_is_let_work(server, target, monkeypatch) -> None:
    monkeypatch.setattr(fetching, "SLOW_SECONDS", 0.05)
    monkeypatch.setattr(fetching, "SLOW_BYTES", 3)
    server.replies["/file"] = lambda request: dripping(request, BODY[:60], 0.005)
    fetch(server.address + "/file", target, silent)
    assert target.read_bytes() == BODY[:60]
    assert len(server.asked) == 1


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


def test_a_redirect_is_followed_and_its_body_left_alone_be_it_endless(server, target) -> None:
    fetch(redirecting(server, "/from", server.has("/to", BODY), bytes(1000)), target, silent, DIGEST)
    assert server.asked == ["/from", "/to"]


def test_a_redirect_that_leads_back_is_told(server, target) -> None:
    redirecting(server, "/a", server.address + "/b?s3cret")
    url = redirecting(server, "/b", server.address + "/a")
    with pytest.raises(UnreachableError) as error:
        fetch(url.replace("//", "//pushkin:hunter2@"), target, silent)
    shown = url.replace("//", "//***@")
    assert str(error.value) == f"{shown}: redirected 30 times without an end; the right address would do."


@pytest.mark.parametrize("again", [(), (2000,)], ids=["whole", "cut"])
def test_a_redirect_to_another_host_takes_no_password_along(again, server, target) -> None:
    given: list[tuple[str, str | None]] = []

    def reply(request: BaseHTTPRequestHandler) -> None:
        given.append((request.path, request.headers["Authorization"]))
        Frail.__call__(frail, request)

    frail = Frail(list(again))
    server.replies["/to"] = reply
    other = server.address.replace("127.0.0.1", "localhost")
    url = redirecting(server, "/from", f"{other}/to").replace("//", "//pushkin:hunter2@")
    fetch(url, target, silent, DIGEST)
    assert given == [("/to", None)] * (1 + len(again))
    url = redirecting(server, "/from", f"{server.address}/to").replace("//", "//pushkin:hunter2@")
    fetch(url, target, silent, DIGEST)
    assert given[-1] == ("/to", "Basic cHVzaGtpbjpodW50ZXIy")  # the same host may know it


# ---- too large


@pytest.mark.parametrize("announced", ["10001", "9" * 40, "9" * 5000], ids=["over", "absurd", "no int"])
def test_a_length_over_the_bound_is_refused_before_anything_is_read(announced, server, target, monkeypatch) -> None:
    monkeypatch.setattr(fetching, "MAX_BYTES", 10_000)
    url = server.has("/file", b"", announced=announced)
    with pytest.raises(BukvaError, match=f"^{re.escape(url)}: has more than 10000 bytes; no corpus needs so many"):
        fetch(url, target, lambda *_: pytest.fail("it was read"))
    assert len(server.asked) == 1
    assert not target.exists()


def test_an_endless_body_is_refused_when_it_is_over_the_bound(server, target, monkeypatch) -> None:
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
    told: list[int] = []
    with pytest.raises(BukvaError, match="has more than 1000000 bytes"):
        fetch(server.address + "/file", target, lambda n, _: told.append(n))
    assert told[-1] <= 1_000_000 + fetching.PIECE_BYTES
    assert not target.exists()


def test_as_many_bytes_as_the_bound_are_not_too_many(server, target, monkeypatch) -> None:
    monkeypatch.setattr(fetching, "MAX_BYTES", len(BODY))
    fetch(server.has("/file", BODY), target, silent, DIGEST)


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
