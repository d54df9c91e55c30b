"""A local server whose replies a test chooses, and no mirror unless a test sets one."""

import threading
import tracemalloc
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

Reply = Callable[[BaseHTTPRequestHandler], None]


@dataclass
class Server:
    """Replies by path, and the requested paths."""

    address: str = ""
    replies: dict[str, Reply] = field(default_factory=dict)
    requested: list[str] = field(default_factory=list)

    def has(self, path: str, body: bytes, status: int = 200, announced: int | None = None) -> str:
        """Make the server send a body; returns its address."""

        def reply(request: BaseHTTPRequestHandler) -> None:
            request.send_response(status)
            request.send_header("Content-Length", str(len(body) if announced is None else announced))
            request.end_headers()
            request.wfile.write(body)

        self.replies[path] = reply
        return self.address + path


@pytest.fixture
def server() -> Iterator[Server]:
    served = Server()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            served.requested.append(self.path)
            reply = served.replies.get(self.path.partition("?")[0])
            if reply:
                reply(self)
            else:
                self.send_error(404)

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as listening:
        served.address = f"http://127.0.0.1:{listening.server_port}"
        thread = threading.Thread(target=listening.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield served
        listening.shutdown()
        thread.join()


@pytest.fixture
def peak_memory() -> Iterator[Callable[[], int]]:
    """The function returned gives the peak memory of Python and numpy since the test began, in bytes."""
    tracemalloc.start()
    yield lambda: tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()


@pytest.fixture(autouse=True)
def no_mirror_and_no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in ("BUKVA_MIRROR", "http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setattr("bukva.corpus.sources.fetching.BACKOFF_SECONDS", 0)
