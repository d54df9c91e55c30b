"""A server on loopback whose replies a test chooses."""

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

Reply = Callable[[BaseHTTPRequestHandler], None]


@contextmanager
def serving(reply: Reply) -> Iterator[str]:
    """Answer each GET and HEAD on loopback with this reply; gives the address."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            reply(self)

        do_HEAD = do_GET  # noqa: N815

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as listening:
        thread = threading.Thread(target=listening.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield f"http://127.0.0.1:{listening.server_port}"
        listening.shutdown()
        thread.join()


@dataclass
class Server:
    """Replies by path, and the requested paths."""

    address: str = ""
    replies: dict[str, Reply] = field(default_factory=dict)
    requested: list[str] = field(default_factory=list)

    def __call__(self, request: BaseHTTPRequestHandler) -> None:
        self.requested.append(request.path)
        reply = self.replies.get(request.path.partition("?")[0], lambda request: request.send_error(404))
        reply(request)

    def has(self, path: str, body: bytes, status: int = 200, announced: object = None) -> str:
        length = {"Content-Length": len(body) if announced is None else announced}
        self.replies[path] = lambda request: send(request, body, length, status)
        return self.address + path


def send(request: BaseHTTPRequestHandler, body: bytes, headers: Mapping[str, object], status: int = 200) -> None:
    request.send_response(status)
    for name, value in headers.items():
        request.send_header(name, str(value))
    request.end_headers()
    request.wfile.write(body)
