"""Serves the playground to this machine."""

from bukva.base.loopback import HOST, listen
from bukva.config.schema import Params
from bukva.serving.library import Library
from bukva.serving.playground.app import playground

GRACE_SECONDS = 1  # for texts that are being written when Ctrl-C is pressed


def serve(params: Params, port: int) -> None:
    """Print the address, and serve the page until Ctrl-C, from this port or the next free one.

    Raises:
        BukvaError: no model is here.
    """
    import uvicorn

    library = Library(params.compute)
    library.choices()  # before the address is printed: there may be none
    app = playground(library, params.sample)
    server = uvicorn.Server(uvicorn.Config(app, log_level="warning", timeout_graceful_shutdown=GRACE_SECONDS))
    with listen(port) as found:  # before the address is printed, so that it can be opened at once
        print(f"Open (Ctrl-C ends it): http://{HOST}:{found.getsockname()[1]}", flush=True)
        server.run(sockets=[found])
