"""A server on this machine that says what a test wants it to say, and no mirror unless a test names one."""

import threading
import tracemalloc
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

Reply = Callable[[BaseHTTPRequestHandler], None]


@dataclass
class Server:
    """Replies by path, and the paths that were asked for."""

    address: str = ""
    replies: dict[str, Reply] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)

    def has(self, path: str, body: bytes, status: int = 200, announced: int | None = None) -> str:
        """Make the server give a body; returns the address of it."""

        def reply(request: BaseHTTPRequestHandler) -> None:
            request.send_response(status)
            request.send_header("Content-Length", str(len(body) if announced is None else announced))
            request.end_headers()
            request.wfile.write(body)

        self.replies[path] = reply
        return self.address + path


@pytest.fixture
def server() -> Iterator[Server]:
    said = Server()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            said.asked.append(self.path)
            reply = said.replies.get(self.path.partition("?")[0])
            if reply:
                reply(self)
            else:
                self.send_error(404)

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as listening:
        said.address = f"http://127.0.0.1:{listening.server_port}"
        thread = threading.Thread(target=listening.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield said
        listening.shutdown()
        thread.join()


@pytest.fixture
def peak_memory() -> Iterator[Callable[[], int]]:
    """Tells how many bytes Python and numpy have held at most since the test began."""
    tracemalloc.start()
    yield lambda: tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()


@pytest.fixture(autouse=True)
def no_mirror_no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in ("BUKVA_MIRROR", "http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setattr("bukva.corpus.fetching.BACKOFF_SECONDS", 0)
